import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));

let folder: string;
let running: SignetProcess | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signet-lost-'));
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  rmSync(folder, { recursive: true, force: true });
});

const start = async () => {
  running = await startSignetProcess({ folder });
  return running;
};
const stop = async () => {
  await running?.close();
  running = undefined;
};
async function rememberMemory(signet: SignetProcess, content: string): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(`${signet.daemonUrl}/api/memory/remember`, { method: 'POST', headers, body: JSON.stringify({ content }) });
  expect(answer.status).toBeLessThan(300);
}

const daemonHealth = async (signet: SignetProcess) =>
  (await (await fetch(`${signet.daemonUrl}/health`)).json()) as { status: string; reasons: string[] };

test('a write-ahead log that is deleted after a kill is told by the health until the loss is accepted', async () => {
  const first = await start();
  await first.client.session.create({});
  await rememberMemory(first, 'the cello is in the attic');
  await first.kill();
  running = undefined;
  for (const name of ['signals', 'memory']) {
    expect(existsSync(join(folder, 'data', `${name}.db-wal`))).toBe(true);
    rmSync(join(folder, 'data', `${name}.db-wal`));
  }

  // It stays so until somebody has accepted it, whatever is written meanwhile.
  for (let starts = 0; starts < 2; starts += 1) {
    const next = await start();
    await next.client.session.create({});
    const health = await next.client.health();
    expect(health).toMatchObject({ status: 'degraded', reasons: [expect.stringMatching(/signals\.db lost signals \d+ to \d+/)] });
    expect(await daemonHealth(next)).toMatchObject({
      status: 'degraded',
      db: true,
      reasons: [expect.stringMatching(/memory\.db lost commits \d+ to \d+/)],
    });
    const env = { PATH: process.env.PATH, HOME: folder, SIGNET_PATH: folder };
    const status = JSON.parse(execFileSync(process.execPath, [LAUNCHER, 'status', '--json'], { env, encoding: 'utf8' }));
    expect(status.health).toBe('degraded');
    expect(status.reasons.join()).toMatch(/signals\.db lost signals.*memory\.db lost commits/);
    await stop();
  }
  for (const name of ['signals', 'memory']) rmSync(join(folder, 'data', `${name}.mark`));
  const accepted = await start();
  expect((await accepted.client.health()).status).toBe('healthy');
  expect((await daemonHealth(accepted)).status).toBe('healthy');
});

test('an older copy that is put back is told once in the log, and healthy', async () => {
  await start();
  await stop();
  for (const name of ['signals', 'memory']) copyFileSync(join(folder, 'data', `${name}.db`), join(folder, `${name}.backup`));
  const second = await start();
  await second.client.session.create({});
  await rememberMemory(second, 'the cello is in the attic');
  await stop();
  for (const name of ['signals', 'memory']) renameSync(join(folder, `${name}.backup`), join(folder, 'data', `${name}.db`));

  const third = await start();
  expect((await third.client.health()).status).toBe('healthy');
  expect((await daemonHealth(third)).status).toBe('healthy');
  for (const name of ['signals', 'memory']) expect(third.output()).toMatch(new RegExp(`${name}\\.db is an older copy`));
  await stop();
  const fourth = await start();
  expect(fourth.output()).not.toContain('is an older copy');
});

test('kills alone raise no alarm', async () => {
  for (let kills = 0; kills < 4; kills += 1) {
    const signet = await start();
    expect((await signet.client.health()).reasons).toEqual([]);
    expect((await daemonHealth(signet)).reasons).toEqual([]);
    await Promise.all([signet.client.session.create({}), rememberMemory(signet, `fact number ${kills}`)]);
    await signet.kill();
    running = undefined;
  }
});
