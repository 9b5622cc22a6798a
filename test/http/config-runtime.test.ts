import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { call } from '../conformance/calls.ts';
import { startSignet } from '../helpers/signet.ts';

test('approvals and the log level of agent.yaml take effect while sessions run', async () => {
  const yaml = 'agent: { name: Merle }\n';
  const signet = await startSignet({ yaml });
  onTestFinished(() => signet.close());
  const write = async (text: string, keys: string[]) => {
    writeFileSync(join(signet.folder, 'agent.yaml'), text);
    await expect
      .poll(async () => (await call('GET', `${signet.daemonUrl}/api/logs?category=config`)).body.logs.at(-1)?.data.keys, {
        timeout: 10_000,
      })
      .toEqual(keys);
  };
  await signet.client.session.create({ id: 'first_session' });
  const said = await signet.client.session.prompt('first_session', { content: 'remember I like green tea' });
  expect(said.toolResults).toMatchObject([{ name: 'memory_store', isError: false }]);

  await write(`${yaml}runtime: { approvals: [{ tool: memory_store, decision: ask }] }\n`, ['runtime.approvals']);
  const asked = signet.client.session.prompt('first_session', { content: 'remember I like black coffee' });
  const approvals = async () => (await call('GET', `${signet.runtimeUrl}/approvals`)).body.items;
  await expect.poll(approvals, { timeout: 10_000 }).toMatchObject([{ tool: 'memory_store' }]);
  const [{ id }] = await approvals();
  await call('POST', `${signet.runtimeUrl}/session/first_session/approvals/${id}`, { decision: 'deny' });
  await asked;

  const before = (await call('GET', `${signet.daemonUrl}/api/logs?category=hooks&limit=2000`)).body.count;
  expect(before).toBe(0);
  await write(`${readFileSync(join(signet.folder, 'agent.yaml'), 'utf8')}daemon: { logLevel: debug }\n`, ['daemon.logLevel']);
  await signet.client.session.prompt('first_session', { content: 'hello' });
  const { logs } = (await call('GET', `${signet.daemonUrl}/api/logs?category=hooks`)).body;
  expect(logs[0]).toMatchObject({ level: 'debug', message: 'hook called', data: { hook: 'hookUserPromptSubmit' } });
});
