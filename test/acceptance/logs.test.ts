import { hash } from 'node:crypto';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { sessionMachine } from '../../machines/session.machine.ts';
import { SIGNALS } from '../../src/contract/catalog.ts';
import type { Signal } from '../../src/contract/signal.ts';
import { createFolding, foldCore } from '../../src/runtime/session-core.ts';
import { foldSession } from '../../src/runtime/session-fold.ts';
import { restoreSnapshot, takeSnapshot } from '../../src/runtime/session-snapshot.ts';
import type { SessionCore } from '../../src/runtime/session-state.ts';
import { verifySession } from '../../src/runtime/verify.ts';
import { createRandom, SEED } from '../helpers/seeded-random.ts';
import { schemaFaults } from '../helpers/signal-schema.ts';
import { pathLogs, readable, type StoredLog, simulatedLogs } from './simulated-logs.ts';

const SEEDS = 65;
const SESSIONS_PER_SEED = 4;
const SIMULATED_MIN = 200;
/** Logs whose every step is looked at. */
const STEPPED_LOGS = 12;
/** Names of the catalogue that these logs hold at least; a run in which little happens would prove little. */
const NAMES_MIN = 45;

let simulated: StoredLog[];
let logs: StoredLog[];
beforeAll(async () => {
  simulated = await simulatedLogs(SEEDS, SESSIONS_PER_SEED);
  logs = [...pathLogs(), ...simulated];
}, 120_000);
afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

test('T1: the log of every model path and of 200 simulated sessions is what the machine makes of its inputs, byte for byte', async () => {
  expect(simulated.length).toBeGreaterThanOrEqual(SIMULATED_MIN);
  for (const { from, id, signals } of logs) {
    const { divergence, signals: equal, digest } = await verifySession(readable(signals), id);
    expect({ from, divergence, equal, digest }).toEqual({ from, divergence: null, equal: signals.length, digest: signals.at(-1)!.digest });
  }
});

test(`T1: one altered byte of any stored signal is reported at that signal (SEED=${SEED})`, async () => {
  const random = createRandom(SEED);
  const { id, signals } = longest(logs.filter(({ from }) => !from.startsWith('seed')));
  for (const victim of signals) {
    const altered = signals.map((signal) => (signal === victim ? withAnotherByte(signal, random) : signal));
    const { divergence } = await verifySession(readable(altered), id);
    expect([victim.name, divergence?.seq]).toEqual([victim.name, victim.seq]);
  }
});

test('T1: an altered guard is reported at the first signal it changes', async () => {
  const other = createFolding(sessionMachine.provide({ guards: { wantsTools: () => false } }));
  const { id, signals } = simulated.find((log) => log.signals.some(asksForTools))!;
  const { divergence } = await verifySession(readable(signals), id, other);
  // The input is as it was; what the machine says to it is another.
  expect(divergence?.seq).toBe(signals.find(asksForTools)!.seq + 1);
});

test('T3: a snapshot taken at any step, also in the middle of a turn, goes on as the session that never left memory', async () => {
  for (const { from, id, signals } of sampled(simulated)) {
    const whole = await foldSession(readable(signals), id);
    for (let at = 1; at < signals.length; at += 1) {
      const begun = await foldSession(readable(signals.slice(0, at)), id);
      const restored = restoreSnapshot(takeSnapshot(begun))!;
      expect(plain(restored.core), `${from}, ${id} at ${at}`).toEqual(plain(begun.core));
      const next = foldCore(restored.core, signals[at]!);
      expectRecordedState(next, signals[at]!);
    }
    expectRecordedState(whole.core, signals.findLast(({ name }) => name === 'session:transition')!);
  }
});

