import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startSignet } from '../helpers/signet.ts';
import { openSse } from '../helpers/sse-client.ts';

test('the stream of all sessions tells when the process started and stopped, and which keys of agent.yaml changed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-daemon-stream-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const yaml = (decision: string) => `runtime: { approvals: [{ tool: shell, decision: ${decision} }] }\n`;
  const first = await startSignet({ folder, yaml: yaml('ask') });
  await first.close();
  const second = await startSignet({ folder });
  onTestFinished(() => second.close());

  const reader = await openSse(`${second.runtimeUrl}/events?after=0&events=daemon:*,config:*`);
  onTestFinished(() => reader.close());
  await reader.until(({ event, data }) => event === 'daemon:start' && data.seq === 3);
  writeFileSync(join(folder, 'agent.yaml'), yaml('deny'));
  const { data } = await reader.until(({ event }) => event === 'config:changed');

  expect(data).toMatchObject({ stream: 'daemon', seq: 4, payload: { keys: ['runtime.approvals'] } });
  expect(reader.frames.map(({ event }) => event).filter((event) => /^(daemon|config):/.test(event))).toEqual([
    'daemon:start',
    'daemon:stop',
    'daemon:start',
    'config:changed',
  ]);
});
