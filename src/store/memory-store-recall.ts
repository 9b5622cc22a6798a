import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import type { RecalledMemory } from '../contract/memory.ts';
import type { MemoryFilter, Ranking, Reader, Recalled, RecallQuery } from '../core/memory-store.ts';
import {
  coverage,
  matchExpression,
  QUERY_TERMS_MAX,
  queryTerms,
  STRONG_SCORE_MIN,
  type WeightedTerm,
  weighTerm,
} from '../core/recall-query.ts';
import { type Condition, type MemoryRow, selectMemories, viewsOf, visibleTo } from './memory-store-scope.ts';
import { cachedStatement } from './sqlite.ts';

/** Hits that are scored when a least score is asked for, so that weak ones do not use up the limit. */
const CANDIDATES_MAX = 200;
/** Newest, and most important, memories that session start chooses from; keeps it fast with a million memories. */
const RANKED_POOL = 100;
const DAY_MS = 86_400_000;

/**
 * Full-text search: any term may match, ordered by bm25, then newest, then id.
 * bm25 counts over the whole index and so orders alone; what is told to the reader, the score, counts only what it may see.
 */
export function recallMemories(db: DatabaseSync, reader: Reader, query: RecallQuery): Recalled {
  const terms = weighTerms(db, reader, query);
  const words = terms.map((term) => term.word);
  const match = matchExpression(terms);
  if (match === undefined) return { results: [], method: 'none', strong: false, terms: words };
  const rows = selectMemories(db, {
    scope: visibleTo(reader),
    match,
    where: conditionsOf(query.filter ?? {}),
    order: { sql: 'bm25(memories_fts), m.created_at DESC, m.id', values: [] },
    limit: query.scoreMin === undefined ? query.limit : CANDIDATES_MAX,
  });
  const results = rows.map(({ memory }): RecalledMemory => {
    const score = coverage(terms, memory.content);
    return { ...memory, score, source: 'fts', content_length: memory.content.length, truncated: false };
  });
  const kept = results.filter((result) => result.score >= (query.scoreMin ?? 0)).slice(0, query.limit);
  return { results: kept, method: 'fts', strong: kept.some((result) => result.score >= STRONG_SCORE_MIN), terms: words };
}

/** Session start's order, @source spec/hooks. Equal scores: newest, then id. */
export function rankMemories(db: DatabaseSync, reader: Reader, ranking: Ranking, nowMs: number): MemoryRow[] {
  const { recencyBias: bias } = ranking;
  return selectMemories(db, {
    scope: visibleTo(reader),
    where: conditionsOf(ranking.filter ?? {}),
    pool: { orders: ['m.created_at DESC', 'm.importance DESC, m.created_at DESC'], size: RANKED_POOL },
    order: {
      sql: `m.importance * ? + ? / (1.0 + max(0, ? - m.created_at) / ${DAY_MS}.0) DESC, m.created_at DESC, m.id`,
      values: [1 - bias, bias, nowMs],
    },
    limit: ranking.limit,
  });
}

function weighTerms(db: DatabaseSync, reader: Reader, query: RecallQuery): WeightedTerm[] {
  const views = viewsOf(reader);
  const count = cachedStatement(db, 'SELECT documents FROM memory_terms WHERE view = ? AND term = ?');
  const documents = (term: string): number => views.reduce((sum, view) => sum + Number(count.get(view, term)?.documents ?? 0), 0);
  const total = documents('');
  return queryTerms(query.text, query.termsMax ?? QUERY_TERMS_MAX).map((term) => weighTerm(term, documents(term.stem), total));
}

function conditionsOf(filter: MemoryFilter): Condition[] {
  const conditions: Condition[] = [];
  const add = (sql: string, ...values: SQLInputValue[]): void => void conditions.push({ sql, values });
  if (filter.project !== undefined) add('m.project = ?', filter.project);
  if (filter.aroundProject !== undefined) add(`(m.project = ? OR m.project IS NULL OR m.type = 'preference')`, filter.aroundProject);
  if (filter.scope !== undefined) add('m.scope = ?', filter.scope);
  if (filter.type !== undefined) add('m.type = ?', filter.type);
  for (const tag of filter.tags ?? []) add(`instr(',' || lower(m.tags) || ',', ',' || lower(?) || ',') > 0`, tag);
  if (filter.who !== undefined) add('m.who = ?', filter.who);
  if (filter.pinned !== undefined) add('m.pinned = ?', filter.pinned ? 1 : 0);
  if (filter.importanceMin !== undefined) add('m.importance >= ?', filter.importanceMin);
  if (filter.sinceMs !== undefined) add('m.created_at >= ?', filter.sinceMs);
  if (filter.untilMs !== undefined) add('m.created_at <= ?', filter.untilMs);
  return conditions;
}
