/**
 * How many durable signals a second the log takes, and what that does to the event loop of the thread that appends.
 * `node bench/signal-log.ts [signals=200000] [sessions=200]`; reports figures and prints one JSON line with all of them.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { compilePatterns } from '../src/core/signal-pattern.ts';
import { type SignalDraft, sealSignal, signalId } from '../src/core/signal-seal.ts';
import { openSignalLog } from '../src/store/signal-log.ts';
import { report } from './rig/figure.ts';

/** Signals of one append: about what a macrostep of a session makes. */
const SIGNALS_PER_APPEND = 4;
const READ_SIGNALS = 20_000;
const NS_PER_MS = 1e6;
const SIGNALS_PER_SECOND_MIN = 30_000;
const LOOP_DELAY_MS_MAX = 10;
const PATTERN_MS_MAX = 1;

const total = Number(process.argv[2] ?? 200_000);
const sessions = Number(process.argv[3] ?? 200);
const folder = mkdtempSync(join(tmpdir(), 'signal-log-bench-'));
const log = await openSignalLog({ path: join(folder, 'signals.db') });

const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
const started = performance.now();
const waits: number[] = [];
await Promise.all(Array.from({ length: sessions }, (_, index) => runSession(`session:bench_${index}`, Math.ceil(total / sessions))));
const seconds = (performance.now() - started) / 1_000;
delay.disable();
waits.sort((a, b) => a - b);

const written = await log.headGseq();
const readStarted = performance.now();
const read = (await log.feed({ after: 0, limit: READ_SIGNALS })).length;
const readSeconds = (performance.now() - readStarted) / 1_000;
await log.close();
rmSync(folder, { recursive: true });

const result = {
  bench: 'signal-log',
  signals: written,
  sessions,
  durableSignalsPerSecond: Math.round(written / seconds),
  appendP50Ms: round(waits[Math.floor(waits.length * 0.5)]!),
  appendP99Ms: round(waits[Math.floor(waits.length * 0.99)]!),
  loopDelayP99Ms: round(delay.percentile(99) / NS_PER_MS),
  loopDelayMaxMs: round(delay.max / NS_PER_MS),
  readSignalsPerSecond: Math.round(read / readSeconds),
  sealMicroseconds: round(timeSeal()),
  manyStarPatternMs: round(timeManyStars(), 3),
};
report({
  name: 'durable signals',
  value: result.durableSignalsPerSecond,
  unit: '/s',
  atLeast: SIGNALS_PER_SECOND_MIN,
  note: `${sessions} sessions, fsync per commit`,
});
report({ name: 'append until durable, p99', value: result.appendP99Ms, unit: 'ms' });
report({ name: 'event-loop delay beside it, p99', value: result.loopDelayP99Ms, unit: 'ms', atMost: LOOP_DELAY_MS_MAX });
report({ name: 'signals read', value: result.readSignalsPerSecond, unit: '/s' });
report({ name: 'seal of a signal', value: result.sealMicroseconds, unit: 'µs' });
report({ name: 'a pattern of 64 stars on a name it misses', value: result.manyStarPatternMs, unit: 'ms', atMost: PATTERN_MS_MAX });
console.log(JSON.stringify(result));

/** One session appends, waits until it is durable, appends again: as the runtime does. */
async function runSession(stream: string, signals: number): Promise<void> {
  const { epoch } = await log.own(stream);
  let digest = '';
  for (let head = 0; head < signals; head += SIGNALS_PER_APPEND) {
    const batch = Array.from({ length: SIGNALS_PER_APPEND }, (_, index) => {
      const sealed = sealSignal(draft(stream, head + index + 1), digest);
      digest = sealed.digest ?? '';
      return sealed;
    });
    const sent = performance.now();
    await log.append({ stream, epoch, expected: head, signals: batch });
    waits.push(performance.now() - sent);
  }
}

function draft(stream: string, seq: number): SignalDraft {
  return {
    v: 1,
    id: signalId(stream, seq),
    seq,
    stream,
    name: 'tool:result',
    payload: { id: `call_${seq}`, name: 'read', output: 'forty characters of what a tool has said', isError: false, durationMs: 12 },
    timestamp: '2026-01-01T00:00:00.000Z',
    source: { kind: 'input', agent: 'default', turn: 3, parent: signalId(stream, seq - 1), root: signalId(stream, 1), depth: seq % 10_000 },
  };
}

function timeSeal(): number {
  const rounds = 50_000;
  const from = performance.now();
  let digest = '';
  for (let seq = 1; seq <= rounds; seq += 1) digest = sealSignal(draft('session:seal_bench', seq), digest).digest ?? '';
  return ((performance.now() - from) * 1_000) / rounds;
}

function timeManyStars(): number {
  const matches = compilePatterns(['*a'.repeat(64)]);
  const from = performance.now();
  matches(`${'a'.repeat(127)}b`);
  return performance.now() - from;
}

function round(value: number, digits = 2): number {
  return Number(value.toFixed(digits));
}
