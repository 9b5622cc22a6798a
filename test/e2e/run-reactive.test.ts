import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { canonicalJson } from '../../src/core/signal-seal.ts';
import { timeless, traceDifference } from '../../src/core/trace-equality.ts';
import { AppError, createWorkflow, agent as declareAgent, defineSignal, type Signal, WorkflowError } from '../../src/index.ts';
import { signalMatchers } from '../../src/vitest.ts';
import { verifies } from '../conformance/verifies.ts';
import { startModelServer } from '../helpers/model-server/server.ts';
import { createPlannedProvider } from '../helpers/planned-provider.ts';
import { startSignet } from '../helpers/signet.ts';

expect.extend(signalMatchers);

interface State extends Record<string, unknown> {
  readonly pear: string | null;
  readonly plum: string | null;
  readonly review: string | null;
}

const EMPTY: State = { pear: null, plum: null, review: null };
const { agent, runReactive } = createWorkflow<State>();
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signet-reactive-'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Two agents at once, of which the slower one was activated first, and one that waits for both. */
const FRUIT = {
  pear: agent({ prompt: 'look at the pear of {{ input.owner }}', activateOn: ['workflow:start'], emits: ['pear:done'], updates: 'pear' }),
  plum: agent({
    prompt: ({ input }) => `look at the plum of ${(input as { owner: string }).owner}`,
    activateOn: ['workflow:start'],
    emits: ['plum:done'],
    updates: 'plum',
  }),
  judge: agent({
    prompt: 'judge {{ state.pear }} and {{ state.plum }}',
    activateOn: ['*:done'],
    when: ({ state }) => state.pear !== null && state.plum !== null && state.review === null,
    updates: 'review',
  }),
};
const RUN = { agents: FRUIT, state: EMPTY, input: { owner: 'Ann' } };
const planned = () => createPlannedProvider((prompt) => ({ text: `saw: ${prompt}`, delayMs: prompt.includes('pear') ? 300 : 20 }));
const named = (signals: readonly Signal[], name: string) => signals.filter((signal) => signal.name === name);

