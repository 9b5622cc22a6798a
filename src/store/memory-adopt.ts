import { copyFileSync, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { AgentName, DEFAULT_AGENT } from '../contract/ids.ts';
import type { MemoryHistoryEntry } from '../contract/memory.ts';
import { HISTORY_LIMIT_MAX, MemoryRecord } from '../contract/memory-lifecycle.ts';
import { isoTime } from '../core/clock.ts';
import { tagList } from '../core/memory-type.ts';
import { importRecords } from './memory-transfer.ts';
import { transaction } from './sqlite.ts';

/** Memories taken over before the store is open: a small database is there at once. About 250 ms. */
const AT_OPEN_MAX = 500;
/** Memories taken over in one transaction afterwards; between two of them the process answers. About 15 ms. */
const SLICE_MEMORIES = 32;

export interface Adoption {
  /** Taken over, forgotten ones included. */
  readonly memories: number;
  /** Rows that hold no memory: without an id or content. */
  readonly skipped: number;
}

export interface AdoptionProgress {
  /** Rows that were looked at, and all there are. */
  readonly read: number;
  readonly rows: number;
}

/** The memories of an existing daemon on their way into this one. */
export interface RunningAdoption {
  readonly progress: AdoptionProgress;
  /** Take the next ones over, in one transaction; the whole when there are no more. @throws whatever reading the database throws */
  step(): Adoption | undefined;
  /** Let go of the original; the next start goes on where this one was. */
  close(): void;
}

/**
 * Take over the memories of an existing daemon: ids, times, tags, pins, history and what it had forgotten. Done once per database; one that
 * broke off goes on where it was. The original is only read: never locked, never changed, its WAL included.
 *
 * @returns  undefined when there is nothing to take over, or it was done before; the first AT_OPEN_MAX are there on return
 * @throws   whatever reading the database throws; what was taken over until then stays, and the next start goes on
 */
export function beginAdoption(db: DatabaseSync, path: string, nowMs: number): RunningAdoption | Adoption | undefined {
  if (!existsSync(path) || db.prepare('SELECT 1 FROM adopted_databases WHERE path = ?').get(nameOf(path))) return undefined;
  const source = openSource(path, dirname(db.location() ?? path));
  try {
    const step = createStep(db, source.db, nowMs);
    const running: RunningAdoption = {
      progress: step.progress,
      step: () => {
        const whole = step.take(SLICE_MEMORIES);
        if (whole) noteAdopted(db, path, whole, nowMs);
        return whole;
      },
      close: source.close,
    };
    const whole = step.take(AT_OPEN_MAX);
    if (!whole) return running;
    noteAdopted(db, path, whole, nowMs);
    source.close();
    return whole;
  } catch (error) {
    source.close();
    throw error;
  }
}

function noteAdopted(db: DatabaseSync, path: string, { memories, skipped }: Adoption, nowMs: number): void {
  const sql = 'INSERT INTO adopted_databases (path, memories, skipped, adopted_at) VALUES (?, ?, ?, ?)';
  db.prepare(sql).run(nameOf(path), memories, skipped, nowMs);
}

/** The end of the path: a workspace that was moved is still the same. */
function nameOf(path: string): string {
  return path.split(/[/\\]/).slice(-2).join('/');
}

interface Source {
  readonly db: DatabaseSync;
  close(): void;
}

/** Without a WAL the file itself, as one that nobody writes; with one a copy of both, because reading a WAL writes beside it. */
function openSource(path: string, scratch: string): Source {
  const wal = `${path}-wal`;
  if (!existsSync(wal) || statSync(wal).size === 0) {
    const db = new DatabaseSync(`${pathToFileURL(path).href}?immutable=1`, { readOnly: true });
    return { db, close: () => db.close() };
  }
  const folder = mkdtempSync(join(scratch, 'adopt-'));
  const drop = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    copyFileSync(path, join(folder, 'copy.db'));
    copyFileSync(wal, join(folder, 'copy.db-wal'));
    const db = new DatabaseSync(join(folder, 'copy.db'));
    return {
      db,
      close() {
        db.close();
        drop();
      },
    };
  } catch (error) {
    drop();
    throw error;
  }
}

interface Step {
  readonly progress: { read: number; rows: number };
  /** The whole when it was the last. */
  take(rowsMax: number): Adoption | undefined;
}

function createStep(db: DatabaseSync, source: DatabaseSync, nowMs: number): Step {
  const columns = columnsOf(source, 'memories');
  const holdsMemories = columns.has('content') && columns.has('id');
  const rows = holdsMemories ? Number(source.prepare('SELECT count(*) AS n FROM memories').get()?.n) : 0;
  const page = holdsMemories ? source.prepare('SELECT rowid AS place, * FROM memories WHERE rowid > ? ORDER BY rowid LIMIT ?') : undefined;
  const historyOf = createHistoryReader(source);
  const progress = { read: 0, rows };
  const whole = { memories: 0, skipped: 0 };
  let after = 0;
  return {
    progress,
    take(rowsMax) {
      const taken = page?.all(after, rowsMax) ?? [];
      if (taken.length > 0) {
        after = Number(taken.at(-1)!.place);
        const histories = historyOf(taken.map((row) => String(row.id)));
        const records = taken.flatMap((row) => toRecord(row, histories.get(String(row.id)) ?? [], nowMs) ?? []);
        whole.memories += transaction(db, () => importRecords(db, records, 'skip', { keepTwins: true }).imported);
        whole.skipped += taken.length - records.length;
        progress.read += taken.length;
      }
      return taken.length < rowsMax ? { ...whole } : undefined;
    },
  };
}

