import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import type { Signal } from '../../src/contract/signal.ts';
import { compilePatterns } from '../../src/core/signal-pattern.ts';
import { signalId, streamToken } from '../../src/core/signal-seal.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { named, nextSignal, payloads, type Rig, readLog, startRig } from '../e2e/rig.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { chainedSignals } from '../helpers/signal-log-conformance.ts';
import { openSse, type SseFrame } from '../helpers/sse-client.ts';

// T5: what an earlier implementation of these signals did wrong, one test each.

const STREAMS = 2_000;

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ yaml: 'runtime: { limits: { attemptsMax: 1, toolTimeoutMs: 200 } }\n' });
});
afterAll(() => rig.close());

test('a trace is not cut at 1,000 signals', async () => {
  rig.model.respond(({ body }) => {
    const rounds = (body.messages as { role: string }[]).filter(({ role }) => role === 'assistant').length;
    return rounds < 12 ? { toolCalls: Array.from({ length: 60 }, () => ({ name: 'nobody_has_it', input: {} })) } : { text: 'Enough.' };
  });
  const { id } = await rig.client.session.create({});
  await rig.client.session.prompt(id, { content: 'Go on.' });
  rig.model.respond(() => undefined);
  const { seq } = await rig.client.session.get(id);
  expect(seq).toBeGreaterThan(1_000);
  const cli = captureCli(rig);
  expect(await runCli(cli.context, ['trace', id, '--json'])).toBe(0);
  const printed = JSON.parse(cli.out()) as { signals?: Signal[] } | Signal[];
  const traced = Array.isArray(printed) ? printed : printed.signals!;
  expect(traced.map((signal) => signal.seq)).toEqual(Array.from({ length: seq }, (_, index) => index + 1));
});

test('causes do not end at the model call: from a tool result they lead over the call that asked for it to the prompt', async () => {
  await rig.tool('look', () => 'found');
  rig.model.script([{ toolCalls: [{ id: 'c1', name: 'look', input: {} }] }, { text: 'There.' }]);
  const { id } = await rig.client.session.create({});
  await rig.client.session.prompt(id, { content: 'Look.' });
  const log = await readLog(rig.client, id);
  const byId = new Map(log.map((signal) => [signal.id, signal]));
  const chain: string[] = [];
  for (let at = named(log, 'tool:result')[0]; at; at = byId.get(at.source.parent ?? '')) chain.push(at.name);
  expect(chain.slice(0, 4)).toEqual(['tool:result', 'tool:call', 'harness:end', 'harness:start']);
  expect(chain.at(-1)).toBe('prompt:received');
  const asked = named(log, 'harness:start').at(-1)!;
  expect(byId.get(asked.source.parent!)?.name).toBe('tool:result');
});

test('a run that fails is recorded to its end, and verifies', async () => {
  rig.model.script([{ fault: { kind: 'status', status: 400, message: 'the request is odd' } }]);
  const { id } = await rig.client.session.create({});
  await expect(rig.client.session.prompt(id, { content: 'Hello?', promptId: 'p1' })).rejects.toMatchObject({ code: 'provider_refused' });
  const log = await readLog(rig.client, id);
  expect(payloads(log, 'harness:error')).toMatchObject([{ error: expect.stringContaining('the request is odd') }]);
  expect(payloads(log, 'turn:end')).toMatchObject([{ promptId: 'p1', stopReason: 'error' }]);
  expect((await rig.client.session.verify(id)).verified).toBe(true);
  expect(await rig.client.session.exportLog(id)).toContain('the request is odd');
});

