import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CardQuery, SessionCard } from '../core/signal-log.ts';
import type { CardRow } from './signal-log-protocol.ts';
import { cachedStatement } from './sqlite.ts';

/** Cards looked at before other work gets its turn, about 2 ms; a search may pass over all of them. */
const CARDS_SCANNED_PER_TURN = 1_000;
/** Sorts behind every ISO timestamp. */
const END_OF_TIME = '\uffff';

interface FoundRow {
  readonly id: string;
  readonly updated_at: string;
  /** Null when the row does not fit the rest of the query. */
  readonly body: string | null;
}

interface Condition {
  readonly sql: string;
  readonly values: readonly SQLInputValue[];
}

/** Newest first, then by id. Walks one index in slices, so a query that matches little never blocks the thread. */
export async function queryCards(db: () => DatabaseSync, query: CardQuery): Promise<SessionCard[]> {
  const { sql, values } = cardStatement(query);
  const found: SessionCard[] = [];
  let after = query.after;
  let scanned = CARDS_SCANNED_PER_TURN;
  while (found.length < query.limit && scanned === CARDS_SCANNED_PER_TURN) {
    const at = after ? [after.updatedAt, after.updatedAt, after.id] : [END_OF_TIME, END_OF_TIME, ''];
    scanned = 0;
    for (const row of cachedStatement(db(), sql).iterate(...values, ...at) as Iterable<unknown> as Iterable<FoundRow>) {
      scanned += 1;
      after = { updatedAt: row.updated_at, id: row.id };
      if (row.body !== null) found.push(JSON.parse(row.body) as SessionCard);
      if (found.length === query.limit || scanned === CARDS_SCANNED_PER_TURN) break;
    }
    if (scanned === CARDS_SCANNED_PER_TURN) await nextTurn();
  }
  return found;
}

/** What the writer stores of a card. Lower case is made here and not by SQLite, which folds ASCII only. */
export function toCardRow(card: SessionCard): CardRow {
  const { id, agent, state, open, parent, updatedAt } = card;
  const search = [card.id, card.key, card.title, card.project ?? ''].join('\n').toLowerCase();
  return { id, agent, state, open: open ? 1 : 0, parent, updatedAt, search, body: JSON.stringify(card) };
}

export function findCard(db: DatabaseSync, id: string): SessionCard | null {
  const row = cachedStatement(db, 'SELECT body FROM cards WHERE id = ?').get(id);
  return row ? (JSON.parse(String(row.body)) as SessionCard) : null;
}

export function countCardStates(db: DatabaseSync): Record<string, number> {
  const rows = cachedStatement(db, 'SELECT state, cards FROM card_counts WHERE cards > 0 ORDER BY state').all();
  return Object.fromEntries(rows.map((row) => [String(row.state), Number(row.cards)]));
}

/** One filter chooses the index that is walked; the others are tested row by row, so that the number of rows looked at can be limited. */
function cardStatement(query: CardQuery): { sql: string; values: SQLInputValue[] } {
  const { index, walk } = chooseIndex(query);
  const fits = conditionsOf(query);
  const sql = `
    SELECT id, updated_at, CASE WHEN ${fits.map((fit) => fit.sql).join(' AND ') || '1'} THEN body END AS body
    FROM cards INDEXED BY ${index}
    WHERE ${walk.sql} AND updated_at <= ? AND (updated_at < ? OR id > ?)
    ORDER BY updated_at DESC, id`;
  return { sql, values: [...fits.flatMap((fit) => fit.values), ...walk.values] };
}

/** The filter that usually leaves the fewest rows comes first. */
function chooseIndex({ parent, open, agent, state }: CardQuery): { index: string; walk: Condition } {
  if (parent !== undefined) return { index: 'cards_by_parent', walk: { sql: 'parent = ?', values: [parent] } };
  if (open) return { index: 'cards_open', walk: { sql: 'open = 1', values: [] } };
  if (agent !== undefined) return { index: 'cards_by_agent', walk: { sql: 'agent = ?', values: [agent] } };
  if (state !== undefined) return { index: 'cards_by_state', walk: { sql: 'state = ?', values: [state] } };
  return { index: 'cards_by_time', walk: { sql: '1', values: [] } };
}

function conditionsOf({ open, ended, agent, state, project, search }: CardQuery): Condition[] {
  const conditions: Condition[] = [];
  if (agent !== undefined) conditions.push({ sql: 'agent = ?', values: [agent] });
  if (state !== undefined) conditions.push({ sql: 'state = ?', values: [state] });
  if (project !== undefined) conditions.push({ sql: "body ->> '$.project' = ?", values: [project] });
  if (open !== undefined) conditions.push({ sql: 'open = ?', values: [open ? 1 : 0] });
  if (ended !== undefined) conditions.push({ sql: "(state = 'ended') = ?", values: [ended ? 1 : 0] });
  if (search) conditions.push({ sql: 'instr(search, ?) > 0', values: [search.toLowerCase()] });
  return conditions;
}
