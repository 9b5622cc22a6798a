import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import type { Signal } from '../../src/contract/signal.ts';
import { compilePatterns } from '../../src/core/signal-pattern.ts';
import { named, payloads, type Rig, readLog, startRig } from '../e2e/rig.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { startSignet } from '../helpers/signet.ts';
import { call } from './calls.ts';
import { verifies } from './verifies.ts';

let rig: Rig;
let id: string;
/** A whole life: a turn with thinking, text and a tool, a turn that fails, and the end. */
let log: Signal[];
let streamed: { name: string; payload: Record<string, unknown> }[];

beforeAll(async () => {
  rig = await startRig({ yaml: 'runtime: { limits: { attemptsMax: 1 } }\nagents: { roster: [{ name: dot }] }\n' });
  await rig.tool('read_file', ({ path }) => `contents of ${path}`);
  ({ id } = await rig.client.session.create({ agent: 'dot' }));
  streamed = [];
  const reading = (async () => {
    for await (const event of rig.client.session.stream(id)) streamed.push(event);
  })();
  rig.model.script([
    {
      ...{ thinking: 'Let me consider the file.', signature: 'sig', text: 'I read it first.', delayMs: 20 },
      toolCalls: [{ id: 'call_1', name: 'read_file', input: { path: '/file.ts' } }],
      usage: { inputTokens: 100, outputTokens: 50 },
    },
    { text: 'The analysis shows two faults.', usage: { inputTokens: 150, outputTokens: 20 } },
    { fault: { kind: 'status', status: 400, message: 'the request is odd' } },
  ]);
  await rig.client.session.prompt(id, { content: 'Analyse /file.ts' });
  await rig.client.session.prompt(id, { content: 'And again' }).catch(() => undefined);
  await rig.client.session.end(id);
  await reading;
  log = await readLog(rig.client, id);
});
afterAll(() => rig.close());