test('what was emitted does not change with the objects it was made of', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-frozen-'));
  const log = await openSignalLog({ path: join(folder, 'signals.db') });
  onTestFinished(async () => {
    await log.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const signals = chainedSignals('session:frozen', 1, 3, '');
  const before = structuredClone(signals);
  const appended = log.append({ stream: 'session:frozen', epoch: 0, expected: 0, signals });
  for (const { payload } of signals) payload.changed = true;
  await appended;
  const stored = await log.read('session:frozen', 0, 10);
  expect(stored.map(({ gseq: _gseq, ...signal }) => signal)).toEqual(before);
  stored[0]!.payload.changed = true;
  expect((await log.read('session:frozen', 0, 1))[0]!.payload).toEqual(before[0]!.payload);
});

describe('work that is given up stops', () => {
  test('a model call, when its turn is aborted', async () => {
    rig.model.gate();
    const { id } = await rig.client.session.create({});
    await rig.client.session.promptAsync(id, { content: 'A long story.' });
    const held = await rig.model.next();
    await rig.client.session.abort(id);
    expect(await held.request.closed).toEqual({ aborted: true });
    rig.model.open();
  });

  test('a model call, when the time of its turn is over', async () => {
    rig.model.gate();
    const { id } = await rig.client.session.create({});
    const prompt = rig.client.session.prompt(id, { content: 'A long story.', timeoutMs: 200 }).catch((error: unknown) => error);
    const held = await rig.model.next();
    expect(await held.request.closed).toEqual({ aborted: true });
    expect(await prompt).toMatchObject({ code: 'turn_timeout' });
    rig.model.open();
  });

  test('a tool call, when its turn is aborted and when its time is over', async () => {
    const closed: Promise<unknown>[] = [];
    await rig.tool('hang', (_input, _request, response) => {
      closed.push(new Promise((resolve) => response.once('close', () => resolve(response.writableFinished))));
      return undefined;
    });
    rig.model.script([{ toolCalls: [{ id: 'c1', name: 'hang', input: {} }] }, { text: 'So be it.' }]);
    const late = await rig.client.session.create({});
    const answer = await rig.client.session.prompt(late.id, { content: 'Wait for it.' });
    expect(answer.toolResults).toMatchObject([{ isError: true }]);
    expect(await closed[0]).toBe(false);
    rig.model.script([{ toolCalls: [{ id: 'c2', name: 'hang', input: {} }] }]);
    const stopped = await rig.client.session.create({});
    await rig.client.session.promptAsync(stopped.id, { content: 'Wait for it.' });
    await nextSignal(rig.client, stopped.id, 'tool:call');
    await expect.poll(() => closed.length, { timeout: 15_000 }).toBe(2);
    await rig.client.session.abort(stopped.id);
    expect(await closed[1]).toBe(false);
  });
});

test('a subscriber that causes signals while it is told of some does not change their order for the others', async () => {
  const { id } = await rig.client.session.create({});
  const url = `${rig.runtimeUrl}/session/${id}/stream?deltas=0`;
  const [acting, watching] = [await openSse(url), await openSse(url)];
  const acts = (async () => {
    for (let turn = 1; turn <= 5; turn += 1) {
      await acting.until(({ event, data }) => event === 'turn:end' && (data.payload as { turn: number }).turn === turn);
      await rig.client.session.promptAsync(id, { content: `Then ${turn}.` });
    }
  })();
  await rig.client.session.prompt(id, { content: 'First.' });
  await acts;
  await rig.client.session.wait(id);
  await rig.client.session.end(id);
  for (const stream of [acting, watching]) await stream.until(({ event }) => event === 'end');
  const stored = (frames: readonly SseFrame[]) => frames.filter(({ data }) => data.seq !== undefined).map(({ data }) => data);
  const log = await readLog(rig.client, id);
  expect(stored(acting.frames)).toEqual(log);
  expect(stored(watching.frames)).toEqual(log);
});

describe('patterns', () => {
  const refusal = async (pattern: string) => {
    const response = await fetch(`${rig.runtimeUrl}/events?events=${encodeURIComponent(pattern)}`);
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  test('* alone, which would match no name, is refused with the one that was meant', async () => {
    expect(await refusal('*')).toMatchObject({ status: 400, body: { code: 'invalid_pattern', detail: expect.stringContaining('`**`') } });
  });

  test('a:*** is refused, not a fault of the server', async () => {
    expect(await refusal('a:***')).toMatchObject({
      status: 400,
      body: { code: 'invalid_pattern', detail: expect.stringContaining('three stars') },
    });
  });

  test('a dot is a dot: a.* matches what begins so, and nothing else', () => {
    const matches = compilePatterns(['a.*:x']);
    expect(['a.:x', 'a.b:x', 'ab:x', 'a:x', 'axb:x'].filter(matches)).toEqual(['a.:x', 'a.b:x']);
  });

  test('a pattern of stars on a name made to mislead it is answered, and rightly', () => {
    // An expression that goes back to try again would not be done in this century.
    const matches = compilePatterns(['*a'.repeat(64)]);
    expect(matches(`${'a'.repeat(127)}b`)).toBe(false);
    expect(matches('a'.repeat(128))).toBe(true);
    expect(compilePatterns(['**:a:**:a:**:a:**:b'])(`${'a:'.repeat(60)}a`)).toBe(false);
  });
});

test('ids are wide: 100 bits of the stream, then the number, never twice', () => {
  const tokens = Array.from({ length: STREAMS }, (_, index) => streamToken(`session:ses_${index}`));
  expect(new Set(tokens).size).toBe(STREAMS);
  for (const token of tokens) expect(token).toMatch(/^[a-z2-7]{20}$/);
  // Each place of the token is used in full: 32 letters in each of 20 places.
  for (let place = 0; place < 20; place += 1) expect(new Set(tokens.map((token) => token[place])).size).toBe(32);
  expect(signalId('session:ses_1', 7)).toBe(`sig_${tokens[1]}_7`);
});
