import { afterEach, expect, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { verifies } from '../conformance/verifies.ts';
import type { ModelRequest } from '../helpers/model-server/request.ts';
import { payloads, type Rig, readLog, startRig } from './rig.ts';

/** A model with a window of 1,000 tokens, of which 800 may be used. */
const SMALL = `runtime:
  limits: { backoffMs: 1, attemptsMax: 2 }
  providers:
    small:
      kind: anthropic
      baseUrl: $MODEL
      apiKey: test
      model: scripted
      models: { scripted: { contextTokens: 1000 } }
`;

let rig: Rig;
afterEach(() => rig.close());

/** A session with one finished turn of two messages. */
async function begun(yaml = SMALL, inputTokens = 100): Promise<string> {
  rig = await startRig({ yaml });
  rig.model.script([{ text: 'The kettle is blue.', usage: { inputTokens, outputTokens: 5 } }]);
  const { id } = await rig.client.session.create({});
  await rig.client.session.prompt(id, { content: 'Which colour has the kettle?' });
  return id;
}

function texts({ body }: ModelRequest): string {
  return JSON.stringify(body.messages);
}

verifies(
  'runtime.loop.lifecycle',
  'a conversation that passes its threshold is compacted before the next model call, and the turn goes on with the summary',
  async () => {
    const id = await begun(SMALL, 900);
    rig.model.script([{ text: 'Summary: the kettle is blue.' }, { text: 'Blue, as I said.', usage: { inputTokens: 50, outputTokens: 5 } }]);
    expect((await rig.client.session.prompt(id, { content: 'Say it again.' })).content).toBe('Blue, as I said.');
    const [, summary, after] = rig.model.requests as [ModelRequest, ModelRequest, ModelRequest];
    expect(texts(summary)).toContain('Summarise this conversation');
    expect(texts(summary)).toContain('The kettle is blue.');
    expect(summary.body.tools).toBeUndefined();
    expect(texts(after)).toContain('Summary: the kettle is blue.');
    expect(texts(after)).toContain('Say it again.');
    expect(texts(after)).not.toContain('Which colour has the kettle?');
    const log = await readLog(rig.client, id);
    expect(payloads(log, 'compaction:start')).toMatchObject([{ reason: 'threshold' }]);
    expect(payloads(log, 'hook:start').map(({ hook }) => hook)).toEqual([
      'session-start',
      'user-prompt-submit',
      'user-prompt-submit',
      'pre-compaction',
      'compaction-complete',
    ]);
    const messages = await rig.client.session.messages(id);
    expect(messages.map(({ role, compacted }) => [role, compacted])).toEqual([
      ['user', true],
      ['assistant', true],
      ['summary', false],
      ['user', false],
      ['assistant', false],
    ]);
  },
);

test('a conversation the provider finds too long is compacted and asked again in the same turn', async () => {
  const id = await begun();
  rig.model.script([{ fault: { kind: 'overflow' } }, { text: 'Summary: the kettle is blue.' }, { text: 'Blue.' }]);
  expect(await rig.client.session.prompt(id, { content: 'Again?' })).toMatchObject({ status: 'completed', content: 'Blue.' });
  const log = await readLog(rig.client, id);
  expect(payloads(log, 'context:overflow').length).toBe(1);
  expect(payloads(log, 'compaction:start')).toMatchObject([{ reason: 'overflow' }]);
  expect(payloads(log, 'turn:end').at(-1)).toMatchObject({ stopReason: 'end_turn', rounds: 1 });
  const keys = payloads(log, 'harness:start').map(({ key }) => key);
  expect(new Set(keys).size).toBe(keys.length);
});

test('a conversation that is too long even after its compaction fails the turn, not the session', async () => {
  const id = await begun();
  rig.model.script([{ fault: { kind: 'overflow' } }, { text: 'Summary.' }, { fault: { kind: 'overflow' } }, { text: 'Shorter.' }]);
  await expect(rig.client.session.prompt(id, { content: 'Again?' })).rejects.toMatchObject({ code: 'context_overflow', status: 502 });
  expect((await rig.client.session.prompt(id, { content: 'Again?' })).content).toBe('Shorter.');
});

test('a compaction a client asks for stores its summary as a memory; the next turn begins with it', async () => {
  const id = await begun(SMALL, 700);
  rig.model.script([{ text: 'Summary: the kettle is blue.' }, { text: 'Blue.' }]);
  const done = await rig.client.session.compact(id);
  expect(done).toMatchObject({ tokensBefore: expect.any(Number), memoryId: expect.any(String) });
  expect(done.tokensAfter).toBeLessThan(done.tokensBefore);
  const memory = await rig.daemon.call(daemonOperations.getMemory, { id: done.memoryId!, agentId: 'default' });
  expect(JSON.stringify(memory)).toContain('Summary: the kettle is blue.');
  expect(JSON.stringify(memory)).toContain('session_summary');
  await rig.client.session.prompt(id, { content: 'Again?' });
  expect(texts(rig.model.requests[2]!)).toContain('Summary: the kettle is blue.');
  expect(texts(rig.model.requests[2]!)).not.toContain('Which colour has the kettle?');
  const log = await readLog(rig.client, id);
  expect(payloads(log, 'compaction:complete')).toMatchObject([{ memoryId: done.memoryId }]);
});

test('there is nothing to compact in a new session, and no compaction in the middle of a turn', async () => {
  rig = await startRig({ yaml: SMALL });
  const { id } = await rig.client.session.create({});
  await rig.client.session.wait(id);
  await expect(rig.client.session.compact(id)).rejects.toMatchObject({ code: 'nothing_to_compact', status: 409 });
  rig.model.gate();
  const prompt = rig.client.session.prompt(id, { content: 'Hello?' });
  const held = await rig.model.next();
  await expect(rig.client.session.compact(id)).rejects.toMatchObject({ code: 'turn_open', status: 409 });
  held.reply({});
  await prompt;
});

test('a summary call that fails in passing is tried again; two compactions that fail end the turn', async () => {
  const id = await begun(SMALL, 900);
  const refused = { fault: { kind: 'status', status: 401 } } as const;
  rig.model.script([{ fault: { kind: 'status', status: 529 } }, refused, refused, { text: 'Summary.' }, { text: 'Blue.' }]);
  await expect(rig.client.session.prompt(id, { content: 'Again?' })).rejects.toMatchObject({ code: 'compaction_failed', status: 502 });
  const log = await readLog(rig.client, id);
  expect(payloads(log, 'compaction:error')).toMatchObject([
    { code: 'provider_refused', failures: 1 },
    { code: 'provider_refused', failures: 2 },
  ]);
  expect(payloads(log, 'compaction:start')).toMatchObject([{ reason: 'threshold' }, { reason: 'threshold' }]);
  expect(payloads(log, 'harness:retry')).toMatchObject([{ code: 'provider_overloaded' }]);
  expect((await rig.client.session.prompt(id, { content: 'Again?' })).content).toBe('Blue.');
});

test('an empty summary counts as a failure, and the conversation is kept', async () => {
  const id = await begun();
  rig.model.script([{ text: ' ' }, { text: 'Blue.' }]);
  await expect(rig.client.session.compact(id)).rejects.toMatchObject({ code: 'compaction_failed' });
  expect(await rig.client.session.get(id)).toMatchObject({ state: 'idle' });
  await rig.client.session.prompt(id, { content: 'Again?' });
  expect(texts(rig.model.requests.at(-1)!)).toContain('Which colour has the kettle?');
});

test('another model writes the summaries when the configuration routes them to it', async () => {
  const id = await begun(`${SMALL}  routing: { compaction: { provider: small, model: cheap } }\n`);
  rig.model.script([{ text: 'Summary: the kettle is blue.' }, { text: 'Blue.' }]);
  await rig.client.session.compact(id);
  await rig.client.session.prompt(id, { content: 'Again?' });
  expect(rig.model.requests.map(({ model }) => model)).toEqual(['scripted', 'cheap', 'scripted']);
});
