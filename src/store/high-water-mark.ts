import { closeSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs';

/** The mark is replaced in place by one write of a fixed length; unit: bytes. */
const MARK_BYTES = 512;
const FILE_MODE = 0o600;
const BOOT_ID_FILE = '/proc/sys/kernel/random/boot_id';

/** What a start found when it compared a database with its mark. */
export type MarkFinding =
  /** Everything that was acknowledged is there. */
  | { readonly kind: 'whole' }
  /** An older copy, or an empty file, was put in the place of the database. */
  | { readonly kind: 'replaced'; readonly detail: string }
  /** The database is the same and holds less than was acknowledged. */
  | { readonly kind: 'lost'; readonly detail: string };

interface Mark {
  /** Newest number that was acknowledged. */
  readonly head: number;
  /** Of the database file. */
  readonly dev: number;
  readonly ino: number;
  /** Closed in order: the write-ahead log was empty. */
  readonly clean: boolean;
  /** Of the machine, where it is known. */
  readonly boot: string | null;
  /** Found missing by an earlier start, until the mark is deleted. */
  readonly lost?: string;
}

export interface MarkOptions {
  /** The database; the mark stands beside it as `<name>.mark`. */
  readonly path: string;
  /** What `head` counts, for messages: `signals`, `commits`. */
  readonly unit: string;
  /** True when a commit that is marked may still go with the power of the machine. */
  readonly mayLosePower: boolean;
}

export interface HighWaterMark {
  readonly finding: MarkFinding;
  /** `head` is durable now. Costs one write into the page cache; never throws. */
  note(head: number): void;
  /** After the database was closed. */
  close(): void;
}

/**
 * Opens the mark of a database: the newest number that is durable, kept outside of it. SQLite takes a write-ahead log that is damaged or gone for
 * one that ended earlier, and says nothing. The mark is written after the sync of a commit, so it is never ahead of what is durable, whatever
 * ends the process or the machine; it is not synced itself, so after a loss of power it may be behind.
 *
 * @param head  the newest number in the database as it was opened
 */
export function openHighWaterMark({ path, unit, mayLosePower }: MarkOptions, head: number): HighWaterMark {
  const file = markFile(path);
  const { dev, ino } = statSync(path);
  const boot = bootId();
  const before = readMark(file);
  const finding = compare(before, { head, dev, ino, boot }, { path, file, unit, mayLosePower });
  let mark: Mark = { head, dev, ino, clean: false, boot, ...(finding.kind === 'lost' ? { lost: finding.detail } : {}) };
  let fd = tryOpen(file);
  const write = (): void => {
    if (fd === undefined) return;
    try {
      writeSync(fd, markText(mark), 0);
    } catch {
      // A mark that is behind says less, and nothing wrong.
    }
  };
  write();
  return {
    finding,
    note(now) {
      if (now <= mark.head) return;
      mark = { ...mark, head: now };
      write();
    },
    close() {
      if (fd === undefined) return;
      mark = { ...mark, clean: (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0 };
      write();
      closeSync(fd);
      fd = undefined;
    },
  };
}

/**
 * Writes for a copy that comes from a backup the head of the database it replaces: the next start says once what the copy is without, and is healthy.
 * Nothing where there is no mark. Both are the paths of the databases.
 */
export function carryMark(from: string, to: string): void {
  const mark = readMark(markFile(from));
  if (!mark) return;
  // No file has this number, so the copy is never taken for the file that was marked.
  const carried: Mark = { head: mark.head, dev: 0, ino: 0, clean: true, boot: null };
  writeFileSync(markFile(to), markText(carried), { mode: FILE_MODE });
}

function compare(
  before: Mark | undefined,
  now: Omit<Mark, 'clean'>,
  { path, file, unit, mayLosePower }: MarkOptions & { readonly file: string },
): MarkFinding {
  if (!before) return { kind: 'whole' };
  const isOther = before.dev !== now.dev || before.ino !== now.ino;
  if (!isOther && before.lost !== undefined) return { kind: 'lost', detail: before.lost };
  if (now.head >= before.head) return { kind: 'whole' };
  const range = `${unit} ${now.head + 1} to ${before.head}`;
  if (isOther || before.clean) {
    return { kind: 'replaced', detail: `${path} is an older copy than the one that was used last: it is without ${range}` };
  }
  if (mayLosePower && (now.boot === null || now.boot !== before.boot)) return { kind: 'whole' };
  const fix = `bring a backup back, or delete ${file} and start again to accept the loss`;
  return { kind: 'lost', detail: `${path} lost ${range}, which were acknowledged: its write-ahead log was damaged or deleted; ${fix}` };
}

function markFile(path: string): string {
  return `${path.replace(/\.db$/, '')}.mark`;
}

function markText(mark: Mark): string {
  return JSON.stringify(mark)
    .padEnd(MARK_BYTES - 1)
    .concat('\n');
}

/** Undefined where there is none, or it cannot be read: then nothing is known. */
function readMark(file: string): Mark | undefined {
  try {
    const { head, dev, ino, clean, boot, lost } = JSON.parse(readFileSync(file, 'utf8')) as Mark;
    if (!Number.isSafeInteger(head) || typeof dev !== 'number' || typeof ino !== 'number') return undefined;
    return { head, dev, ino, clean: clean === true, boot, ...(typeof lost === 'string' ? { lost } : {}) };
  } catch {
    return undefined;
  }
}

function tryOpen(file: string): number | undefined {
  try {
    // Made when it is absent, never cut: a kill between the two would leave an empty one.
    closeSync(openSync(file, 'a', FILE_MODE));
    return openSync(file, 'r+');
  } catch {
    return undefined; // A folder that takes no file: the database is opened all the same.
  }
}

function bootId(): string | null {
  try {
    return readFileSync(BOOT_ID_FILE, 'utf8').trim();
  } catch {
    return null;
  }
}
