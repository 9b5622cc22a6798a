import { afterAll, beforeAll, expect, test } from 'vitest';
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

test('a fork at any signal settles, verifies, and leaves its parent alone', async () => {
  const before = await signet.client.session.verify(id);
  for (let at = 1; at <= head; at += 1) {
    const fork = await signet.client.session.fork(id, { at });
    expect(fork.forkedFrom).toEqual({ session: id, seq: at });
    await signet.client.session.wait(fork.id, { timeoutMs: 20_000 });
    const { verified, divergence } = await signet.client.session.verify(fork.id);
    expect({ at, verified, divergence }).toEqual({ at, verified: true, divergence: null });
    expect((await signet.client.session.get(fork.id)).state).toBe('idle');
  }
  expect(await signet.client.session.verify(id)).toEqual(before);
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

test('a fork does not need its parent any more', async () => {
  const trunk = await signet.client.session.create({});
  await signet.client.session.prompt(trunk.id, { content: 'hello' });
  const fork = await signet.client.session.fork(trunk.id);
  await signet.client.session.end(trunk.id, { purge: true });

  expect((await signet.client.session.verify(fork.id)).verified).toBe(true);
  expect(await signet.client.session.messages(fork.id)).toHaveLength(2);
});