describe('the shape of a signal', () => {
  verifies(['signals.id', 'signals.name', 'signals.payload', 'signals.timestamp'], () => {
    expect(log.length).toBeGreaterThan(30);
    expect(new Set(log.map((signal) => signal.id)).size).toBe(log.length);
    for (const signal of log) {
      expect(signal.id).toMatch(/^sig_[a-z0-9_]+$/);
      expect(signal.name).toMatch(/^[a-z][a-z-]*(:[A-Za-z0-9][A-Za-z0-9_.-]*)+$/);
      expect(signal.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      expect(signal.payload).toBeTypeOf('object');
    }
    expect(named(log, 'session:created')[0]?.payload).toMatchObject({ session: id, agent: 'dot' });
  });

  verifies(['signals.source.agent', 'signals.source.parent', 'signals.causality.chain'], () => {
    const byId = new Map(log.map((signal) => [signal.id, signal]));
    for (const signal of log) expect([signal.name, signal.source.agent]).toEqual([signal.name, 'dot']);
    const [result] = named(log, 'tool:result');
    expect(byId.get(result?.source.parent ?? '')).toMatchObject({ name: 'tool:call', payload: { id: 'call_1' } });

    const starts = new Set<string>();
    for (const signal of log) {
      let at: Signal | undefined = signal;
      let steps = 0;
      while (at?.source.parent !== undefined && steps++ < log.length) at = byId.get(at.source.parent);
      expect(at?.id).toBe(signal.source.root);
      starts.add(at?.name ?? 'lost');
    }
    expect([...starts]).toEqual(['session:created', 'prompt:received']);
  });
});

describe('the signals of a turn', () => {
  verifies(['signals.harness.start', 'signals.harness.end', 'signals.harness.error'], () => {
    const start = payloads(log, 'harness:start');
    expect(start.map(({ model, provider }) => [typeof model, provider])).toEqual(Array.from({ length: 3 }, () => ['string', 'anthropic']));
    expect(payloads(log, 'harness:end')).toMatchObject([
      { model: expect.any(String), usage: { inputTokens: 100, outputTokens: 50 } },
      { usage: { inputTokens: 150, outputTokens: 20 } },
    ]);
    expect(payloads(log, 'harness:error')).toMatchObject([{ error: expect.stringContaining('the request is odd') }]);
    const calls = log.filter(({ name }) => /^harness:(start|end|error)$/.test(name)).map(({ name }) => name);
    expect(calls).toEqual(['harness:start', 'harness:end', 'harness:start', 'harness:end', 'harness:start', 'harness:error']);
  });

  verifies(['signals.text.complete', 'signals.thinking.complete'], () => {
    expect(payloads(log, 'text:complete').map(({ content }) => content)).toEqual(['I read it first.', 'The analysis shows two faults.']);
    expect(payloads(log, 'thinking:complete').map(({ content }) => content)).toEqual(['Let me consider the file.']);
    for (const kind of ['text', 'thinking']) {
      const of = (name: string) => streamed.filter((event) => event.name === `${kind}:${name}`).map(({ payload }) => payload.content);
      expect(of('delta').length).toBeGreaterThanOrEqual(of('complete').length);
      expect(of('delta').join('')).toBe(of('complete').join(''));
    }
  });

  verifies(['signals.tool.call', 'signals.tool.result'], () => {
    expect(payloads(log, 'tool:call')).toMatchObject([{ name: 'read_file', input: { path: '/file.ts' } }]);
    expect(payloads(log, 'tool:result')).toMatchObject([{ name: 'read_file', output: 'contents of /file.ts', isError: false }]);
  });

  verifies('signals.observability', async () => {
    expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
    const story = log
      .map(({ name }) => name)
      .filter((name) => /^(prompt|turn|tool|harness|text):|^session:(created|end|ended)$/.test(name));
    expect(story).toEqual([
      ...['session:created', 'prompt:received', 'turn:start', 'harness:start', 'text:complete', 'harness:end', 'tool:call', 'tool:result'],
      ...['harness:start', 'text:complete', 'harness:end', 'turn:end'],
      ...['prompt:received', 'turn:start', 'harness:start', 'harness:error', 'turn:end', 'session:end', 'session:ended'],
    ]);
    // A reader who was there saw the same, in the same order.
    const live = streamed.filter((event) => 'seq' in event && 'source' in event).map(({ name }) => name);
    expect(live).toEqual(log.slice(log.length - live.length).map(({ name }) => name));
    expect(live.length).toBeGreaterThan(25);
  });
});

describe('patterns', () => {
  const matching = (pattern: string, names: string[]) => names.filter(compilePatterns([pattern]));
  const filtered = async (pattern: string) => {
    const { body } = await call('GET', `${rig.runtimeUrl}/session/${id}/events?limit=1000&events=${encodeURIComponent(pattern)}`);
    return body.items.map(({ name }: Signal) => name);
  };
  const inLog = (test: RegExp) => log.map(({ name }) => name).filter((name) => test.test(name));

  verifies('signals.pattern.exact', async () => {
    expect(matching('harness:end', ['harness:end', 'harness:ended', 'harness', 'harness:end:late', 'my:harness:end'])).toEqual([
      'harness:end',
    ]);
    expect(await filtered('harness:end')).toEqual(['harness:end', 'harness:end']);
  });

  verifies('signals.pattern.single-segment', async () => {
    const names = ['agent:activated', 'agent:completed', 'agent', 'agent:custom:done', 'agents:activated'];
    expect(matching('agent:*', names)).toEqual(['agent:activated', 'agent:completed']);
    expect(await filtered('tool:*')).toEqual(['tool:call', 'tool:result']);
  });

  verifies('signals.pattern.multi-segment', async () => {
    const names = ['harness:start', 'harness:end', 'harness:error', 'harness:retry:late:again', 'harness', 'harnesses:start'];
    expect(matching('harness:**', names)).toEqual(['harness:start', 'harness:end', 'harness:error', 'harness:retry:late:again']);
    expect(await filtered('session:**')).toEqual(inLog(/^session:/));
  });

  verifies('signals.pattern.leading-wildcard', async () => {
    const names = ['analysis:complete', 'review:complete', 'complete', 'analysis:completed', 'a:b:complete'];
    expect(matching('*:complete', names)).toEqual(['analysis:complete', 'review:complete']);
    expect(await filtered('*:complete')).toEqual(inLog(/^(text|thinking):complete$/));
  });
});

describe('after a restart', () => {
  const environment = ({ url }: ModelServer) => ({ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'test' });

  verifies(
    ['signals.source-of-truth', 'signals.replay', 'signals.replay.no-provider'],
    'without snapshots and with a forged card a session comes back the same, twice, and nobody is called',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'signet-replay-'));
      const model = await startModelServer();
      model.script([{ toolCalls: [{ id: 'call_1', name: 'memory_search', input: { query: 'faults' } }] }, { text: 'No faults.' }]);
      const look = async (create: boolean) => {
        const signet = await startSignet({ folder, env: environment(model) });
        if (create) {
          await signet.client.session.create({ id: 'ses_replayed', title: 'first' });
          await signet.client.session.prompt('ses_replayed', { content: 'Are there faults?' });
          await signet.client.session.update('ses_replayed', { title: 'second' });
          await signet.client.session.wait('ses_replayed');
        }
        const { state, value, seq, updatedAt, ...session } = await signet.client.session.get('ses_replayed');
        const messages = await signet.client.session.messages('ses_replayed');
        const tools = named(await readLog(signet.client, 'ses_replayed'), 'tool:call').length;
        await signet.close();
        return { session, messages, tools };
      };
      const before = await look(true);
      expect(before).toMatchObject({ session: { title: 'second', turns: 1 }, tools: 1 });
      expect(before.messages.at(-1)?.content).toBe('No faults.');
      for (let round = 0; round < 2; round += 1) {
        const db = new DatabaseSync(join(folder, 'data', 'signals.db'));
        // The card is what listings show; what a session is must come from its signals.
        db.exec("DELETE FROM snapshots; UPDATE cards SET body = json_set(body, '$.title', 'forged', '$.turns', 99);");
        db.close();
        expect(await look(false)).toEqual(before);
      }
      expect(model.requests.length).toBe(2);
      await model.close();
      rmSync(folder, { recursive: true, force: true });
    },
  );
});
