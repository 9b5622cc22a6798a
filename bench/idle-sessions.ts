/** What idle sessions cost: memory of a thousand, and CPU of one more when ten thousand are open. */
import { startDaemon } from './rig/child-process.ts';
import { report } from './rig/figure.ts';
import { createSessions, endSessions } from './rig/load.ts';
import { cpuMs, rssMib, settledRssMib } from './rig/process-usage.ts';

/** Sessions made and ended before anything is measured: what a daemon compiles and allocates once is not the price of a session. */
const USED_SESSIONS = 300;
const SESSIONS = 1_000;
const ADDED_MIB_MAX = 25;
const CROWD = 10_000;
const MEASURED_CREATES = 1_000;
const CREATE_CPU_MS_MAX = 2;

const daemon = await startDaemon();
const unused = await settledRssMib(daemon.pid);
await endSessions(daemon.url, await createSessions(daemon.url, USED_SESSIONS));
const empty = await settledRssMib(daemon.pid);
report({
  name: `memory added by ${USED_SESSIONS} sessions that have ended`,
  value: empty - unused,
  unit: 'MiB RSS',
  note: 'compiled code and caches, once',
});
await createSessions(daemon.url, SESSIONS);
report({
  name: `memory added by ${SESSIONS} idle sessions at once`,
  value: rssMib(daemon.pid) - empty,
  unit: 'MiB RSS',
  note: 'garbage included',
});
const first = await settledRssMib(daemon.pid);
report({
  name: `memory added by ${SESSIONS} idle sessions`,
  value: first - empty,
  unit: 'MiB RSS',
  atMost: ADDED_MIB_MAX,
  note: 'when they have come to rest',
});
await createSessions(daemon.url, SESSIONS);
report({
  name: `memory added by the next ${SESSIONS}`,
  value: (await settledRssMib(daemon.pid)) - first,
  unit: 'MiB RSS',
  atMost: ADDED_MIB_MAX,
  note: 'when they have come to rest',
});
await createSessions(daemon.url, CROWD - 2 * SESSIONS);
const before = cpuMs(daemon.pid);
await createSessions(daemon.url, MEASURED_CREATES);
const perCreate = (cpuMs(daemon.pid) - before) / MEASURED_CREATES;
report({ name: `CPU of a session created beside ${CROWD}`, value: perCreate, unit: 'ms', atMost: CREATE_CPU_MS_MAX });
report({
  name: `memory of a daemon with ${CROWD + MEASURED_CREATES} idle sessions`,
  value: await settledRssMib(daemon.pid),
  unit: 'MiB RSS',
});
await daemon.close();
