import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Signal } from '../../src/contract/signal.ts';
import { isAppError } from '../../src/core/errors.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

let signet: Signet;
let id: string;
let head: number;

beforeAll(async () => {
  signet = await startSignet();
  id = (await signet.client.session.create({ title: 'the trunk' })).id;
  await signet.client.session.prompt(id, { content: 'remember I like tea', promptId: 'first' });
  await signet.client.session.prompt(id, { content: 'hello', promptId: 'second' });
  await signet.client.session.end(id);
  head = (await signet.client.session.get(id)).seq;
});

afterAll(() => signet.close());

/** Last signal of the step that `at` belongs to: the machine's words follow the input they answer. */
function stepEnd(log: readonly Signal[], at: number): number {
  const next = log.find(
    ({ seq, name, source }) => seq > at && !name.startsWith('supervisor:child:') && !/machine|effect/.test(source.kind),
  );
  return next ? next.seq - 1 : log.length;
}

test('a fork at any signal settles, verifies, and leaves its parent alone', async () => {
  const before = await signet.client.session.verify(id);
  const log = (await signet.client.session.events(id, { limit: 1_000 })).items;
  for (let at = 1; at <= head; at += 1) {
    const fork = await signet.client.session.fork(id, { at });
    expect(fork.forkedFrom).toEqual({ session: id, seq: stepEnd(log, at) });
    await signet.client.session.wait(fork.id, { timeoutMs: 20_000 });
    const { verified, divergence } = await signet.client.session.verify(fork.id);
    expect({ at, verified, divergence }).toEqual({ at, verified: true, divergence: null });
    expect((await signet.client.session.get(fork.id)).state).toBe('idle');
  }
  expect(await signet.client.session.verify(id)).toEqual(before);
});

test('the place of a fork has two names, of which one is given', async () => {
  const [byAt, bySeq] = [await signet.client.session.fork(id, { at: 5 }), await signet.client.session.fork(id, { atSeq: 5 })];
  expect(bySeq.forkedFrom).toEqual(byAt.forkedFrom);
  expect(bySeq.forkedFrom!.seq).toBeLessThan(head);
  await expect(signet.client.session.fork(id, { at: 5, atSeq: 5 })).rejects.toMatchObject({
    code: 'invalid_request',
    errors: [{ pointer: '/atSeq' }],
  });
});

test('a past state is that after the whole step of the signal, and says where it ends', async () => {
  const log = (await signet.client.session.events(id, { limit: 1_000 })).items;
  const states = new Map<number, unknown>();
  for (let at = 1; at <= head; at += 1) {
    const past = await signet.client.session.stateAt(id, at);
    expect({ at, seq: past.seq, folded: past.session.seq }).toEqual({ at, seq: stepEnd(log, at), folded: stepEnd(log, at) });
    // All signals of a step show one and the same state.
    expect(states.get(past.seq) ?? past).toEqual(past);
    states.set(past.seq, past);
  }
  const entered = log.find(({ name }) => name === 'session:researching')!;
  expect(await signet.client.session.stateAt(id, entered.seq - 1)).toMatchObject({
    state: 'researching',
    session: { turn: { number: 1 } },
  });
  await expect(signet.client.session.stateAt(id, head + 1)).rejects.toMatchObject({ code: 'invalid_cursor' });
});

test('a fork goes on from what was said, and has its own key and its own costs', async () => {
  const fork = await signet.client.session.fork(id, { title: 'a branch' });
  expect(fork).toMatchObject({ title: 'a branch', turns: 2, usage: { inputTokens: 0, outputTokens: 0 }, sessionKey: fork.id });
  await signet.client.session.prompt(fork.id, { content: 'and now?' });

  const said = (await signet.client.session.messages(fork.id))
    .filter((message) => message.role === 'user')
    .map((message) => message.content);
  expect(said).toEqual(['remember I like tea', 'hello', 'and now?']);
  expect((await signet.client.session.get(fork.id)).turns).toBe(3);
});

