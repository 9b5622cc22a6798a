import type { DatabaseSync } from 'node:sqlite';
import type { Usage } from '../contract/provider.ts';
import type { UsageCounts, UsageKey, UsagePurpose, UsageRow } from '../contract/usage.ts';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import { type CallEnd, type CallStart, type CallTotals, dayOf, type UsageFilter, type UsageLedger } from '../core/usage.ts';
import { cachedStatement, closeDatabase, type Migration, openDatabase, storageError, transaction } from './sqlite.ts';

/** Days of use that are kept; older ones are forgotten at the start. */
export const USAGE_DAYS_KEPT = 400;
const DAY_MS = 86_400_000;

/** Costs are kept as whole numbers, so that sums agree to the last one; units of one US dollar. */
const PICO = 1e12;

const MIGRATIONS: readonly Migration[] = [
  {
    name: 'calls of providers',
    up: `
      -- Requests under way, so that one whose process dies is counted too.
      CREATE TABLE open_calls (
        id INTEGER PRIMARY KEY,
        day TEXT NOT NULL, purpose TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL, workflow TEXT NOT NULL,
        provider TEXT NOT NULL, model TEXT NOT NULL, retries INTEGER NOT NULL,
        input INTEGER NOT NULL DEFAULT 0, output INTEGER NOT NULL DEFAULT 0,
        cache_read INTEGER NOT NULL DEFAULT 0, cache_write INTEGER NOT NULL DEFAULT 0,
        estimated INTEGER NOT NULL DEFAULT 0, cost REAL NOT NULL DEFAULT 0, unpriced INTEGER NOT NULL DEFAULT 0
      ) STRICT;

      CREATE TABLE usage (
        day TEXT NOT NULL, purpose TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL, workflow TEXT NOT NULL,
        provider TEXT NOT NULL, model TEXT NOT NULL,
        calls INTEGER NOT NULL, retries INTEGER NOT NULL, failed INTEGER NOT NULL, aborted INTEGER NOT NULL, interrupted INTEGER NOT NULL,
        input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL,
        estimated INTEGER NOT NULL, cost REAL NOT NULL, unpriced INTEGER NOT NULL,
        PRIMARY KEY (day, purpose, agent, session, workflow, provider, model)
      ) STRICT, WITHOUT ROWID;
    `,
  },
];

const KEYS = 'day, purpose, agent, session, workflow, provider, model';
const SUMS = 'calls, retries, failed, aborted, interrupted, input, output, cache_read, cache_write, estimated, cost, unpriced';
const SETTLE = `INSERT INTO usage (${KEYS}, ${SUMS})
  SELECT ${KEYS}, 1, retries, ?2, ?3, ?4, input, output, cache_read, cache_write, estimated, cost, unpriced FROM open_calls WHERE id = ?1
  ON CONFLICT DO UPDATE SET calls = calls + 1, retries = retries + excluded.retries, failed = failed + excluded.failed,
    aborted = aborted + excluded.aborted, interrupted = interrupted + excluded.interrupted, input = input + excluded.input,
    output = output + excluded.output, cache_read = cache_read + excluded.cache_read, cache_write = cache_write + excluded.cache_write,
    estimated = estimated + excluded.estimated, cost = cost + excluded.cost, unpriced = unpriced + excluded.unpriced`;
/** Ended calls and those under way, in one shape. */
const ALL = `(SELECT ${KEYS}, ${SUMS}, 0 AS open FROM usage UNION ALL
  SELECT ${KEYS}, 1, retries, 0, 0, 0, input, output, cache_read, cache_write, estimated, cost, unpriced, 1 FROM open_calls)`;
const TOTALS = `sum(calls) AS calls, sum(retries) AS retries, sum(failed) AS failed, sum(aborted) AS aborted,
  sum(interrupted) AS interrupted, sum(open) AS open, sum(input) AS inputTokens, sum(output) AS outputTokens,
  sum(cache_read) AS cacheReadTokens, sum(cache_write) AS cacheWriteTokens, sum(estimated) AS estimated, sum(cost) AS cost,
  sum(unpriced) AS unpriced`;

export interface UsageStoreOptions {
  readonly path: string;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface OpenedUsage extends UsageLedger {
  /** A second call does nothing. */
  close(): void;
}

/**
 * Opens the book of provider calls. Calls that an earlier process left open are counted as interrupted, with what was known of them. Commits
 * reach the operating system at once and the disk at the next checkpoint: a killed process loses nothing, a power failure the last moments.
 *
 * @throws AppError `storage_corrupt`, `storage_version`, `workspace_unwritable`, `storage_failed`
 */
export function openUsage({ path, clock, log }: UsageStoreOptions): OpenedUsage {
  const db = openDatabase(path, { synchronous: 'NORMAL', migrations: MIGRATIONS });
  const ledger = new SqliteLedger(db, path, clock, log);
  ledger.recover();
  return ledger;
}

class SqliteLedger implements OpenedUsage {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #totals = new Map<string, CallTotals>();
  readonly #purposes = new Map<number, UsagePurpose>();
  #fault: string | null = null;

  constructor(db: DatabaseSync, path: string, clock: Clock, log: Logger) {
    this.#db = db;
    this.#path = path;
    this.#clock = clock;
    this.#log = log;
  }

