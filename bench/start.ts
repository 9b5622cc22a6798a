/** From spawn to an answered GET /health, and the memory of a daemon nobody has asked for anything. */
import { startDaemon } from './rig/child-process.ts';
import { report } from './rig/figure.ts';
import { cpuMs, median, settledRssMib } from './rig/process-usage.ts';

/** Starts that fill the compile cache, then those that count. */
const WARM_STARTS = 2;
const STARTS = 9;
const START_MS_MAX = 400;
const RSS_MIB_MAX = 100;
/** Daemons whose memory is looked at, one after another. */
const MEMORY_STARTS = 3;

for (let start = 0; start < WARM_STARTS; start += 1) await (await startDaemon()).close();
const starts: number[] = [];
const cpus: number[] = [];
const memories: number[] = [];
for (let start = 0; start < STARTS; start += 1) {
  const daemon = await startDaemon();
  starts.push(daemon.startMs);
  cpus.push(cpuMs(daemon.pid));
  if (start < MEMORY_STARTS) memories.push(await settledRssMib(daemon.pid));
  await daemon.close();
}
report({
  name: 'start to healthy',
  value: median(starts),
  unit: 'ms',
  atMost: START_MS_MAX,
  note: `median of ${STARTS}, warm compile cache`,
});
report({ name: 'CPU of a start', value: median(cpus), unit: 'ms' });
report({
  name: 'memory of an idle daemon',
  value: median(memories),
  unit: 'MiB RSS',
  atMost: RSS_MIB_MAX,
  note: 'five seconds after its start',
});
