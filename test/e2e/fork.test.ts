import { afterEach, expect, test } from 'vitest';
import type { Signal } from '../../src/contract/signal.ts';
import { named, payloads, type Rig, readLog, startRig } from './rig.ts';

let rig: Rig;
afterEach(() => rig.close());

const look = { toolCalls: [{ id: 'c1', name: 'look', input: { where: 'here' } }] };

/** One turn with a tool; what the model is asked from then on it answers with `later`. */
async function trunk(toolClass: 'pure' | 'unsafe' = 'pure'): Promise<{ id: string; log: Signal[] }> {
  rig = await startRig();
  await rig.tool('look', () => 'nothing there', { class: toolClass });
  rig.model.script([look, { text: 'It is gone.' }]);
  const { id } = await rig.client.session.create({});
  await rig.client.session.prompt(id, { content: 'Where is it?', promptId: 'where' });
  return { id, log: await readLog(rig.client, id) };
}

const seqOf = (log: readonly Signal[], name: string, nth = 0) => named(log, name)[nth]!.seq;

test('a fork at any signal knows what was asked, and every prompt it knows ends once', async () => {
  const { id, log } = await trunk();
  for (const { seq: at } of log) {
    const { id: fork, forkedFrom } = await rig.client.session.fork(id, { at });
    await rig.client.session.wait(fork, { timeoutMs: 20_000 });
    const begun = log.some(({ name, seq }) => name === 'prompt:received' && seq <= forkedFrom!.seq);
    const asked = (await rig.client.session.messages(fork)).filter(({ role }) => role === 'user').map(({ content }) => content);
    expect({ at, asked }).toEqual({ at, asked: begun ? ['Where is it?'] : [] });
    if (!begun) continue;
    const ended = log.some(({ name, seq }) => name === 'turn:end' && seq <= forkedFrom!.seq);
    const ends = payloads(await readLog(rig.client, fork), 'turn:end').flatMap(({ promptIds }) => promptIds);
    expect({ at, ends }).toEqual({ at, ends: ended ? [] : ['where'] });
    expect(await rig.client.session.getPrompt(fork, 'where')).toMatchObject({ status: 'completed' });
    expect(await rig.client.session.verify(fork)).toMatchObject({ verified: true, divergence: null });
  }
  for (const { body } of rig.model.requests) expect(JSON.stringify(body)).toContain('Where is it?');
});

test('a fork taken while its parent aborts knows nothing of the prompts that were given up', async () => {
  rig = await startRig();
  rig.model.gate();
  const { id } = await rig.client.session.create({});
  const asking = rig.client.session.prompt(id, { content: 'Think.', promptId: 'think' }).catch(() => undefined);
  await expect.poll(() => rig.model.requests.length, { timeout: 10_000 }).toBe(1);
  await rig.client.session.abort(id);
  await asking;
  const at = seqOf(await readLog(rig.client, id), 'session:aborting');
  const fork = await rig.client.session.fork(id, { at });
  expect(fork).toMatchObject({ state: 'idle', turn: null, queue: [] });
  await expect(rig.client.session.getPrompt(fork.id, 'think')).rejects.toMatchObject({ status: 404 });
});

test('a replaced answer of the model is there before the model could be asked', async () => {
  const { id, log } = await trunk();
  const [models, calls] = [rig.model.requests.length, rig.tools.requests.length];
  const at = seqOf(log, 'harness:end', 1);
  const fork = await rig.client.session.fork(id, { at, replaceInput: { content: 'It is under the bed.' } });
  await rig.client.session.wait(fork.id, { timeoutMs: 20_000 });
  expect((await rig.client.session.messages(fork.id)).at(-1)).toMatchObject({ role: 'assistant', content: 'It is under the bed.' });
  expect([rig.model.requests.length, rig.tools.requests.length]).toEqual([models, calls]);
  expect(await rig.client.session.verify(fork.id)).toMatchObject({ verified: true, divergence: null });
});

test('a replaced result of a tool is there before the tool could run, and the model is told of it', async () => {
  const { id, log } = await trunk();
  const calls = rig.tools.requests.length;
  rig.model.script([{ text: 'Found it.' }]);
  const fork = await rig.client.session.fork(id, { at: seqOf(log, 'tool:result'), replaceInput: { output: 'a sock' } });
  await rig.client.session.wait(fork.id, { timeoutMs: 20_000 });
  expect(rig.tools.requests.length).toBe(calls);
  expect(JSON.stringify(rig.model.requests.at(-1)!.body)).toContain('a sock');
  expect((await rig.client.session.messages(fork.id)).at(-1)!.content).toBe('Found it.');
  expect(await rig.client.session.verify(fork.id)).toMatchObject({ verified: true, divergence: null });
});

test('an unsafe call that a replaced answer asks for runs; one that ran in the parent does not, and says why', async () => {
  const { id, log } = await trunk('unsafe');
  const calls = rig.tools.requests.length;
  const { toolCalls } = payloads(log, 'harness:end')[0] as { toolCalls: { input: unknown }[] };
  const replaceInput = { toolCalls: [{ ...toolCalls[0], input: { where: 'there' } }] };
  rig.model.script([{ text: 'Nor there.' }]);
  const other = await rig.client.session.fork(id, { at: seqOf(log, 'harness:end'), replaceInput });
  await rig.client.session.wait(other.id, { timeoutMs: 20_000 });
  expect(rig.tools.requests.slice(calls)).toMatchObject([{ body: { input: { where: 'there' } } }]);
  expect(payloads(await readLog(rig.client, other.id), 'tool:result')).toMatchObject([{ output: 'nothing there', isError: false }]);

  rig.model.script([{ text: 'I do not know.' }]);
  const same = await rig.client.session.fork(id, { at: seqOf(log, 'harness:end') });
  await rig.client.session.wait(same.id, { timeoutMs: 20_000 });
  expect(rig.tools.requests.length).toBe(calls + 1);
  const [result] = payloads(await readLog(rig.client, same.id), 'tool:result');
  expect(result).toMatchObject({ isError: true, output: expect.stringContaining('was under way in the session this one was forked from') });
  expect(result!.output).not.toContain('restarted');
});