/** The newest entries of each of several memories, oldest first. One statement for all of them: some databases have no index on their history. */
function createHistoryReader(source: DatabaseSync): (ids: readonly string[]) => ReadonlyMap<string, Row[]> {
  if (!columnsOf(source, 'memory_history').has('memory_id')) return () => new Map();
  const select = source.prepare(
    'SELECT rowid AS place, * FROM memory_history WHERE memory_id IN (SELECT value FROM json_each(?)) ORDER BY rowid',
  );
  return (ids) => {
    const histories = new Map<string, Row[]>();
    for (const entry of select.iterate(JSON.stringify(ids))) {
      const id = String(entry.memory_id);
      const known = histories.get(id) ?? [];
      known.push(entry);
      if (known.length > HISTORY_LIMIT_MAX) known.shift();
      histories.set(id, known);
    }
    return histories;
  };
}

type Row = Readonly<Record<string, unknown>>;

/** Undefined for a row that holds no memory. Columns that a version of the database does not have count as empty. */
function toRecord(row: Row, history: readonly Row[], nowMs: number): MemoryRecord | undefined {
  const id = textOf(row.id);
  const content = textOf(row.content);
  if (!id || !content?.trim()) return undefined;
  const created = timeOf(row.created_at) ?? nowMs;
  const updated = timeOf(row.updated_at) ?? created;
  const version = Math.max(1, Math.trunc(Number(row.version ?? 1)) || 1);
  const deleted = Number(row.is_deleted ?? 0) === 1 ? (timeOf(row.deleted_at) ?? updated) : undefined;
  const visibility = textOf(row.visibility);
  const isOwn = visibility === 'private' || visibility === 'archived';
  const record = MemoryRecord.safeParse({
    id: id.slice(0, 128),
    content,
    type: (textOf(row.type) || 'fact').slice(0, 64),
    importance: Math.min(1, Math.max(0, Number(row.importance ?? 0.5) || 0)),
    tags: tagsOf(row.tags),
    pinned: Number(row.pinned ?? 0) === 1,
    who: (textOf(row.who) || 'unknown').slice(0, 256),
    agentId: AgentName.safeParse(row.agent_id).success ? row.agent_id : DEFAULT_AGENT,
    scope: isOwn ? visibility : 'global',
    project: textOf(row.project)?.slice(0, 4_096) || null,
    source_type: (textOf(row.source_type) || 'manual').slice(0, 64),
    source_id: textOf(row.source_id)?.slice(0, 512) || null,
    idempotency_key: textOf(row.idempotency_key)?.slice(0, 256) || null,
    version,
    access_count: Math.max(0, Math.trunc(Number(row.access_count ?? 0)) || 0),
    created_at: isoTime(created),
    updated_at: isoTime(updated),
    deleted_at: deleted === undefined ? null : isoTime(deleted),
    history: history.map((entry, index) => toEntry(entry, Math.min(version, index + 1), created)),
  });
  return record.success ? record.data : undefined;
}

const EVENTS: Readonly<Record<string, MemoryHistoryEntry['event']>> = {
  created: 'created',
  updated: 'updated',
  deleted: 'deleted',
  recovered: 'recovered',
};

/** Events we have no word for (proposals of a pipeline) are updates whose reason names them. */
function toEntry(row: Row, version: number, fallbackMs: number): MemoryHistoryEntry {
  const name = textOf(row.event) ?? '';
  const reason = textOf(row.reason) ?? null;
  return {
    event: EVENTS[name] ?? 'updated',
    version,
    reason: name in EVENTS ? reason : [name, reason].filter(Boolean).join(': ') || null,
    changedBy: textOf(row.changed_by) || 'unknown',
    actorType: textOf(row.actor_type) ?? null,
    oldContent: textOf(row.old_content) ?? null,
    newContent: textOf(row.new_content) ?? null,
    changedFields: null,
    sessionId: textOf(row.session_id) ?? null,
    requestId: textOf(row.request_id) ?? null,
    createdAt: isoTime(timeOf(row.created_at) ?? fallbackMs),
  };
}

/** `a,b`, or a JSON list as the summaries of that daemon carry it. */
function tagsOf(value: unknown): string | null {
  const text = textOf(value);
  if (!text) return null;
  try {
    const list: unknown = text.startsWith('[') ? JSON.parse(text) : text;
    return tagList(Array.isArray(list) ? list.map(String) : text).join(',') || null;
  } catch {
    return tagList(text).join(',') || null; // A tag that begins with a bracket.
  }
}

function textOf(value: unknown): string | undefined {
  return value === null || value === undefined ? undefined : String(value);
}

/** ISO 8601, or what SQLite's `datetime('now')` writes, which is UTC as well; numbers are ms. */
function timeOf(value: unknown): number | undefined {
  if (typeof value === 'number' && value > 0) return value;
  const text = textOf(value);
  if (!text) return undefined;
  const ms = Date.parse(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/.test(text) ? `${text.replace(' ', 'T')}Z` : text);
  return Number.isNaN(ms) ? undefined : ms;
}

function columnsOf(db: DatabaseSync, table: string): Set<string> {
  return new Set(
    db
      .prepare('SELECT name FROM pragma_table_info(?)')
      .all(table)
      .map((row) => String(row.name)),
  );
}
