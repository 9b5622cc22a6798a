import { afterEach, expect, test } from 'vitest';
import { nextSignal, payloads, type Rig, readLog, startRig } from './rig.ts';

let rig: Rig;
afterEach(() => rig.close());

test('a session runs at most so many tool calls at once, and all of them in the end, in call order for the model', async () => {
  rig = await startRig({ yaml: 'runtime: { limits: { toolCallsMax: 3 } }\n' });
  let running = 0;
  let most = 0;
  const open: (() => void)[] = [];
  await rig.tool('work', ({ n }, _request, response) => {
    running += 1;
    most = Math.max(most, running);
    open.push(() => {
      running -= 1;
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ output: `done ${n}` }));
    });
    return undefined;
  });
  const ids = Array.from({ length: 9 }, (_, n) => `c${n}`);
  rig.model.script([{ toolCalls: ids.map((id, n) => ({ id, name: 'work', input: { n } })) }, { text: 'All done.' }]);
  const { id } = await rig.client.session.create({});
  const prompt = rig.client.session.prompt(id, { content: 'Work.' });
  for (let finished = 0; finished < ids.length; finished += 1) {
    await expect.poll(() => open.length, { timeout: 10_000 }).toBe(Math.min(3, ids.length - finished));
    open.shift()!();
  }
  expect((await prompt).toolResults.length).toBe(9);
  expect(most).toBe(3);
  const results = (rig.model.requests[1]!.body.messages as { content: { tool_use_id: string }[] }[]).at(-1)!.content;
  expect(results.map((part) => part.tool_use_id)).toEqual(ids);
});

test('an abort takes calls that wait for their turn along, without running them', async () => {
  rig = await startRig({ yaml: 'runtime: { limits: { toolCallsMax: 1 } }\n' });
  await rig.tool('hang', () => undefined);
  rig.model.script([{ toolCalls: [1, 2, 3].map((n) => ({ id: `c${n}`, name: 'hang', input: {} })) }]);
  const { id } = await rig.client.session.create({});
  const prompt = rig.client.session.prompt(id, { content: 'Hang.' });
  await nextSignal(rig.client, id, 'tool:call', (call) => call.id === 'c3');
  await expect.poll(() => rig.tools.requests.length, { timeout: 10_000 }).toBe(1);
  expect(await rig.client.session.abort(id)).toMatchObject({ aborted: true, state: 'idle' });
  expect((await prompt).status).toBe('aborted');
  expect(payloads(await readLog(rig.client, id), 'tool:result').map((result) => (result.error as { code: string }).code)).toEqual([
    'aborted',
    'aborted',
    'aborted',
  ]);
  expect(rig.tools.requests.length).toBe(1);
});
