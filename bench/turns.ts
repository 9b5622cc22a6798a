/**
 * What a turn of 50 tokens costs the daemon's process, per wire, with and without a reader; and how many commits it makes. Once with a model
 * that answers at once, once with a token every two milliseconds: then each is a wake-up of its own, on cold caches, which costs any program
 * something; a bare HTTP client beside it shows what.
 */
import { type DaemonChild, startDaemon, startModel, WIRES, type WireName } from './rig/child-process.ts';
import { countCommits } from './rig/commits.ts';
import { report } from './rig/figure.ts';
import { drain, readEvents } from './rig/http-client.ts';
import { createSessions, runTurn, runTurns } from './rig/load.ts';
import { cpuMs, pause } from './rig/process-usage.ts';

const TOKENS = 50;
/** Pause of the slow model between two tokens; unit: milliseconds. */
const DELAY_MS = 2;
const TURNS_PER_SESSION = 10;
/** Turns that are not counted: V8 compiles what is hot over the first thousand. */
const WARM_SESSIONS = 120;
const SESSIONS = 60;
const SESSIONS_AT_ONCE = 8;
/** One turn at a time takes long; so many sessions are enough. */
const SESSIONS_IN_TURN = 15;
const CPU_MS_MAX = 3;
/** Read by the bare client, warm. */
const BARE_ANSWERS = 400;
const BARE_HEADERS = { 'x-api-key': 'test', 'anthropic-version': '2023-06-01' };
const COMMIT_TURNS = 20;
/** A turn without tools; one with tools makes four, and one more for each batch of results. */
const COMMITS_MAX = 3;
const COMMITS_WITH_CALL_MAX = 4 + 1;
/** What a turn leaves behind (garbage, a checkpoint) is paid before the next measurement; unit: milliseconds. */
const REST_MS = 500;

await benchToolTurn();
for (const wire of Object.keys(WIRES) as WireName[]) {
  const model = await startModel({ tokens: TOKENS });
  const daemon = await startDaemon({ env: WIRES[wire](model.url) });
  // First, while the write-ahead log is too young for a checkpoint.
  if (wire === 'anthropic') {
    report({ name: 'commits of a turn without tools', value: await commitsPerTurn(daemon), unit: '', atMost: COMMITS_MAX });
  }
  await runTurns(daemon.url, await createSessions(daemon.url, WARM_SESSIONS), TURNS_PER_SESSION, SESSIONS_AT_ONCE);
  const alone = await measure(daemon, false);
  report({ name: `CPU of a ${TOKENS}-token turn, ${wire}`, value: alone, unit: 'ms', atMost: CPU_MS_MAX, note: 'no reader' });
  report({
    name: `the same with an SSE reader, ${wire}`,
    value: await measure(daemon, true),
    unit: 'ms',
    note: 'one reader per session',
  });
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
await measureSlowModel();

async function measureSlowModel(): Promise<void> {
  const model = await startModel({ tokens: TOKENS, delayMs: DELAY_MS });
  const daemon = await startDaemon({ env: WIRES.anthropic(model.url) });
  await runTurns(daemon.url, await createSessions(daemon.url, WARM_SESSIONS), TURNS_PER_SESSION, SESSIONS_AT_ONCE);
  const note = `a token every ${DELAY_MS} ms`;
  report({ name: `CPU of a ${TOKENS}-token turn, slow model`, value: await measure(daemon, false), unit: 'ms', note });
  report({ name: 'the same with an SSE reader, slow model', value: await measure(daemon, true), unit: 'ms', note });
  report({ name: 'the same answer read by a bare HTTP client', value: await measureBareClient(model.url), unit: 'ms', note });
  await daemon.close();
  await model.close();
}

/** CPU of this process per answer that it reads and drops, in ms. */
async function measureBareClient(url: string): Promise<number> {
  const body = {
    model: 'scripted',
    max_tokens: 1_000,
    stream: true,
    messages: [{ role: 'user', content: 'Say something of fifty tokens.' }],
  };
  const read = async () => {
    for (let answer = 0; answer < BARE_ANSWERS / SESSIONS_AT_ONCE; answer += 1) await drain(`${url}/v1/messages`, body, BARE_HEADERS);
  };
  const lanes = () => Promise.all(Array.from({ length: SESSIONS_AT_ONCE }, read));
  await lanes();
  const before = process.cpuUsage();
  await lanes();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / BARE_ANSWERS;
}

async function benchToolTurn(): Promise<void> {
  const model = await startModel({ tokens: TOKENS, call: 'memory_search' });
  const daemon = await startDaemon({ env: WIRES.anthropic(model.url) });
  const commits = await commitsPerTurn(daemon);
  report({ name: 'commits of a turn with one tool call', value: commits, unit: '', atMost: COMMITS_WITH_CALL_MAX });
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
