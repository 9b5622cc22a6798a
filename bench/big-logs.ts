/** Large logs: one session of 50,000 signals opened, drawn as a tree and looked at in the past; and a start beside 100,000 sessions that have left memory. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Signal } from '../src/contract/signal.ts';
import { formatSignalTree } from '../src/core/trace-tree.ts';
import { openSignalLog } from '../src/store/signal-log.ts';
import { type DaemonChild, startDaemon } from './rig/child-process.ts';
import { report } from './rig/figure.ts';
import { getJson } from './rig/http-client.ts';
import { writeLongSession, writePassivatedSessions } from './rig/long-log.ts';
import { cpuMs, median, settledRssMib } from './rig/process-usage.ts';

const SIGNALS = 50_000;
const LONG = 'ses_long';
const LOOK_MS_MAX = 200;
/** Looks of each kind; the median counts. */
const LOOKS = 5;
const US_PER_MS = 1_000;
const PAGE_SIGNALS = 1_000;
/** Near the end of the longest way from a snapshot that was kept. */
const FAR_SEQ = 27_500;
const COLD_SESSIONS = 100_000;
const COLD_AT_ONCE = 500;
const START_MS_MAX = 1_000;
/** How many sessions sleep must not be felt at a start, however busy the machine is that measures. */
const START_CPU_RATIO_MAX = 1.3;
const RSS_MIB_MAX = 150;
const STARTS = 3;

const folder = mkdtempSync(join(tmpdir(), 'signet-bench-logs-'));
mkdirSync(join(folder, 'data'));
const log = await openSignalLog({ path: join(folder, 'data', 'signals.db'), synchronous: 'normal' });
const head = await writeLongSession(log, LONG, SIGNALS);
const signals = await log.read(`session:${LONG}`, 0, head);
benchTree();
await writePassivatedSessions(log, COLD_SESSIONS, COLD_AT_ONCE);
await log.close();
await benchStarts();
rmSync(folder, { recursive: true, force: true });

function benchTree(): void {
  const trees: number[] = [];
  for (let look = 0; look < LOOKS; look += 1) {
    const before = process.cpuUsage();
    formatSignalTree(signals);
    const { user, system } = process.cpuUsage(before);
    trees.push((user + system) / US_PER_MS);
  }
  report({
    name: `tree of ${SIGNALS} signals`,
    value: median(trees),
    unit: 'ms',
    atMost: LOOK_MS_MAX,
    note: 'CPU, median; from signals to text',
  });
}

async function benchStarts(): Promise<void> {
  const starts: number[] = [];
  const cpus: number[] = [];
  const emptyCpus: number[] = [];
  const memories: number[] = [];
  for (let start = 0; start < STARTS; start += 1) {
    const daemon = await startDaemon({ folder });
    starts.push(daemon.startMs);
    cpus.push(cpuMs(daemon.pid));
    memories.push(await settledRssMib(daemon.pid));
    if (start === STARTS - 1) await benchLooks(daemon);
    await daemon.close();
    const empty = await startDaemon();
    emptyCpus.push(cpuMs(empty.pid));
    await empty.close();
  }
  const beside = `beside ${COLD_SESSIONS} sessions that left memory`;
  report({ name: `start to healthy ${beside}`, value: median(starts), unit: 'ms', atMost: START_MS_MAX, note: `median of ${STARTS}` });
  const ratio = median(cpus) / median(emptyCpus);
  report({ name: 'CPU of that start, against one on an empty workspace', value: ratio, unit: '×', atMost: START_CPU_RATIO_MAX });
  report({ name: `memory of a daemon ${beside}`, value: median(memories), unit: 'MiB RSS', atMost: RSS_MIB_MAX });
}

async function benchLooks({ url, pid }: DaemonChild): Promise<void> {
  const session = `${url}/session/${LONG}`;
  const opened = await timed(() => getJson(session));
  report({ name: `open a session of ${SIGNALS} signals`, value: opened, unit: 'ms', atMost: LOOK_MS_MAX, note: 'the first look at it' });
  for (const at of [FAR_SEQ, head >> 1, SIGNALS - 1]) {
    const looks: number[] = [];
    const before = cpuMs(pid);
    for (let look = 0; look < LOOKS; look += 1) looks.push(await timed(() => getJson(`${session}/state?at=${at}`)));
    const note = `median, over HTTP; ${(cpuMs(pid) - before) / LOOKS} ms of CPU`;
    report({ name: `its state at signal ${at}`, value: median(looks), unit: 'ms', atMost: LOOK_MS_MAX, note });
  }
  const read = await timed(async () => {
    for (let after = 0; after < head; ) {
      const page = await getJson<{ items: Signal[] }>(`${session}/events?after=${after}&limit=${PAGE_SIGNALS}`);
      after = page.items.at(-1)!.seq;
    }
  });
  report({ name: `all of its signals read over HTTP`, value: read, unit: 'ms', note: `${PAGE_SIGNALS} a page` });
}

async function timed(work: () => unknown): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}
