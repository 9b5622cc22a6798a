import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startModelServer } from '../helpers/model-server/server.ts';
import { startSignetProcess } from '../helpers/signet.ts';
import { payloads, readLog, wireEnvironment } from './rig.ts';

test.each(['killed', 'stopped'])(
  'a process %s while a session waits for its child has one child afterwards, and its answer',
  async (how) => {
    const folder = mkdtempSync(join(tmpdir(), 'signet-spawn-'));
    const model = await startModelServer();
    const options = {
      folder,
      yaml: 'runtime: { limits: { drainTimeoutMs: 200 } }\n',
      env: { ...wireEnvironment('anthropic', model.url), SIGNET_LOG_LEVEL: 'warn' },
    };
    let signet = await startSignetProcess(options);
    try {
      model.gate();
      const { id } = await signet.client.session.create({});
      await signet.client.session.promptAsync(id, { content: 'Have it counted.', promptId: 'p1' });
      (await model.next(15_000)).reply({ toolCalls: [{ id: 'c1', name: 'spawn_session', input: { prompt: 'Count.' } }] });
      await model.next(15_000); // The child asks, and the process ends.
      await (how === 'killed' ? signet.kill() : signet.close());
      signet = await startSignetProcess(options);
      const answer = signet.client.session.prompt(id, { content: 'Have it counted.', promptId: 'p1' });
      (await model.next(15_000)).reply({ text: 'Seven.' });
      (await model.next(15_000)).reply({ text: 'It is seven.' });
      expect(await answer).toMatchObject({ status: 'completed', content: 'It is seven.' });
      const { items } = await signet.client.session.children(id);
      expect(items.length).toBe(1);
      await signet.client.session.wait(items[0]!.id, { state: 'ended', timeoutMs: 15_000 });
      const log = await readLog(signet.client, items[0]!.id);
      expect(payloads(log, 'prompt:received').length).toBe(1);
      expect(payloads(log, 'turn:end')).toMatchObject([{ stopReason: 'end_turn' }]);
    } finally {
      await signet.kill();
      await model.close();
      rmSync(folder, { recursive: true, force: true });
    }
  },
);
