/** Recall, hooks and remembering on a store of many memories, over HTTP, and how soon a daemon on one is there. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DaemonChild, startDaemon } from './rig/child-process.ts';
import { report } from './rig/figure.ts';
import { getJson, postJson } from './rig/http-client.ts';
import { Dice, memoryText, writeMemories } from './rig/memories.ts';
import { cpuMs, pause, rssMib, settledRssMib } from './rig/process-usage.ts';

const MANY = 100_000;
/** Stores on which the hooks are measured beside the large one. */
const FEWER = [1_000, 10_000];
const RECALLS_PER_SECOND = 200;
const LOAD_SECONDS = 15;
/** Between two looks at /health while the load runs; unit: milliseconds. */
const HEALTH_EVERY_MS = 50;
const QUERY_WORDS = 6;
/** Recalls before any is counted. */
const WARM_UP = 300;
const HOOK_CALLS = 300;
const CONNECTIONS = 16;
const REMEMBER_SECONDS = 5;
const READY_POLL_MS = 20;

const RECALL_P95_MS_MAX = 15;
const HEALTH_P99_MS_MAX = 20;
const SESSION_START_CPU_MS_MAX = 5;
const PROMPT_CPU_MS_MAX = 6;
const REMEMBER_PER_SECOND_MIN = 3_000;
const HEALTHY_MS_MAX = 1_000;

const folder = mkdtempSync(join(tmpdir(), 'signet-memories-'));
await writeMemories(folder, MANY);
const daemon = await startDaemon({ folder });
const url = daemonUrl(daemon);
report({ name: `start with ${MANY} memories to healthy`, value: daemon.startMs, unit: 'ms', atMost: HEALTHY_MS_MAX });
report({ name: 'until the index is ready after that', value: await untilReady(), unit: 'ms', note: 'full-text search answers meanwhile' });
report({ name: `memory with ${MANY} memories`, value: await settledRssMib(daemon.pid), unit: 'MiB RSS' });
const dice = new Dice(7);
for (let warm = 0; warm < WARM_UP; warm += 1) await recall();
await measureLoad();
await measureHooks(MANY, daemon);
await measureRemember();
report({ name: 'memory at the end', value: rssMib(daemon.pid), unit: 'MiB RSS' });
await daemon.close();
rmSync(folder, { recursive: true, force: true });

for (const count of FEWER) {
  const smaller = mkdtempSync(join(tmpdir(), 'signet-memories-'));
  await writeMemories(smaller, count);
  const other = await startDaemon({ folder: smaller });
  await measureHooks(count, other);
  await other.close();
  rmSync(smaller, { recursive: true, force: true });
}

function recall(): Promise<{ method: string }> {
  return postJson(`${url}/api/memory/recall`, { query: dice.words(QUERY_WORDS), limit: 10 });
}

async function untilReady(): Promise<number> {
  const from = performance.now();
  for (;;) {
    const { index } = await getJson<{ index: { state: string } }>(`${url}/api/status`);
    if (index.state === 'ready') return performance.now() - from;
    await pause(READY_POLL_MS);
  }
}

/** An open load: a recall is sent when it is due, whether those before it are answered or not; its wait counts from when it was due. */
async function measureLoad(): Promise<void> {
  const waits: number[] = [];
  const health: number[] = [];
  const running: Promise<void>[] = [];
  const cpuBefore = cpuMs(daemon.pid);
  const from = performance.now();
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      const asked = performance.now();
      await getJson(`${url}/health`);
      health.push(performance.now() - asked);
      await pause(HEALTH_EVERY_MS);
    }
  })();
  const total = RECALLS_PER_SECOND * LOAD_SECONDS;
  for (let sent = 0; sent < total; ) {
    const due = Math.min(total, Math.floor(((performance.now() - from) / 1_000) * RECALLS_PER_SECOND) + 1);
    for (; sent < due; sent += 1) {
      const dueAt = from + (sent / RECALLS_PER_SECOND) * 1_000;
      running.push(recall().then(() => void waits.push(performance.now() - dueAt)));
    }
    await pause(1);
  }
  await Promise.all(running);
  isOver = true;
  await watching;
  const note = `open load of ${RECALLS_PER_SECOND}/s for ${LOAD_SECONDS} s`;
  report({ name: `recall of ${MANY} memories, p95`, value: percentile(waits, 0.95), unit: 'ms', atMost: RECALL_P95_MS_MAX, note });
  report({ name: `recall of ${MANY} memories, median`, value: percentile(waits, 0.5), unit: 'ms', note });
  report({ name: 'CPU of a recall', value: (cpuMs(daemon.pid) - cpuBefore) / total, unit: 'ms', note: '/health included' });
  report({ name: '/health beside it, p99', value: percentile(health, 0.99), unit: 'ms', atMost: HEALTH_P99_MS_MAX, note });
}

async function measureHooks(count: number, child: DaemonChild): Promise<void> {
  const { pid } = child;
  const base = daemonUrl(child);
  const words = new Dice(11);
  const start = await cpuOf(pid, (call) => postJson(`${base}/api/hooks/session-start`, { harness: 'bench', sessionKey: `start-${call}` }));
  report({ name: `session-start at ${count}`, value: start, unit: 'ms CPU', atMost: SESSION_START_CPU_MS_MAX });
  const prompt = await cpuOf(pid, (call) => {
    const userMessage = `what did we say about ${words.words(QUERY_WORDS)}?`;
    return postJson(`${base}/api/hooks/user-prompt-submit`, { harness: 'bench', sessionKey: `prompt-${call}`, userMessage });
  });
  report({ name: `user-prompt-submit at ${count}`, value: prompt, unit: 'ms CPU', atMost: PROMPT_CPU_MS_MAX });
}

/** CPU of one call, the mean of many. */
async function cpuOf(pid: number, call: (number: number) => Promise<unknown>): Promise<number> {
  for (let number = 0; number < HOOK_CALLS; number += 1) await call(-number);
  const before = cpuMs(pid);
  for (let number = 0; number < HOOK_CALLS; number += 1) await call(number);
  return (cpuMs(pid) - before) / HOOK_CALLS;
}

async function measureRemember(): Promise<void> {
  let written = 0;
  const cpuBefore = cpuMs(daemon.pid);
  const from = performance.now();
  const until = from + REMEMBER_SECONDS * 1_000;
  const lanes = Array.from({ length: CONNECTIONS }, async (_, lane) => {
    const own = new Dice(1_000 + lane);
    for (let number = 0; performance.now() < until; number += 1) {
      const content = memoryText(own, number * CONNECTIONS + lane + MANY);
      await postJson(`${url}/api/memory/remember`, { content });
      written += 1;
    }
  });
  await Promise.all(lanes);
  const seconds = (performance.now() - from) / 1_000;
  const note = `${CONNECTIONS} connections, on disk when answered`;
  report({ name: 'remember', value: written / seconds, unit: '/s', atLeast: REMEMBER_PER_SECOND_MIN, note });
  report({ name: 'CPU of a remember', value: (cpuMs(daemon.pid) - cpuBefore) / written, unit: 'ms' });
}

function daemonUrl({ folder: workspace }: Pick<DaemonChild, 'folder'>): string {
  const info = JSON.parse(readFileSync(join(workspace, '.daemon', 'daemon.json'), 'utf8')) as { port: number };
  return `http://127.0.0.1:${info.port}`;
}

function percentile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]!;
}
