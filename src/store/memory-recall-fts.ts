import type { DatabaseSync } from 'node:sqlite';
import type { RecalledMemory } from '../contract/memory.ts';
import type { Reader, RecallQuery } from '../core/memory-store.ts';
import { matchOfScore } from '../core/recall/match.ts';
import type { AskedTerm } from '../core/recall/query.ts';
import { idfOf } from '../core/recall/weigh.ts';
import { wordsIn } from '../core/recall/words.ts';
import type { MemoryIndex } from './memory-index.ts';
import { conditionsOf } from './memory-store-filter.ts';
import { selectMemories, visibleTo } from './memory-store-scope.ts';

/** Terms that are searched for: the rarest ones, because the cost of a full-text match is the sum of their occurrences. */
const MATCH_TERMS_MAX = 8;
/** Hits that are scored. */
const CANDIDATES_MAX = 200;

/**
 * Full-text search, while the index is being built: any term may match, best first by bm25, then newest, then id.
 * bm25 counts over the whole store and so chooses alone; the score counts only what the reader may see.
 */
export function recallByFullText(
  db: DatabaseSync,
  index: MemoryIndex,
  reader: Reader,
  query: RecallQuery,
  asked: readonly AskedTerm[],
): RecalledMemory[] {
  const terms = asked
    .filter(({ whole }) => !whole)
    .map(({ word, stem }) => ({ word, stem, idf: idfOf(index.counts(reader, stem)) }))
    .sort((a, b) => b.idf - a.idf)
    .slice(0, MATCH_TERMS_MAX);
  if (terms.length === 0) return [];
  const rows = selectMemories(db, {
    scope: visibleTo(reader),
    match: terms.map(({ word }) => `"${word}"`).join(' OR '),
    where: conditionsOf(query.filter ?? {}),
    order: { sql: 'bm25(memories_fts), m.created_at DESC, m.id', values: [] },
    limit: query.scoreMin === undefined ? query.limit : CANDIDATES_MAX,
  });
  const weight = terms.reduce((sum, { idf }) => sum + idf, 0);
  const results = rows.map(({ memory }): RecalledMemory => {
    const stems = new Set(wordsIn(memory.content).map((word) => word.stem));
    const held = terms.reduce((sum, { stem, idf }) => sum + (stems.has(stem) ? idf : 0), 0);
    const score = Math.round((held / weight) * 10_000) / 10_000;
    return { ...memory, score, match: matchOfScore(score), source: 'fts', content_length: memory.content.length, truncated: false };
  });
  return results.filter((result) => result.score >= (query.scoreMin ?? 0)).slice(0, query.limit);
}