test('T4: folding a log looks at no clock, no chance and nothing else from outside', () => {
  const forbidden = (what: string) => () => {
    throw new Error(`folding used ${what}`);
  };
  vi.spyOn(Date, 'now').mockImplementation(forbidden('Date.now'));
  vi.spyOn(Math, 'random').mockImplementation(forbidden('Math.random'));
  vi.spyOn(performance, 'now').mockImplementation(forbidden('performance.now'));
  vi.spyOn(crypto, 'randomUUID').mockImplementation(forbidden('crypto.randomUUID'));
  vi.spyOn(crypto, 'getRandomValues').mockImplementation(forbidden('crypto.getRandomValues'));
  for (const name of ['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'fetch']) vi.stubGlobal(name, forbidden(name));
  const heads = logs.map(({ signals }) => signals.reduce<SessionCore | null>(foldCore, null)!.seq);
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  expect(heads).toEqual(logs.map(({ signals }) => signals.length));
});

test('T11: every signal but the roots has a parent that is there and came before, and leads back to its root', () => {
  const roots = new Set<string>();
  for (const { from, signals } of logs) {
    const known = new Map<string, Signal>();
    for (const signal of signals) {
      const { parent, root, depth } = signal.source;
      known.set(signal.id, signal);
      if (parent === undefined) {
        roots.add(signal.name);
        expect([from, signal.name, root, depth]).toEqual([from, signal.name, signal.id, 0]);
        continue;
      }
      const cause = known.get(parent);
      expect([from, signal.name, cause?.source.root, cause && cause.source.depth + 1]).toEqual([from, signal.name, root, depth]);
    }
  }
  expect([...roots].sort()).toEqual(['prompt:received', 'session:created']);
});

test('T14: every emitted signal keeps the schema of its envelope and of its name', () => {
  const names = new Set<string>();
  for (const { signals } of logs) {
    for (const signal of signals) {
      names.add(signal.name);
      expect(schemaFaults(signal)).toEqual([]);
    }
  }
  expect(names.size).toBeGreaterThanOrEqual(NAMES_MIN);
  expect([...names].filter((name) => !(name in SIGNALS))).toEqual([]);
});

function longest(of: readonly StoredLog[]): StoredLog {
  return of.reduce((best, log) => (log.signals.length > best.signals.length ? log : best));
}

function sampled(of: readonly StoredLog[]): StoredLog[] {
  const stride = Math.ceil(of.length / STEPPED_LOGS);
  return of.filter((_, index) => index % stride === 0);
}

function asksForTools({ name, payload }: Signal): boolean {
  return name === 'harness:end' && (payload.toolCalls as unknown[]).length > 0;
}

const MEMBERS = ['id', 'stream', 'name', 'payload', 'timestamp', 'source', 'digest'] as const;

/** As a disk would give it back after a bit has flipped: another letter or digit somewhere, still JSON. */
function withAnotherByte(signal: Signal, random: () => number): Signal {
  for (;;) {
    const member = MEMBERS[Math.floor(random() * MEMBERS.length)]!;
    const text = JSON.stringify(signal[member]);
    const at = Math.floor(random() * text.length);
    const altered = `${text.slice(0, at)}${text[at] === '1' ? '2' : '1'}${text.slice(at + 1)}`;
    if (!/[A-Za-z0-9]/.test(text[at]!)) continue;
    try {
      return { ...signal, [member]: JSON.parse(altered) };
    } catch {
      // No JSON any more: such a row is refused before anybody folds it.
    }
  }
}

/** What a transition recorded of the state after it is what folding gives. */
function expectRecordedState({ snapshot }: SessionCore, signal: Signal): void {
  if (signal.name !== 'session:transition') return;
  expect(hash('sha256', JSON.stringify([snapshot.value, snapshot.context]), 'base64url')).toBe(signal.payload.state);
}

function plain({ snapshot, causes, conversation, ...rest }: SessionCore): unknown {
  const { value, context, status } = snapshot;
  const waiting = [...conversation.waiting];
  return JSON.parse(JSON.stringify({ ...rest, value, context, status, causes: [...causes], conversation: { ...conversation, waiting } }));
}