describe('a workflow in code', () => {
  verifies(['signals.run-reactive.signals', 'signals.run-reactive.order'], 'returns its state and its whole trace in order', async () => {
    const provider = planned();

    const { state, signals, metrics, terminatedEarly, reason, recordingId } = await runReactive({ ...RUN, provider });

    expect(state).toEqual({
      pear: 'saw: look at the pear of Ann',
      plum: 'saw: look at the plum of Ann',
      review: 'saw: judge saw: look at the pear of Ann and saw: look at the plum of Ann',
    });
    expect({ terminatedEarly, reason, recordingId }).toEqual({ terminatedEarly: false, reason: 'quiescent', recordingId: null });
    expect(metrics).toMatchObject({ activations: 3, usage: { inputTokens: 6, outputTokens: 9 } });
    const places = signals.map(({ gseq }) => gseq);
    for (const [index, place] of places.entries()) if (index > 0) expect(place).toBeGreaterThan(places[index - 1]!);
    // The slow agent was asked first and answered last: the order is that of the log, not that of the definitions.
    const completed = named(signals, 'agent:completed').map(({ payload }) => payload.agent);
    expect(completed).toEqual(['plum', 'pear', 'judge']);
    expect(signals).toHaveSignalsInOrder([
      'workflow:start',
      { name: 'agent:activated', payload: { agent: 'judge' } },
      'harness:start',
      'text:complete',
      'harness:end',
      { name: 'agent:completed', payload: { agent: 'judge' } },
      'workflow:end',
    ]);
    expect(signals).toHaveCausalChain(['workflow:start', 'agent:activated', 'harness:end', 'plum:done']);
    expect(signals).toHaveCausalChain([
      'pear:done',
      { name: 'agent:activated', payload: { agent: 'judge' } },
      'prompt:received',
      'harness:end',
    ]);
  });

  verifies(['signals.agent.function', 'signals.source.optional'], async () => {
    const greeter = declareAgent({ prompt: 'say it', activateOn: ['workflow:start'] });
    const { signals } = await runReactive({ agents: { greeter }, provider: createPlannedProvider(() => ({ text: 'hello' })) });
    expect(named(signals, 'agent:completed').map(({ payload }) => payload.output)).toEqual(['hello']);
    const [start] = signals;
    expect(start!.name).toBe('workflow:start');
    expect(start!.source).not.toHaveProperty('parent');
    expect(start!.source).not.toHaveProperty('agent');
    for (const signal of signals.slice(1)) expect([signal.name, typeof signal.source.parent]).toEqual([signal.name, 'string']);
  });

  test('its trace is not cut, however long it is', async () => {
    const provider = createPlannedProvider(() => ({ text: 'again' }));
    const { signals, metrics } = await createWorkflow().runReactive({
      agents: { echo: { prompt: 'say it', activateOn: ['workflow:start', 'echo:done'], emits: ['echo:done'], limits: { depth: 1_000 } } },
      limits: { activations: 40, depth: 1_000 },
      provider,
    });
    expect(metrics.activations).toBe(40);
    expect(signals.length).toBeGreaterThan(1_000);
    expect(signals).toHaveSignalCount('agent:completed', 40);
  });

  test('text and functions mean the same, and a signal defined once serves both ends', async () => {
    const done = defineSignal<{ output: string }>('count:done');
    const kit = createWorkflow<{ count: unknown }>();
    const run = async (inCode: boolean) => {
      const result = await kit.runReactive({
        agents: {
          counter: {
            prompt: inCode ? () => 'count' : 'count',
            activateOn: ['workflow:start'],
            emits: [done],
            emitWhen: { 'count:odd': inCode ? ({ output }) => output === 'three' : "output == 'three'" },
            updates: 'count',
          },
          never: { prompt: 'x', activateOn: [done], when: inCode ? () => false : 'state.count == 4' },
        },
        state: { count: null },
        endWhen: inCode ? ({ count }) => count === 'never' : "state.count == 'never'",
        provider: createPlannedProvider(() => ({ text: 'three' })),
      });
      expect(result.signals.filter(done.is)).toHaveLength(1);
      return named(result.signals, 'agent:skipped')
        .concat(named(result.signals, 'count:odd'))
        .map(({ payload }) => payload);
    };
    const withoutIds = (payloads: unknown) => canonicalJson(payloads).replaceAll(/sig_\w+/g, 'sig');
    expect(withoutIds(await run(true))).toBe(withoutIds(await run(false)));
  });

  test('regular expressions and patterns stand in one list', async () => {
    const { signals } = await createWorkflow().runReactive({
      agents: {
        teller: { prompt: 'tell', activateOn: [/^workflow:start$/], emits: ['tale:one', 'tale:two', 'tale:three'] },
        hearer: { prompt: 'hear {{ signal.name }}', activateOn: [/^tale:t/, 'tale:one', '!tale:two'], concurrency: 3 },
      },
      provider: createPlannedProvider(() => ({ text: 'a tale' })),
    });
    const heard = named(signals, 'agent:activated').filter(({ payload }) => payload.agent === 'hearer');
    const names = heard.map(({ source: { parent } }) => signals.find(({ id }) => id === parent)?.name);
    expect(names).toEqual(['tale:one', 'tale:three']);
  });

  test('an agent with an output schema gives its parsed answer, and one may have a provider of its own', async () => {
    const shy = { ...createPlannedProvider(() => ({ text: '{"score": 7}' })), id: 'shy' };
    const provider = createPlannedProvider(({ length }) => ({ text: `${length} characters` }));
    const { state, signals } = await createWorkflow<{ score: unknown; note: unknown }>().runReactive({
      agents: {
        rater: {
          prompt: 'rate',
          activateOn: ['workflow:start'],
          updates: 'score',
          provider: shy,
          output: { type: 'object', properties: { score: { type: 'number' } }, required: ['score'] },
        },
        noter: { prompt: '{{ signal.payload.value.score + 1 }}', activateOn: ['state:score:changed'], updates: 'note' },
      },
      state: { score: null, note: null },
      provider,
    });
    expect(state).toEqual({ score: { score: 7 }, note: '1 characters' });
    expect(provider.calls).toEqual(['8']);
    expect(signals).toContainSignal({ name: 'harness:start', payload: { provider: 'shy' } });
  });

  test('without a key the offline demo answers, and the result says so', async () => {
    const { provider, state } = await createWorkflow<{ said: unknown }>().runReactive({
      agents: { one: { prompt: 'hello', activateOn: ['workflow:start'], updates: 'said' } },
      state: { said: null },
    });
    expect(provider).toMatchObject({ id: 'demo', offlineDemo: true });
    expect(state.said).toContain('offline demo');
  });

  test('leaves no workspace behind, and keeps one that it was given', async () => {
    const provider = planned();
    const before = readdirSync(tmpdir()).filter((name) => name.startsWith('signet-run-'));
    const { id } = await runReactive({ ...RUN, provider, path: folder });
    expect(readdirSync(tmpdir()).filter((name) => name.startsWith('signet-run-'))).toEqual(before);
    expect(existsSync(join(folder, 'data', 'signals.db'))).toBe(true);
    expect(id).toMatch(/^wfl_/);
  });
});

