import { closeSync, fdatasync, fdatasyncSync, fsyncSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { isAppError } from '../core/errors.ts';
import { type HighWaterMark, type MarkFinding, openHighWaterMark } from './high-water-mark.ts';
import { BackgroundCheckpoint } from './memory-checkpoint.ts';
import { cachedStatement, storageError, transaction } from './sqlite.ts';

/** Writes that share one transaction; more of them wait for the next, so that reads are not held up; unit: writes. */
const BATCH_WRITES_MAX = 128;
/** While a sync runs, so many begin the next commit; fewer wait for its end and for others: a commit costs as much as several writes; unit: writes. */
const COMMIT_BESIDE_SYNC_MIN = 8;

interface Waiting {
  /** Tells its caller how it went, once that will not change any more. */
  settle(fault?: unknown): void;
}

interface Queued extends Waiting {
  /** Runs it inside the transaction of its batch; a fault of its own is taken back and kept for `settle`. */
  run(): void;
  /** The same, but a fault passes and takes nothing back. Only for those that may run again; undefined for others. */
  readonly runBare: (() => void) | undefined;
}

export interface WriteOptions {
  /** `fn` touches nothing but the database: when a neighbour fails, it may be taken back and run once more. Such writes cost much less together. */
  readonly isRepeatable?: boolean;
}

/**
 * Writes of one connection, several to a commit: those of one turn of the event loop share a transaction and a sync. The sync is done by another
 * thread, so the loop goes on meanwhile; what was asked is answered only when it is on disk. The connection itself must not sync (synchronous = NORMAL).
 */
export class GroupCommit {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #committed: () => void;
  #queue: Queued[] = [];
  /** Committed, not yet on disk. */
  #unsynced: Waiting[] = [];
  #isSyncing = false;
  /** Why a sync failed. What it should have brought to disk may be lost without a further word, so nothing more is promised until the next start. */
  #fault: unknown;
  /** Why the disk refused the last write, until one succeeds. */
  #refusal: string | undefined;
  #isDue = false;
  #wal: number | undefined;
  readonly #checkpoint: BackgroundCheckpoint;
  readonly #mark: HighWaterMark;
  /** Commits that were acknowledged, or will be once they are on disk. */
  #commits: number;

  /** @param committed  called after each commit, before it is on disk */
  constructor(db: DatabaseSync, path: string, committed: () => void) {
    this.#db = db;
    this.#path = path;
    this.#committed = committed;
    this.#commits = Number(db.prepare('SELECT n FROM commit_count').get()?.n);
    // A mark follows each sync of the write-ahead log, so nothing that is marked goes with the power.
    this.#mark = openHighWaterMark({ path, unit: 'commits', mayLosePower: false }, this.#commits);
    this.#checkpoint = new BackgroundCheckpoint(db, path, () => this.#resume());
  }

  get finding(): MarkFinding {
    return this.#mark.finding;
  }

  /** After the connection was closed. */
  closeMark(): void {
    this.#mark.close();
  }

  /** Run `fn` in a transaction, all or nothing; resolves when it is on disk. */
  write<T>(fn: () => T, { isRepeatable = false }: WriteOptions = {}): Promise<T> {
    if (this.#fault !== undefined) return Promise.reject(storageError(this.#fault, this.#path));
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    let outcome: { value: T } | { fault: unknown } = { fault: new Error('not run') };
    const bare = (): void => {
      outcome = { value: fn() };
    };
    this.#queue.push({
      run: () => {
        try {
          outcome = { value: this.#apart(fn) };
        } catch (error) {
          // SQLite gave up the whole transaction (disk full, I/O): nobody in it has written anything.
          if (!this.#db.isTransaction) throw error;
          outcome = { fault: error };
          this.#noteRefusal(error);
        }
      },
      runBare: isRepeatable ? bare : undefined,
      settle: (fault) => {
        if (fault !== undefined) reject(storageError(fault, this.#path));
        else if ('value' in outcome) resolve(outcome.value);
        else reject(storageError(outcome.fault, this.#path));
      },
    });
    this.#schedule();
    return promise;
  }

  /** Run `fn` in a transaction of its own, now; a loss of power (not of the process) may take it back. */
  note<T>(fn: () => T): T {
    try {
      const before = this.#changes();
      const value = transaction(this.#db, fn);
      if (this.#changes() !== before) this.#refusal = undefined;
      this.#tellCommitted();
      return value;
    } catch (error) {
      this.#noteRefusal(error);
      throw error;
    }
  }

  /** Why the file takes no writes: the last one was refused by the disk. Null when it was not. */
  writeFault(): string | null {
    if (this.#fault !== undefined) return `${this.#path} could not be synced (${this.#fault}); start again`;
    return this.#refusal ?? null;
  }

  #noteRefusal(error: unknown): void {
    const fault = storageError(error, this.#path);
    if (isAppError(fault, 'storage_failed')) this.#refusal = fault.detail;
  }

  /** Everything queued is written, synced and answered; call before the connection closes. */
  close(): void {
    while (this.#queue.length > 0) this.#commit();
    this.#checkpoint.close();
    const waiting = this.#unsynced.splice(0);
    try {
      if (waiting.length > 0) {
        fdatasyncSync(this.#walFile());
        this.#mark.note(this.#commits);
      }
      for (const write of waiting) write.settle();
    } catch (error) {
      for (const write of waiting) write.settle(error);
    }
    // A sync under way still uses the file; it closes it when it is done.
    if (!this.#isSyncing) this.#closeWal();
    this.#isDue = true;
  }

  #schedule(): void {
    if (this.#isDue) {
      if (!this.#db.isOpen) this.#commit();
      return;
    }
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = !this.#db.isOpen;
      if (this.#queue.length === 0 || this.#mustWait()) return;
      this.#commit();
      if (this.#queue.length > 0) this.#schedule();
    });
  }

  #mustWait(): boolean {
    return this.#checkpoint.isHolding || (this.#isSyncing && this.#queue.length < COMMIT_BESIDE_SYNC_MIN);
  }

  #resume(): void {
    if (this.#queue.length > 0) this.#schedule();
  }

  #commit(): void {
    const batch = this.#queue.splice(0, BATCH_WRITES_MAX);
    try {
      const before = this.#changes();
      if (!this.#runBare(batch)) transaction(this.#db, () => this.#counted(() => this.#runAll(batch)));
      this.#commits = Number(cachedStatement(this.#db, 'SELECT n FROM commit_count').get()?.n);
      this.#tellCommitted();
      const changes = this.#changes();
      if (changes !== before) this.#refusal = undefined;
      this.#checkpoint.committed(changes);
      // Nothing written: an answer such as "known already" waits only for what it may rest upon.
      if (changes === before && !this.#isSyncing && this.#unsynced.length === 0) {
        for (const write of batch) write.settle();
        return;
      }
    } catch (error) {
      this.#noteRefusal(error);
      for (const write of batch) write.settle(error);
      return;
    }
    this.#unsynced.push(...batch);
    this.#sync();
  }

  /** Inside the transaction: a batch that writes nothing stays without a page to write. */
  #counted(run: () => void): void {
    const before = this.#changes();
    run();
    if (this.#changes() !== before) cachedStatement(this.#db, 'UPDATE commit_count SET n = n + 1').run();
  }

  /** The whole batch without a savepoint; false when one of them may not run again or failed: then nothing is written. */
  #runBare(batch: readonly Queued[]): boolean {
    if (batch.some((write) => write.runBare === undefined)) return false;
    try {
      transaction(this.#db, () =>
        this.#counted(() => {
          for (const write of batch) write.runBare?.();
        }),
      );
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Inside the transaction of the batch. A savepoint makes the full-text index write down what it has gathered, which costs more than the write
   * itself: those in a row that may run again share one, and each gets its own only after one of them failed.
   */
  #runAll(batch: readonly Queued[]): void {
    for (let from = 0; from < batch.length; ) {
      let to = from;
      while (to < batch.length && batch[to]!.runBare !== undefined) to += 1;
      const together = batch.slice(from, to);
      if (together.length < 2 || !this.#runTogether(together)) for (const write of batch.slice(from, Math.max(to, from + 1))) write.run();
      from = Math.max(to, from + 1);
    }
  }

  /** False when one of them failed: then none of them has written anything. */
  #runTogether(writes: readonly Queued[]): boolean {
    try {
      this.#apart(() => {
        for (const write of writes) write.runBare?.();
      });
      return true;
    } catch (error) {
      if (!this.#db.isTransaction) throw error;
      return false;
    }
  }

  /** Inside the transaction of the batch: a fault takes back this write alone. */
  #apart<T>(fn: () => T): T {
    cachedStatement(this.#db, 'SAVEPOINT write').run();
    try {
      const value = fn();
      cachedStatement(this.#db, 'RELEASE write').run();
      return value;
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK TO write; RELEASE write');
      throw error;
    }
  }

  #tellCommitted(): void {
    try {
      this.#committed();
    } catch {
      /* What listens falls behind, and tries again with the next commit; what is committed stays so. */
    }
  }

  #changes(): number {
    return Number(cachedStatement(this.#db, 'SELECT total_changes() AS n').get()?.n);
  }

  #sync(): void {
    if (this.#isSyncing || this.#unsynced.length === 0) return;
    const batch = this.#unsynced.splice(0);
    // Later commits may reach the disk by this sync too, or may not.
    const commits = this.#commits;
    const done = (fault?: unknown): void => {
      this.#isSyncing = false;
      if (fault) this.#fault = fault;
      else this.#mark.note(commits);
      for (const write of batch) write.settle(fault ?? undefined);
      if (!this.#db.isOpen) this.#closeWal();
      else {
        this.#sync();
        this.#resume();
      }
    };
    this.#isSyncing = true;
    try {
      fdatasync(this.#walFile(), done);
    } catch (error) {
      done(error);
    }
  }

  /** The write-ahead log, in which a commit is durable; its folder is synced once, because the file may be new. */
  #walFile(): number {
    if (this.#wal === undefined) {
      this.#wal = openSync(`${this.#path}-wal`, 'r+');
      const folder = openSync(dirname(this.#path), 'r');
      try {
        fsyncSync(folder);
      } finally {
        closeSync(folder);
      }
    }
    return this.#wal;
  }

  #closeWal(): void {
    if (this.#wal !== undefined) closeSync(this.#wal);
    this.#wal = undefined;
  }
}
