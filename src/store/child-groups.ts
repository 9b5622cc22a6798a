import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ChildGroups } from '../core/child-groups.ts';
import type { Logger } from '../core/logger.ts';

const PATH = ['.daemon', 'children.json'];
const FILE_MODE = 0o600;
/** How long what was left behind may take to end after SIGTERM, in ms; then it is killed, and has as long again. */
const END_GRACE_MS = 1_000;
/** Between two looks, in ms. */
const POLL_MS = 20;
/** Variable of the environment that processes of a daemon carry, with those they start. */
const MARK = 'SIGNET_CHILD_OF';

interface Group {
  readonly pid: number;
  /** Of its leader, in clock ticks since the boot. */
  readonly startedAt: string;
  readonly what: string;
}

interface Note {
  readonly boot: string;
  readonly mark: string;
  readonly groups: readonly Group[];
}

/**
 * The process groups of this daemon in `<workspace>/.daemon/children.json`, written with each start and end of one. A daemon that was killed
 * leaves them behind; the next one ends them. Without /proc, outside Linux, nothing is noted and nothing ended.
 */
export interface NotedChildGroups extends ChildGroups {
  /** Ends what earlier daemons of this workspace left; resolves when it is gone or was killed. Never throws. @returns how many groups */
  endLeftovers(): Promise<number>;
}

/** The caller holds the workspace's lock. */
export function openChildGroups(folder: string, log: Logger): NotedChildGroups {
  const path = join(folder, ...PATH);
  const boot = bootId();
  const left = boot === null ? null : readNote(path);
  const own = new Map<number, Group>();
  const mark = randomUUID();
  const save = (): void => {
    if (boot === null) return;
    const note: Note = { boot, mark, groups: [...own.values()] };
    try {
      writeFileSync(`${path}.part`, `${JSON.stringify(note, null, 2)}\n`, { mode: FILE_MODE });
      renameSync(`${path}.part`, path);
    } catch (err) {
      log.warn({ err, path }, 'processes of this daemon could not be noted; after a kill they would be left behind');
    }
  };
  return {
    environment: { [MARK]: mark },
    add(pid, what) {
      const startedAt = statOf(pid)?.startedAt;
      if (startedAt === undefined) return;
      own.set(pid, { pid, startedAt, what });
      save();
    },
    remove(pid) {
      if (own.delete(pid)) save();
    },
    async endLeftovers() {
      if (left === null || left.boot !== boot) return 0;
      const living = left.groups.filter((group) => membersOf(group, left.mark).length > 0);
      await Promise.all(living.map((group) => endGroup(group, left.mark, log)));
      return living.length;
    },
  };
}

async function endGroup(group: Group, mark: string, log: Logger): Promise<void> {
  const { pid, what } = group;
  log.warn({ pid, what }, 'a process that the last daemon left behind is ended');
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    signalAll(group, mark, signal);
    if (await endsInTime(group, mark)) return;
  }
  log.error({ pid, what }, 'a process that the last daemon left behind is still there after SIGKILL');
}

async function endsInTime(group: Group, mark: string): Promise<boolean> {
  const deadline = performance.now() + END_GRACE_MS;
  while (membersOf(group, mark).length > 0) {
    if (performance.now() > deadline) return false;
    await delay(POLL_MS);
  }
  return true;
}

/** One by one, each looked at just before: the group as a whole could hold somebody else by now. */
function signalAll(group: Group, mark: string, signal: NodeJS.Signals): void {
  for (const pid of membersOf(group, mark)) {
    try {
      process.kill(pid, signal);
    } catch {
      // It has just ended.
    }
  }
}

/**
 * Living processes of the group that are known to be of it: the leader that was noted, by its start time, or one that carries the mark of the
 * daemon. A process that has got a number anew is neither.
 */
function membersOf({ pid: leader, startedAt }: Group, mark: string): number[] {
  return processIds().filter((pid) => {
    const stat = statOf(pid);
    if (stat === null || stat.group !== leader || stat.isGone) return false;
    return pid === leader ? stat.startedAt === startedAt : hasMark(pid, mark);
  });
}

function processIds(): number[] {
  try {
    return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
  } catch {
    return []; // No /proc here.
  }
}

/** @source proc_pid_stat(5): fields 3 (state), 5 (pgrp) and 22 (starttime); the name in field 2 may hold anything but ends with the last `)` */
function statOf(pid: number): { group: number; startedAt: string; isGone: boolean } | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [state, , group] = fields;
    return { group: Number(group), startedAt: fields[19] ?? '', isGone: state === 'Z' || state === 'X' };
  } catch {
    return null; // It has ended, or there is no /proc.
  }
}

function hasMark(pid: number, mark: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`${MARK}=${mark}`);
  } catch {
    return false; // It has ended, or belongs to somebody else.
  }
}

/** Changes with each boot, after which numbers and times begin anew; null without /proc. */
function bootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return null;
  }
}

/** Null when there is none, or it cannot be read: then nothing is known to be ours. */
function readNote(path: string): Note | null {
  try {
    const { boot, mark, groups } = JSON.parse(readFileSync(path, 'utf8')) as Partial<Note>;
    if (typeof boot !== 'string' || typeof mark !== 'string' || !Array.isArray(groups)) return null;
    return { boot, mark, groups: groups.filter(({ pid, startedAt }) => Number.isInteger(pid) && pid > 1 && typeof startedAt === 'string') };
  } catch {
    return null;
  }
}
