import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Signal } from '../../src/contract/signal.ts';
import { createView, foldView } from '../../src/core/session-view.ts';
import { sealSignal, streamToken } from '../../src/core/signal-seal.ts';
import { cardAfter } from '../../src/runtime/session-card.ts';
import { foldCore } from '../../src/runtime/session-core.ts';
import type { SessionCore } from '../../src/runtime/session-state.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { named, payloads, readLog, wireEnvironment } from './rig.ts';

const OLD = { id: 'session', version: '0', digest: 'of_another_age' };
const YAML = 'runtime: { approvals: [{ tool: memory_store, decision: ask }], limits: { drainTimeoutMs: 100 } }\n';

let folder: string;
let model: ModelServer;
let signet: Signet;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signet-upgrade-'));
  model = await startModelServer();
});
afterEach(async () => {
  await signet.close();
  await model.close();
  rmSync(folder, { recursive: true, force: true });
});

const start = async (name: string) => {
  signet = await startSignet({ folder: join(folder, name), yaml: YAML, env: wireEnvironment('anthropic', model.url) });
};

/** The log as another version of the machine would have left it, under another id: sealed anew by the same code. */
function asOld(signals: readonly Signal[], id: string): Signal[] {
  const from = (signals[0]!.payload as { session: string }).session;
  const renamed = JSON.parse(
    JSON.stringify(signals)
      .replaceAll(from, id)
      .replaceAll(streamToken(`session:${from}`), streamToken(`session:${id}`)),
  ) as Signal[];
  let digest = '';
  return renamed.map((signal) => {
    const payload = signal.name === 'session:created' ? { ...signal.payload, machine: OLD } : signal.payload;
    const { gseq, digest: _before, ...draft } = signal;
    const sealed = sealSignal({ ...draft, payload }, digest);
    digest = sealed.digest!;
    return { ...sealed, gseq };
  });
}

/** Writes logs into the workspace of this name, each with the row listings read. */
async function store(name: string, logs: readonly Signal[][]): Promise<void> {
  mkdirSync(join(folder, name, 'data'), { recursive: true });
  const log = await openSignalLog({ path: join(folder, name, 'data', 'signals.db') });
  for (const signals of logs) {
    const view = createView(signals[0]!.payload as never, signals[0]!.timestamp);
    let core: SessionCore | null = null;
    for (const signal of signals) {
      core = foldCore(core, signal);
      foldView(view, signal);
    }
    const sealed = signals.map(({ gseq: _of, ...signal }) => signal);
    await log.append({ stream: signals[0]!.stream, epoch: 0, expected: 0, signals: sealed, card: cardAfter(view, core!, sealed) });
  }
  await log.close();
}

/** A session with a finished turn, one in the middle of a tool that waits for a person, and two prompts behind it. */
async function life(): Promise<Signal[]> {
  await start('before');
  model.script([{ text: 'Hello.' }, { toolCalls: [{ id: 'c1', name: 'memory_store', input: { content: 'tea' } }] }]);
  const { id } = await signet.client.session.create({ title: 'Tea' });
  await signet.client.session.prompt(id, { content: 'hi', promptId: 'p1' });
  await signet.client.session.promptAsync(id, { content: 'remember tea', promptId: 'p2' });
  await signet.client.session.wait(id, { state: 'tool-looping', timeoutMs: 15_000 });
  for (const promptId of ['p3', 'p4']) await signet.client.session.promptAsync(id, { content: `later ${promptId}`, promptId });
  const signals = await readLog(signet.client, id);
  await signet.close();
  return signals;
}

test('a log of another machine version goes on from its last turn boundary: the open turn fails, the queue is kept, and the log says so', async () => {
  const signals = await life();
  const id = 'ses_from_before';
  await store('after', [asOld(signals, id)]);
  model.script([{ text: 'three' }, { text: 'four' }]);
  await start('after');

  expect(await signet.client.session.prompt(id, { content: 'later p4', promptId: 'p4' })).toMatchObject({ content: 'four' });
  await expect(signet.client.session.prompt(id, { content: 'remember tea', promptId: 'p2' })).rejects.toMatchObject({
    code: 'machine_upgraded',
  });
  const log = await readLog(signet.client, id);
  const [upgraded] = named(log, 'session:upgraded');
  expect(upgraded!.payload).toMatchObject({ machine: { from: OLD, to: { id: 'session' } }, open: { turn: 2, promptId: 'p2', rounds: 1 } });
  expect(payloads(log, 'turn:end').map(({ promptId, stopReason }) => [promptId, stopReason])).toEqual([
    ['p1', 'end_turn'],
    ['p2', 'error'],
    ['p3', 'end_turn'],
    ['p4', 'end_turn'],
  ]);
  expect(await signet.client.approvals.list()).toMatchObject({ items: [] });
  const session = await signet.client.session.get(id);
  expect(session).toMatchObject({ state: 'idle', turns: 4, title: 'Tea', queue: [] });
  const said = (await signet.client.session.messages(id)).filter(({ role }) => role === 'user').map(({ content }) => content);
  expect(said).toEqual(['hi', 'remember tea', 'later p3', 'later p4']);

  const { version } = (upgraded!.payload as unknown as { machine: { to: { version: string } } }).machine.to;
  expect(await signet.client.session.verify(id)).toMatchObject({
    verified: true,
    signals: log.length,
    machines: [
      { version: '0', fromSeq: 1, replayed: false },
      { version, fromSeq: upgraded!.seq, replayed: true },
    ],
  });
  // Coming back once more is no upgrade.
  await signet.close();
  await start('after');
  expect((await signet.client.session.prompt(id, { content: 'and now?' })).status).toBe('completed');
  expect(named(await readLog(signet.client, id), 'session:upgraded')).toHaveLength(1);
});

test('wherever a log of another version stops, the session comes to rest, each of its prompts has one end, and the log verifies', async () => {
  const signals = await life();
  // A commit holds what one input caused; so a log can stop before any input.
  const stops = [...signals.filter(({ source, seq }) => source.kind === 'input' && seq > 1).map(({ seq }) => seq - 1), signals.length];
  const idOf = (stop: number) => `ses_stopped_${stop}`;
  await store(
    'after',
    stops.map((stop) => asOld(signals.slice(0, stop), idOf(stop))),
  );
  model.respond(() => ({ text: 'said' }));
  await start('after');
  for (const stop of stops) {
    const id = idOf(stop);
    const { state } = await signet.client.session.wait(id, { timeoutMs: 20_000 });
    // One that rested already goes over when it is asked next.
    if (!named(await readLog(signet.client, id), 'session:upgraded').length) await signet.client.session.prompt(id, { content: 'awake?' });
    const log = await readLog(signet.client, id);
    const ends = payloads(log, 'turn:end').flatMap(({ promptIds }) => promptIds as string[]);
    expect({ stop, state, ends: ends.toSorted() }).toEqual({
      stop,
      state: 'idle',
      ends: payloads(log, 'prompt:received')
        .map(({ promptId }) => promptId as string)
        .toSorted(),
    });
    expect({ stop, ...(await signet.client.session.verify(id)) }).toMatchObject({ stop, verified: true, divergence: null });
    const { state: folded } = await signet.client.session.stateAt(id, log.length);
    expect(folded).toBe('idle');
    const fork = await signet.client.session.fork(id, { at: stop });
    expect((await signet.client.session.prompt(fork.id, { content: 'you too?' })).status).toBe('completed');
  }
});
