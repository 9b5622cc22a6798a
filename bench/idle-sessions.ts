/** What idle sessions cost: memory of a thousand, and CPU of one more when ten thousand are open. */
import { type DaemonChild, startDaemon } from './rig/child-process.ts';
import { report } from './rig/figure.ts';
import { createSessions } from './rig/load.ts';
import { cpuMs, pause, rssMib, settledRssMib } from './rig/process-usage.ts';

const SESSIONS = 1_000;
const ADDED_MIB_MAX = 25;
const CROWD = 10_000;
const MEASURED_CREATES = 1_000;
const CREATE_CPU_MS_MAX = 2;
/** Pause between two collections; unit: milliseconds. */
const COLLECT_PAUSE_MS = 300;
const COLLECTIONS = 3;

const daemon = await startDaemon({ collectable: true });
const empty = await settled(daemon);
await createSessions(daemon.url, SESSIONS);
report({
  name: `memory added by ${SESSIONS} idle sessions at once`,
  value: rssMib(daemon.pid) - empty,
  unit: 'MiB RSS',
  note: 'garbage included',
});
const first = await settled(daemon);
report({
  name: `memory added by ${SESSIONS} idle sessions`,
  value: first - empty,
  unit: 'MiB RSS',
  atMost: ADDED_MIB_MAX,
  note: 'settled; the first of a fresh daemon',
});
await createSessions(daemon.url, SESSIONS);
report({
  name: `memory added by the next ${SESSIONS}`,
  value: (await settled(daemon)) - first,
  unit: 'MiB RSS',
  atMost: ADDED_MIB_MAX,
  note: 'settled',
});
await createSessions(daemon.url, CROWD - 2 * SESSIONS);
const before = cpuMs(daemon.pid);
await createSessions(daemon.url, MEASURED_CREATES);
const perCreate = (cpuMs(daemon.pid) - before) / MEASURED_CREATES;
report({ name: `CPU of a session created beside ${CROWD}`, value: perCreate, unit: 'ms', atMost: CREATE_CPU_MS_MAX });
report({
  name: `memory of a daemon with ${CROWD + MEASURED_CREATES} idle sessions`,
  value: await settled(daemon),
  unit: 'MiB RSS',
  note: 'settled',
});
await daemon.close();

async function settled(child: DaemonChild): Promise<number> {
  for (let collection = 0; collection < COLLECTIONS; collection += 1) {
    await pause(COLLECT_PAUSE_MS);
    child.collect();
  }
  return settledRssMib(child.pid);
}
