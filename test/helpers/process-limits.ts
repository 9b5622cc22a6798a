import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Bounds on a process of a test, as a small or busy machine has them. */
export interface ProcessLimits {
  /** Share of one core, 0 to 1; needs root and a cgroup controller of cpu. */
  readonly cpuShare?: number;
  /** Open files at the most. */
  readonly descriptors?: number;
}

/** One period of the kernel's CPU controller; unit: microseconds. */
const PERIOD_US = 100_000;
const V1 = '/sys/fs/cgroup/cpu';
const V2 = '/sys/fs/cgroup';

/** A command with its descriptors limited. The process id stays that of the command itself. */
export function limitedCommand(command: readonly [string, ...string[]], limits: ProcessLimits = {}): readonly [string, ...string[]] {
  return limits.descriptors === undefined ? command : ['prlimit', `--nofile=${limits.descriptors}`, ...command];
}

/** Whether this process may limit the CPU of another. */
export const canLimitCpu =
  process.getuid?.() === 0 && (existsSync(join(V1, 'cpu.cfs_quota_us')) || existsSync(join(V2, 'cgroup.subtree_control')));

/** Gives a process at most so much of a core, until `release`; its threads and children to come as well. */
export function limitCpu(pid: number, share: number): { release(): void } {
  const old = existsSync(join(V1, 'cpu.cfs_quota_us'));
  const folder = join(old ? V1 : V2, `signet-test-${pid}`);
  mkdirSync(folder, { recursive: true });
  const quota = Math.round(share * PERIOD_US);
  if (old) {
    writeFileSync(join(folder, 'cpu.cfs_period_us'), String(PERIOD_US));
    writeFileSync(join(folder, 'cpu.cfs_quota_us'), String(quota));
  } else {
    writeFileSync(join(folder, 'cpu.max'), `${quota} ${PERIOD_US}`);
  }
  writeFileSync(join(folder, 'cgroup.procs'), String(pid));
  return {
    release() {
      try {
        rmdirSync(folder);
      } catch {
        // A process is still in it: the folder goes with the machine.
      }
    },
  };
}