test('a prompt of the parent that is sent to a fork again has its answer, also in a fork of the fork', async () => {
  const answer = await signet.client.session.prompt(id, { content: 'remember I like tea', promptId: 'first' });
  const fork = await signet.client.session.fork(id, {});
  await signet.client.session.prompt(fork.id, { content: 'something else, told at length', promptId: 'own' });
  const again = await signet.client.session.fork(fork.id, {});

  for (const session of [fork.id, again.id]) {
    expect(await signet.client.session.prompt(session, { content: 'remember I like tea', promptId: 'first' })).toEqual(answer);
    expect((await signet.client.session.get(session)).turns).toBe(3);
  }
  const own = await signet.client.session.prompt(fork.id, { content: 'something else, told at length', promptId: 'own' });
  expect(own.content).toContain('something else');
  expect(await signet.client.session.prompt(again.id, { content: 'something else, told at length', promptId: 'own' })).toEqual(own);
});

test('an input can be replaced: the turn goes another way from there', async () => {
  const events = (await signet.client.session.events(id, { limit: 1_000 })).items;
  const prompt = events.find((signal) => signal.name === 'prompt:received' && signal.payload.promptId === 'second')!;

  const fork = await signet.client.session.fork(id, { at: prompt.seq, replaceInput: { content: 'good evening' } });
  await signet.client.session.wait(fork.id, {});

  const messages = await signet.client.session.messages(fork.id);
  expect(messages.at(-2)).toMatchObject({ role: 'user', content: 'good evening' });
  expect(messages.at(-1)!.content).toContain('You said: "good evening"');
  expect((await signet.client.session.verify(fork.id)).verified).toBe(true);
});

test('only inputs can be replaced, only signals that are there can be forked at', async () => {
  const refused = (input: object) => signet.client.session.fork(id, input).catch((error: unknown) => error);
  expect(isAppError(await refused({ at: head + 1 }), 'invalid_cursor')).toBe(true);
  expect(isAppError(await refused({ at: 2, replaceInput: { content: 'x' } }), 'invalid_request')).toBe(true);
  expect(isAppError(await refused({ replaceInput: { content: 'x' } }), 'invalid_request')).toBe(true);
  expect(isAppError(await refused({ provider: 'nobody' }), 'unknown_provider')).toBe(true);
  expect(isAppError(await refused({ agent: 'nobody' }), 'unknown_agent')).toBe(true);
});

test.each([
  ['prompt:received', { content: 5 }, '/replaceInput/content', 'must be string, not number'],
  ['prompt:received', { contents: 'x' }, '/replaceInput/contents', 'prompt:received has content'],
  ['prompt:received', { promptId: 'x' }, '/replaceInput/promptId', 'leave it out'],
  ['prompt:received', { attachments: [5] }, '/replaceInput/attachments/0', 'attachments'],
  ['harness:end', { key: 't1.m1' }, '/replaceInput/key', 'leave it out'],
  ['harness:end', { toolCalls: [{ id: 1 }] }, '/replaceInput/toolCalls/0/id', 'must be string'],
  ['hook:end', { hook: 'session-end' }, '/replaceInput/hook', 'leave it out'],
])('a replaced %s must still be one: %j', async (name, replaceInput, pointer, detail) => {
  const { items } = await signet.client.session.events(id, { limit: 1_000 });
  const at = items.find((signal) => signal.name === name)!.seq;
  const error = await signet.client.session.fork(id, { at, replaceInput }).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'invalid_request', status: 400 });
  const { errors } = error as { errors: { pointer: string; detail: string }[] };
  expect(errors[0]).toMatchObject({ pointer, detail: expect.stringContaining(detail) });
});

