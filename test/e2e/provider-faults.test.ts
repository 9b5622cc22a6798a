import { afterEach, describe, expect, test } from 'vitest';
import type { Fault } from '../helpers/model-server/reply.ts';
import { startModelServer } from '../helpers/model-server/server.ts';
import { payloads, type Rig, readLog, startRig } from './rig.ts';

/** Retries at once, so that only what a test is about takes time. */
const QUICK = 'runtime: { limits: { backoffMs: 1, attemptsMax: 3 } }\n';
const OVERLOADED: Fault = { kind: 'status', status: 529 };

let rig: Rig;
afterEach(() => rig.close());

describe('a provider that fails', () => {
  test('twice with 529 is asked a third time; readers see each retry and its wait', async () => {
    rig = await startRig({ yaml: QUICK });
    rig.model.script([{ fault: OVERLOADED }, { fault: OVERLOADED }, { text: 'here I am' }]);
    const { id } = await rig.client.session.create({});
    expect((await rig.client.session.prompt(id, { content: 'Hello?' })).content).toBe('here I am');
    const log = await readLog(rig.client, id);
    expect(payloads(log, 'harness:error')).toMatchObject([
      { code: 'provider_overloaded', recoverable: true },
      { code: 'provider_overloaded', recoverable: true },
    ]);
    expect(payloads(log, 'harness:retry')).toMatchObject([
      { attempt: 2, code: 'provider_overloaded' },
      { attempt: 3, code: 'provider_overloaded' },
    ]);
    expect(payloads(log, 'timer:set')).toMatchObject([{ id: 'backoff' }, { id: 'backoff' }]);
    expect(payloads(log, 'timer:fired').length).toBe(2);
    expect(payloads(log, 'harness:start').map(({ key }) => key)).toEqual(['t1.r1.a1', 't1.r1.a2', 't1.r1.a3']);
    expect(payloads(log, 'turn:end')).toMatchObject([{ rounds: 1, stopReason: 'end_turn' }]);
  });

  test('and names a time is not asked before it', async () => {
    rig = await startRig({ yaml: QUICK });
    rig.model.script([{ fault: { kind: 'status', status: 429, headers: { 'retry-after': '1' } } }, { text: 'now' }]);
    const { id } = await rig.client.session.create({});
    expect((await rig.client.session.prompt(id, { content: 'Hello?' })).content).toBe('now');
    const log = await readLog(rig.client, id);
    expect(payloads(log, 'harness:retry')).toMatchObject([{ delayMs: 1_000 }]);
    const [set, fired] = ['timer:set', 'timer:fired'].map((name) => Date.parse(log.find((signal) => signal.name === name)!.timestamp));
    expect(fired! - set!).toBeGreaterThanOrEqual(1_000);
  });

  test('and names a longer time than a turn waits is not asked again', async () => {
    rig = await startRig({ yaml: QUICK });
    rig.model.script([{ fault: { kind: 'status', status: 429, headers: { 'retry-after': '120' } } }, { text: 'too early' }]);
    const { id } = await rig.client.session.create({});
    await expect(rig.client.session.prompt(id, { content: 'Hello?' })).rejects.toMatchObject({
      code: 'provider_overloaded',
      detail: expect.stringContaining('it asks to wait 120000 ms, more than runtime.limits.retryAfterMsMax (60000 ms)'),
    });
    expect(rig.model.requests.length).toBe(1);
  });

  test('until the attempts are used up fails the turn with 503; the session goes on', async () => {
    rig = await startRig({ yaml: QUICK });
    rig.model.script([{ fault: OVERLOADED }, { fault: OVERLOADED }, { fault: OVERLOADED }, { text: 'back again' }]);
    const { id } = await rig.client.session.create({});
    const response = await fetch(`${rig.runtimeUrl}/session/${id}/prompt`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ content: 'Hello?', id: 'p1' }),
    });
    expect([response.status, response.headers.get('content-type'), await response.json()]).toMatchObject([
      503,
      expect.stringContaining('application/problem+json'),
      { code: 'provider_overloaded', promptId: 'p1', session: id },
    ]);
    expect(await rig.client.session.getPrompt(id, 'p1')).toMatchObject({ status: 'failed', error: { code: 'provider_overloaded' } });
    expect((await rig.client.session.prompt(id, { content: 'Hello?' })).content).toBe('back again');
    const log = await readLog(rig.client, id);
    expect(payloads(log, 'session:failed')).toMatchObject([{ code: 'provider_overloaded', recoverable: true }]);
    expect(payloads(log, 'turn:end').map(({ stopReason }) => stopReason)).toEqual(['error', 'end_turn']);
  });

  test('in a way that will not pass is asked once', async () => {
    rig = await startRig({ yaml: QUICK });
    rig.model.script([{ fault: { kind: 'status', status: 401 } }]);
    const { id } = await rig.client.session.create({});
    await expect(rig.client.session.prompt(id, { content: 'Hello?' })).rejects.toMatchObject({ code: 'provider_refused', status: 502 });
    expect(rig.model.requests.length).toBe(1);
  });

  test('because it does not know the model is told as such and asked once', async () => {
    rig = await startRig({ yaml: QUICK });
    const body = '{"type":"error","error":{"type":"not_found_error","message":"model: nope"}}';
    rig.model.script([{ fault: { kind: 'status', status: 404, body } }]);
    const { id } = await rig.client.session.create({ model: 'nope' });
    await expect(rig.client.session.prompt(id, { content: 'Hello?' })).rejects.toMatchObject({ code: 'unknown_model', status: 400 });
    expect(rig.model.requests.filter(({ body: sent }) => 'messages' in sent).length).toBe(1);
  });

  test('for good makes way for the fallback, in the same turn', async () => {
    const other = await startModelServer({ reply: { text: 'from the other one' } });
    const yaml = [
      'runtime:',
      '  limits: { backoffMs: 1, attemptsMax: 2 }',
      '  default: first',
      '  providers:',
      '    first: { kind: anthropic, baseUrl: $MODEL, apiKey: test }',
      `    second: { kind: openai-compatible, baseUrl: "${other.url}/v1", model: scripted }`,
      '  fallback: [{ provider: second }]',
    ];
    rig = await startRig({ yaml: yaml.join('\n') });
    rig.model.respond(() => ({ fault: OVERLOADED }));
    const { id } = await rig.client.session.create({});
    expect(await rig.client.session.prompt(id, { content: 'Hello?' })).toMatchObject({
      status: 'completed',
      content: 'from the other one',
    });
    expect([rig.model.requests.length, other.requests.map(({ wire }) => wire)]).toEqual([2, ['chat']]);
    const starts = payloads(await readLog(rig.client, id), 'harness:start');
    expect(starts.map(({ provider, attempt }) => [provider, attempt])).toEqual([
      ['first', 1],
      ['first', 2],
      ['second', 1],
    ]);
    expect(new Set(starts.map(({ key }) => key)).size).toBe(3);
    await other.close();
  });
});