  /** Call once, before the first call begins. */
  recover(): void {
    const db = this.#db;
    transaction(db, () => {
      for (const { id } of cachedStatement(db, 'SELECT id FROM open_calls').all()) cachedStatement(db, SETTLE).run(id!, 0, 0, 1);
      db.exec('DELETE FROM open_calls');
      cachedStatement(db, 'DELETE FROM usage WHERE day < ?').run(dayOf(this.#clock.now() - USAGE_DAYS_KEPT * DAY_MS));
    });
  }

  begin(call: CallStart): number {
    const { purpose, agent = '', session = '', workflow = '', provider, model, attempt = 1 } = call;
    const id = this.#write(() => {
      const sql = `INSERT INTO open_calls (${KEYS}, retries) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
      const day = dayOf(this.#clock.now());
      return Number(
        cachedStatement(this.#db, sql).run(day, purpose, agent, session, workflow, provider, model, attempt > 1 ? 1 : 0).lastInsertRowid,
      );
    });
    if (id !== undefined) this.#purposes.set(id, purpose);
    return id ?? -1;
  }

  note(call: number, usage: Usage, costUsd: number | null): void {
    this.#write(() => this.#set(call, usage, costUsd));
  }

  end(call: number, { outcome, usage, costUsd }: CallEnd): void {
    const purpose = this.#purposes.get(call);
    if (purpose === undefined) return;
    this.#purposes.delete(call);
    this.#count(purpose, { outcome, usage, costUsd });
    const flag = (name: string) => (outcome === name ? 1 : 0);
    this.#write(() =>
      transaction(this.#db, () => {
        if (usage) this.#set(call, usage, costUsd);
        cachedStatement(this.#db, SETTLE).run(call, flag('failed'), flag('aborted'), flag('interrupted'));
        cachedStatement(this.#db, 'DELETE FROM open_calls WHERE id = ?').run(call);
      }),
    );
  }

  rows(filter: UsageFilter, by: readonly UsageKey[], limit: number): UsageRow[] {
    const keys = by.join(', ');
    const { where, values } = conditions(filter);
    const sql = `SELECT ${keys}, ${TOTALS} FROM ${ALL} ${where} GROUP BY ${keys} ORDER BY cost DESC, inputTokens DESC, ${keys} LIMIT ?`;
    return this.#read(() =>
      cachedStatement(this.#db, sql)
        .all(...values, limit)
        .map((row) => ({ ...Object.fromEntries(by.map((key) => [key, String(row[key])])), ...countsOf(row) })),
    );
  }

  total(filter: UsageFilter): UsageCounts {
    const { where, values } = conditions(filter);
    return this.#read(() => countsOf(cachedStatement(this.#db, `SELECT ${TOTALS} FROM ${ALL} ${where}`).get(...values) ?? {}));
  }

  readonly sinceStart = (): readonly CallTotals[] => [...this.#totals.values()];

  readonly fault = (): string | null => this.#fault;

  close(): void {
    closeDatabase(this.#db);
  }

  #set(
    call: number,
    { inputTokens, outputTokens, cacheReadTokens = 0, cacheWriteTokens = 0, estimated }: Usage,
    cost: number | null,
  ): void {
    const sql = `UPDATE open_calls SET input = ?, output = ?, cache_read = ?, cache_write = ?, estimated = ?, cost = ?, unpriced = ? WHERE id = ?`;
    const isUnpriced = cost === null && inputTokens + outputTokens > 0;
    cachedStatement(this.#db, sql).run(
      inputTokens,
      outputTokens,
      cacheReadTokens,
      cacheWriteTokens,
      estimated ? 1 : 0,
      Math.round((cost ?? 0) * PICO),
      isUnpriced ? 1 : 0,
      call,
    );
  }

  #count(purpose: UsagePurpose, { outcome, usage, costUsd }: CallEnd): void {
    const key = `${purpose} ${outcome}`;
    const sum = this.#totals.get(key) ?? { purpose, outcome, calls: 0, inputTokens: 0, outputTokens: 0, costUsd: 0 };
    sum.calls += 1;
    sum.inputTokens += usage?.inputTokens ?? 0;
    sum.outputTokens += usage?.outputTokens ?? 0;
    sum.costUsd += costUsd ?? 0;
    this.#totals.set(key, sum);
  }

  #read<T>(query: () => T): T {
    try {
      return query();
    } catch (error) {
      throw storageError(error, this.#path);
    }
  }

  /** Undefined when it failed: the call it is about must not fail of it. */
  #write<T>(change: () => T): T | undefined {
    try {
      const result = change();
      this.#fault = null;
      return result;
    } catch (error) {
      const known = storageError(error, this.#path);
      const reason = known instanceof Error ? known.message : String(known);
      if (this.#fault === null) this.#log.error({ err: error, file: this.#path }, 'a provider call could not be counted');
      this.#fault = reason;
      return undefined;
    }
  }
}

function conditions({ from, to, agent, session, purposes }: UsageFilter): { where: string; values: string[] } {
  const parts = ['day >= ?', 'day <= ?'];
  const values = [from, to];
  if (agent !== undefined) {
    parts.push('agent = ?');
    values.push(agent);
  }
  if (session !== undefined) {
    parts.push('session = ?');
    values.push(session);
  }
  if (purposes !== undefined) {
    parts.push(`purpose IN (${purposes.map(() => '?').join(', ')})`);
    values.push(...purposes);
  }
  return { where: `WHERE ${parts.join(' AND ')}`, values };
}

function countsOf(row: Readonly<Record<string, unknown>>): UsageCounts {
  const number = (name: string) => Number(row[name] ?? 0);
  return {
    calls: number('calls'),
    retries: number('retries'),
    failed: number('failed'),
    aborted: number('aborted'),
    interrupted: number('interrupted'),
    open: number('open'),
    inputTokens: number('inputTokens'),
    outputTokens: number('outputTokens'),
    cacheReadTokens: number('cacheReadTokens'),
    cacheWriteTokens: number('cacheWriteTokens'),
    estimated: number('estimated'),
    costUsd: number('cost') / PICO,
    unpriced: number('unpriced'),
  };
}
