import { readFileSync } from 'node:fs';

/** Clock ticks a second on every Linux architecture that Node runs on (`getconf CLK_TCK`). */
const TICKS_PER_SECOND = 100;
const MS_PER_TICK = 1_000 / TICKS_PER_SECOND;
/** Looks at a process's memory, and the pause between them; unit of the pause: milliseconds. */
const MEMORY_LOOKS = 7;
const MEMORY_LOOK_PAUSE_MS = 150;
/** How long a process that has just worked is left alone before its memory is looked at; the daemon gives back what it can after three. Unit: milliseconds. */
const SETTLE_MS = 5_000;

/** User and system time of a process and all its threads so far, in ms; steps of 10 ms. Linux only. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name in parentheses may hold blanks; utime and stime are fields 14 and 15, the state after the name is field 3.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
}

/** Resident memory of a process in MiB. */
export function rssMib(pid: number): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(line?.[1]) / 1_024;
}

/** Resident memory once a process has come to rest: the median of several looks, in MiB. */
export async function settledRssMib(pid: number): Promise<number> {
  await pause(SETTLE_MS);
  const looks: number[] = [];
  for (let look = 0; look < MEMORY_LOOKS; look += 1) {
    looks.push(rssMib(pid));
    await pause(MEMORY_LOOK_PAUSE_MS);
  }
  return median(looks);
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