describe('a run that does not go well', () => {
  test('rejects with everything that happened when an agent fails', async () => {
    const provider = createPlannedProvider(() => {
      throw new AppError('provider_refused', { detail: 'no' });
    });
    const error = await runReactive({ ...RUN, provider }).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(WorkflowError);
    expect(error.code).toBe('provider_refused');
    expect(error.signals).toContainSignal({ name: 'harness:error', payload: { code: 'provider_refused' } });
    expect(error.signals.at(-1)).toMatchObject({ name: 'workflow:end', payload: { reason: 'error' } });
  });

  test('is told before it begins what is wrong with it', async () => {
    const bad = (agents: Record<string, unknown>) =>
      runReactive({ agents } as never).catch((error) => [error.code, error.errors?.[0].pointer]);
    expect(await bad({ one: { prompt: '{{ stat.a }}', activateOn: ['a:b'] } })).toEqual(['invalid_expression', '/agents/0/prompt']);
    expect(await bad({ one: { prompt: 'x', activateOn: ['*'] } })).toEqual(['invalid_pattern', '/agents/0/activateOn/0']);
    expect(await bad({ one: { prompt: 'x', activateOn: ['a:b', /a/g] } })).toEqual(['invalid_pattern', '/agents/0/activateOn/1']);
    expect(await bad({ one: { prompt: 'x', activateOn: ['a:b'], emits: ['session:idle'] } })).toEqual([
      'invalid_workflow',
      '/agents/0/emits',
    ]);
    expect(await bad({ one: { prompt: 'x', activateOn: ['a:b'], concurrency: 0 } })).toEqual(['invalid_workflow', '/agents/0/concurrency']);
    const settings = { id: 'own', kind: 'openai-compatible', baseUrl: 'http://127.0.0.1:1/v1' };
    expect(await bad({ one: { prompt: 'x', activateOn: ['a:b'], provider: settings } })).toEqual([
      'invalid_workflow',
      '/agents/0/provider',
    ]);
    const camel = runReactive({ agents: { styleReviewer: { prompt: 'x', activateOn: ['a:b'] } } });
    await expect(camel).rejects.toThrow('did you mean "style-reviewer"?');
    expect(() => defineSignal('agent:completed')).toThrow('another');
  });

  test.each(['abort', 'timeout'] as const)('stops the work at once on %s', async (way) => {
    const provider = createPlannedProvider((prompt) => ({ text: 'slow', delayMs: prompt.includes('pear') ? 600_000 : 0 }));
    const controller = new AbortController();
    const run = runReactive({ ...RUN, provider, ...(way === 'abort' ? { signal: controller.signal } : { timeout: 2_000 }) });
    if (way === 'abort') {
      await expect.poll(() => provider.calls.length, { timeout: 20_000 }).toBe(2);
      controller.abort();
    }

    const { reason, terminatedEarly, signals } = await run;

    expect([reason, terminatedEarly]).toEqual([way === 'abort' ? 'aborted' : 'timeout', true]);
    expect(provider.aborted).toEqual(['look at the pear of Ann']);
    expect(signals).toContainSignal('turn:cancel');
    expect(signals.at(-1)?.name).toBe('workflow:end');
  });

  test('an agent that activates itself is bounded, and each refusal is told', async () => {
    const { signals, metrics } = await createWorkflow().runReactive({
      agents: { loop: { prompt: 'again', activateOn: ['workflow:start', 'loop:done'], emits: ['loop:done'] } },
      limits: { depth: 3 },
      provider: createPlannedProvider(() => ({ text: 'again' })),
    });
    expect(metrics.activations).toBe(3);
    expect(signals).toHaveSignalCount({ name: 'agent:skipped', payload: { agent: 'loop', reason: 'depth' } }, 1);
  });
});