test('a provider that asks for more patience than there is makes way for the fallback at once', async () => {
  const other = await startModelServer({ reply: { text: 'from the other one' } });
  const second = `{ kind: openai-compatible, baseUrl: "${other.url}/v1", model: scripted }`;
  rig = await startRig({
    yaml: `runtime:\n  limits: { retryAfterMsMax: 500 }\n  providers:\n    second: ${second}\n  default: anthropic\n  fallback: [{ provider: second }]\n`,
  });
  rig.model.script([{ fault: { kind: 'status', status: 429, headers: { 'retry-after': '1' } } }]);
  const { id } = await rig.client.session.create({});
  expect(await rig.client.session.prompt(id, { content: 'Hello?' })).toMatchObject({ content: 'from the other one' });
  expect(rig.model.requests.length).toBe(1);
  expect(payloads(await readLog(rig.client, id), 'harness:retry')).toMatchObject([{ attempt: 1, delayMs: 0 }]);
  await other.close();
});

describe('an answer that breaks off', () => {
  const BROKEN: [string, Fault, string][] = [
    ['by a cut', { kind: 'cut', after: 3 }, 'provider_stream_cut'],
    ['by an end without its last event', { kind: 'end', after: 3 }, 'provider_stream_cut'],
    ['by something unreadable', { kind: 'bad-json', after: 3 }, 'provider_malformed'],
    ['by an error of the provider', { kind: 'error-event', after: 3, error: 'overloaded' }, 'provider_overloaded'],
    ['by silence', { kind: 'stall', after: 3 }, 'provider_timeout'],
  ];

  test.each(BROKEN)('%s is asked for again; the text stands once, and readers are told what is void', async (_name, fault, code) => {
    rig = await startRig({
      yaml: [
        'runtime:',
        '  limits: { backoffMs: 1 }',
        '  providers:',
        '    anthropic: { kind: anthropic, baseUrl: $MODEL, apiKey: test, stallTimeoutMs: 200 }',
      ].join('\n'),
    });
    const text = 'one two three four five six';
    rig.model.script([
      { text, fault, delayMs: 2 },
      { text, delayMs: 2 },
    ]);
    const { id } = await rig.client.session.create({});
    const prompt = rig.client.session.prompt(id, { content: 'Count.' });
    let shown = '';
    let voided = '';
    for await (const event of rig.client.session.stream(id)) {
      if (event.name === 'text:delta') shown += event.content;
      if (event.name === 'harness:retry') {
        voided = shown;
        shown = '';
      }
      if (event.name === 'turn:end') break;
    }
    expect(await prompt).toMatchObject({ status: 'completed', content: text });
    expect(shown).toBe(text);
    expect(text.startsWith(voided)).toBe(true);
    const log = await readLog(rig.client, id);
    expect(payloads(log, 'harness:error')).toMatchObject([{ code }]);
    expect(payloads(log, 'text:complete')).toEqual([{ key: 't1.r1.a2', content: text }]);
    expect((await rig.client.session.messages(id)).map(({ role, content }) => [role, content])).toEqual([
      ['user', 'Count.'],
      ['assistant', text],
    ]);
  });
});
