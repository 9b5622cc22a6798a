/** What a turn of 50 tokens costs the daemon's process, per wire, with and without a reader; and how many commits it makes. */
import { type DaemonChild, startDaemon, startModel, WIRES, type WireName } from './rig/child-process.ts';
import { countCommits } from './rig/commits.ts';
import { report } from './rig/figure.ts';
import { readEvents } from './rig/http-client.ts';
import { createSessions, runTurn, runTurns } from './rig/load.ts';
import { cpuMs, pause } from './rig/process-usage.ts';

const TOKENS = 50;
/** Each token is a chunk of its own, as from a model; unit: milliseconds between two. */
const DELAY_MS = 2;
const TURNS_PER_SESSION = 10;
const WARM_SESSIONS = 40;
const SESSIONS = 60;
const SESSIONS_AT_ONCE = 8;
/** One turn at a time takes long; so many sessions are enough. */
const SESSIONS_IN_TURN = 15;
const CPU_MS_MAX = 3;
const COMMIT_TURNS = 20;
/** As docs/architecture.md promises for a turn without tools. */
const COMMITS_MAX = 3;
/** What a turn leaves behind (garbage, a checkpoint) is paid before the next measurement; unit: milliseconds. */
const REST_MS = 500;

for (const wire of Object.keys(WIRES) as WireName[]) {
  const model = await startModel({ tokens: TOKENS, delayMs: DELAY_MS });
  const daemon = await startDaemon({ env: WIRES[wire](model.url) });
  // First, while the write-ahead log is too young for a checkpoint.
  if (wire === 'anthropic') {
    report({ name: 'commits of a turn without tools', value: await commitsPerTurn(daemon), unit: '', atMost: COMMITS_MAX });
  }
  await runTurns(daemon.url, await createSessions(daemon.url, WARM_SESSIONS), TURNS_PER_SESSION, SESSIONS_AT_ONCE);
  const alone = await measure(daemon, false);
  report({ name: `CPU of a ${TOKENS}-token turn, ${wire}`, value: alone, unit: 'ms', atMost: CPU_MS_MAX, note: 'no reader' });
  const read = await measure(daemon, true);
  report({ name: `the same with an SSE reader, ${wire}`, value: read, unit: 'ms', atMost: CPU_MS_MAX, note: 'one reader per session' });
  if (wire === 'anthropic') {
    report({
      name: 'the same one turn at a time, anthropic',
      value: await measure(daemon, false, 1),
      unit: 'ms',
      note: 'no commit is shared',
    });
  }
  await daemon.close();
  await model.close();
}

/** CPU of the daemon per turn, in ms. */
async function measure(daemon: DaemonChild, withReaders: boolean, atOnce = SESSIONS_AT_ONCE): Promise<number> {
  const sessions = await createSessions(daemon.url, atOnce === 1 ? SESSIONS_IN_TURN : SESSIONS);
  const readers = withReaders ? await Promise.all(sessions.map((id) => readEvents(`${daemon.url}/session/${id}/stream`))) : [];
  await pause(REST_MS);
  const before = cpuMs(daemon.pid);
  await runTurns(daemon.url, sessions, TURNS_PER_SESSION, atOnce);
  const spent = cpuMs(daemon.pid) - before;
  for (const reader of readers) reader.close();
  return spent / (sessions.length * TURNS_PER_SESSION);
}

async function commitsPerTurn(daemon: DaemonChild): Promise<number> {
  const [session] = await createSessions(daemon.url, 1);
  await runTurn(daemon.url, session!);
  const commits = countCommits(daemon.folder);
  for (let turn = 0; turn < COMMIT_TURNS; turn += 1) await runTurn(daemon.url, session!);
  return (countCommits(daemon.folder) - commits) / COMMIT_TURNS;
}