describe('a workflow of a running daemon', () => {
  const source = (prompt: string) => ({
    agents: [{ name: 'one', prompt, activateOn: ['workflow:start'], emits: ['one:done'], updates: 'said' }],
    state: { said: null },
    input: 'tea',
  });

  test('is run from afar to the same kind of result', async () => {
    const signet = await startSignet();
    const { id, state, signals, reason } = await signet.client.workflow.run(source('drink {{ input }}'));
    expect([id.startsWith('wfl_'), reason]).toEqual([true, 'quiescent']);
    expect(state.said).toContain('drink tea');
    expect(signals).toHaveSignalsInOrder(['workflow:start', 'agent:activated', 'harness:end', 'one:done', 'workflow:end']);
    expect(signals).toHaveCausalChain(['workflow:start', 'harness:end', 'agent:completed']);
    await expect(signals).toReplay();
    const refused = await signet.client.workflow.run(source('{{ nobody }}')).catch((error) => error);
    expect([refused.code, refused.errors[0].pointer]).toEqual(['invalid_expression', '/agents/0/prompt']);
    await signet.close();
  });

  test('rejects with its signals when it fails, and is aborted from afar', async () => {
    const model = await startModelServer();
    const signet = await startSignet({ env: { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'test' } });
    model.script([{ fault: { kind: 'status', status: 400 } }]);
    const failed = await signet.client.workflow.run(source('fail')).catch((error) => error);
    expect(failed).toBeInstanceOf(WorkflowError);
    expect(failed.signals).toContainSignal({ name: 'workflow:end', payload: { reason: 'error' } });

    model.gate();
    const controller = new AbortController();
    const run = signet.client.workflow.run(source('hang'), { signal: controller.signal });
    await model.next(15_000);
    controller.abort();
    expect(await run).toMatchObject({ reason: 'aborted', terminatedEarly: true });
    await signet.close();
    await model.close();
  });
});