test('messages of a fork are paged one by one in both directions, those it began with as well', async () => {
  const fork = await signet.client.session.fork(id, {});
  await signet.client.session.prompt(fork.id, { content: 'and now?' });
  const again = await signet.client.session.fork(fork.id, {});
  await signet.client.session.prompt(again.id, { content: 'and then?' });
  const all = await signet.client.session.messages(again.id);
  expect(all.length).toBeGreaterThanOrEqual(8);
  expect(all.map(({ seq }) => seq)).toEqual([...new Set(all.map(({ seq }) => seq))].toSorted((a, b) => a - b));
  const pages = async (first: string) => {
    const found: unknown[][] = [];
    for (let path: string | undefined = first; path; ) {
      const response: Response = await fetch(signet.runtimeUrl + path);
      found.push((await response.json()) as unknown[]);
      path = /<([^>]+)>/.exec(response.headers.get('link') ?? '')?.[1];
    }
    return found;
  };
  const one = all.map((message) => [message]);
  expect(await pages(`/session/${again.id}/messages?limit=1&after=0`)).toEqual(one);
  expect(await pages(`/session/${again.id}/messages?limit=1`)).toEqual(one.toReversed());
});

test('a fork does not need its parent any more', async () => {
  const trunk = await signet.client.session.create({});
  await signet.client.session.prompt(trunk.id, { content: 'hello' });
  const fork = await signet.client.session.fork(trunk.id);
  await signet.client.session.end(trunk.id, { purge: true });

  expect((await signet.client.session.verify(fork.id)).verified).toBe(true);
  expect(await signet.client.session.messages(fork.id)).toHaveLength(2);
});

test('a fork differs from its parent from where it parts, and not before', async () => {
  const { session } = signet.client;
  const trunk = (await session.create({})).id;
  for (const content of ['remember I like tea', 'hello']) await session.prompt(trunk, { content });
  const log = (await session.events(trunk, { limit: 1_000 })).items;
  const equal = (until: number) => log.filter(({ seq, source }) => seq <= until && source.kind !== 'system').length;
  const prompts = log.filter(({ name }) => name === 'prompt:received');

  const same = (await session.fork(trunk, {})).id;
  const all = { equal: true, compared: equal(log.length), first: null, state: [] };
  expect(await session.diff(trunk, same)).toMatchObject(all);
  for (const { seq: at } of log.filter(({ name }) => /^(harness:start|turn:end|tool:call|session:idle)$/.test(name))) {
    const fork = await session.fork(trunk, { at });
    await session.wait(fork.id, { timeoutMs: 20_000 });
    // What was open goes on as it did in the parent, which was given another prompt then, or was not.
    const next = prompts.find(({ seq }) => seq > at);
    const { compared, first } = await session.diff(trunk, fork.id);
    expect({ at, compared, first }).toEqual({
      at,
      compared: next ? equal(next.seq - 1) : all.compared,
      first: next ? { a: { seq: next.seq, name: next.name }, b: null, differences: [] } : null,
    });
  }
  const { seq } = prompts.at(-1)!;
  const other = await session.fork(trunk, { at: seq, replaceInput: { content: 'good evening' } });
  await session.wait(other.id, { timeoutMs: 20_000 });
  const parted = { compared: equal(seq - 1), first: { differences: [{ path: 'payload.content', b: 'good evening' }] } };
  expect(await session.diff(trunk, other.id)).toMatchObject({ ...parted, first: { a: { seq }, ...parted.first } });
  expect(await session.diff(same, other.id)).toMatchObject(parted);

  const grandchild = (await session.fork(same, {})).id;
  for (const id of [trunk, same, grandchild]) await session.prompt(id, { content: 'and now?' });
  for (const id of [same, grandchild]) expect(await session.diff(trunk, id)).toMatchObject({ equal: true, first: null, state: [] });
});

test('forks of a parent that is gone are compared from where they begin', async () => {
  const { session } = signet.client;
  const trunk = (await session.create({})).id;
  await session.prompt(trunk, { content: 'hello' });
  const forks = [(await session.fork(trunk, {})).id, (await session.fork(trunk, {})).id] as const;
  await session.end(trunk, { purge: true });
  expect(await session.diff(...forks)).toMatchObject({ equal: true, first: null, state: [] });
  await session.prompt(forks[1], { content: 'and now?' });
  expect((await session.diff(...forks)).first).toMatchObject({ a: null, b: { name: 'prompt:received' } });
});