describe('a recorded run', () => {
  test('of parallel agents replays to an equal state and equal signals, ids and causes included, without a provider', async () => {
    const recording = { path: join(folder, 'fruit.jsonl') };
    const provider = planned();
    const live = await runReactive({ ...RUN, provider, recording: { ...recording, mode: 'record' } });
    expect(live.signals).toHaveSignalsInOrder([
      { name: 'agent:completed', payload: { agent: 'plum' } },
      { name: 'agent:completed', payload: { agent: 'pear' } },
    ]);

    for (let round = 0; round < 3; round += 1) {
      const replayed = await runReactive({ ...RUN, recording: { ...recording, mode: 'replay' } });
      expect(replayed.state).toEqual(live.state);
      expect(replayed.signals.map(({ id }) => id)).toEqual(live.signals.map(({ id }) => id));
      expect(replayed.signals.map(({ source }) => source)).toEqual(live.signals.map(({ source }) => source));
      expect(replayed.signals.map(timeless)).toEqual(live.signals.map(timeless));
      expect(replayed.recordingId).toBe(live.recordingId);
    }
    expect(provider.calls).toHaveLength(3);
  });

  test('passes for a replay only when it is one', async () => {
    const steady = (recording: { path: string; mode: 'live' | 'record' | 'replay' | 'auto' }) =>
      runReactive({ ...RUN, recording, ...(recording.mode === 'replay' ? {} : { provider: planned() }) });
    await expect(steady).toReplay();

    let owner = 0;
    const fickle = (recording: { path: string; mode: 'live' | 'record' | 'replay' | 'auto' }) => {
      owner += 1;
      return runReactive({ ...RUN, input: { owner: `owner ${owner}` }, recording, provider: planned() });
    };
    const failure = await expect(fickle)
      .toReplay()
      .catch((error) => error);
    expect(failure.message).toContain('recording_mismatch');
    expect(failure.message).toContain('owner 2');
  });

  test('folding the trace of a run gives it again, and not when a byte of it was changed', async () => {
    const { signals } = await runReactive({ ...RUN, provider: planned() });
    await expect({ signals }).toReplay();

    const change = (name: string, payload: object) =>
      signals.map((signal) => (signal.name === name ? { ...signal, payload: { ...signal.payload, ...payload } } : signal));
    const altered = await expect(change('agent:completed', { output: 'forged' }))
      .toReplay()
      .catch((error) => error);
    expect(altered.message).toMatch(/workflow:wfl_\w+, signal \d+: payload/);
    const said = await expect(change('text:complete', { content: 'forged' }))
      .toReplay()
      .catch((error) => error);
    expect(said.message).toMatch(/session:wfl_\w+, signal \d+ .* has another digest/);
  });

  test('a failed call is recorded too, and fails again', async () => {
    const recording = { path: join(folder, 'failing.jsonl') };
    const provider = createPlannedProvider((prompt) => {
      if (prompt.includes('pear')) throw new AppError('provider_refused', { detail: 'no pears' });
      return { text: 'fine' };
    });
    const live = await runReactive({ ...RUN, provider, recording: { ...recording, mode: 'record' } }).catch((error) => error);
    const again = await runReactive({ ...RUN, recording: { ...recording, mode: 'replay' } }).catch((error) => error);
    expect([live.code, again.code]).toEqual(['provider_refused', 'provider_refused']);
    expect(again.state).toEqual(live.state);
    expect(traceDifference(live.signals, again.signals)).toBe(null);
  });

  test('that was killed in the middle is usable up to there', async () => {
    const path = join(folder, 'killed.jsonl');
    const script = join(folder, 'run.mts');
    const root = fileURLToPath(new URL('../../', import.meta.url));
    const terms = `agents: {
      first: { prompt: 'one', activateOn: ['workflow:start'], emits: ['first:done'], updates: 'pear' },
      second: { prompt: 'two', activateOn: ['first:done'], updates: 'plum' },
    }, state: { pear: null, plum: null, review: null }`;
    writeFileSync(
      script,
      `import { createWorkflow } from '${root}src/index.ts';
      import { createPlannedProvider } from '${root}test/helpers/planned-provider.ts';
      const provider = createPlannedProvider((prompt) => ({ text: prompt, delayMs: prompt === 'two' ? 600_000 : 0 }));
      setInterval(() => provider.calls.includes('two') && process.stdout.write('second\\n'), 20);
      await createWorkflow().runReactive({ ${terms}, provider, recording: { path: '${path}', mode: 'record' } });`,
    );
    const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    child.kill('SIGKILL');
    await new Promise((resolve) => child.once('exit', resolve));

    const agents = {
      first: agent({ prompt: 'one', activateOn: ['workflow:start'], emits: ['first:done'], updates: 'pear' }),
      second: agent({ prompt: 'two', activateOn: ['first:done'], updates: 'plum' }),
    };
    const strict = await runReactive({ agents, state: EMPTY, recording: { path, mode: 'replay' } }).catch((error) => error);
    expect(strict.code).toBe('recording_mismatch');
    expect(strict.message).toContain('broke off');
    expect(strict.state).toMatchObject({ pear: 'one' });

    const provider = createPlannedProvider((prompt) => ({ text: `now ${prompt}` }));
    const { state } = await runReactive({ agents, state: EMPTY, provider, recording: { path, mode: 'auto' } });
    expect(state).toMatchObject({ pear: 'one', plum: 'now two' });
    expect(provider.calls).toEqual(['two']);
    expect(readFileSync(path, 'utf8').match(/"kind":"model"/g)).toHaveLength(2);
  });
});
