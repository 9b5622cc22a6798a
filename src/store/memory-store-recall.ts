import type { DatabaseSync } from 'node:sqlite';
import type { Memory, RecalledMemory } from '../contract/memory.ts';
import type { MemoryFilter, Ranking, Reader, Recalled, RecallQuery } from '../core/memory-store.ts';
import { explainedParts } from '../core/recall/explain.ts';
import { weighFeedback } from '../core/recall/feedback.ts';
import { FRESH_AMONG, freshFirst } from '../core/recall/fresh.ts';
import { fuse } from '../core/recall/fuse.ts';
import { type Match, matchOf } from '../core/recall/match.ts';
import { readQuery } from '../core/recall/query.ts';
import type { RankedMemory } from '../core/recall/rank.ts';
import { scoreOf } from '../core/recall/score.ts';
import { hasRatings, ratingsOf } from './memory-feedback.ts';
import type { MemoryIndex } from './memory-index.ts';
import { recallByFullText } from './memory-recall-fts.ts';
import { conditionsOf } from './memory-store-filter.ts';
import { type Condition, type MemoryRow, selectMemories, visibleTo } from './memory-store-scope.ts';
import type { MemoryVectors } from './memory-vectors.ts';

/** Best memories that ratings may move and results are taken from. */
const RANKED_MAX = 200;
/** Strength is a matter of the first results only. */
const STRONG_AMONG = 10;
/** Newest, and most important, memories that session start chooses from; keeps it fast with a million memories. */
const RANKED_POOL = 100;
const DAY_MS = 86_400_000;
/** What orders standing memories before the score of session start does: pins, then ratings, then what directs before what is liked, then use. */
const PINNED_WEIGHT = 10;
const RATED_WEIGHT = 2;
const DIRECTING_WEIGHT = 1;
const USED_WEIGHT = 0.5;
/** Says how things are to be done, rather than what somebody is fond of. */
const DIRECTS = /\b(?:prefer\w*|wants?|always|never|must|do not|don['’]t|instead of|rather than|over)\b/i;
/** Injects from which a memory counts as used often. */
const USES_MAX = 20;

export interface RecallDeps {
  readonly db: DatabaseSync;
  readonly index: MemoryIndex;
  readonly vectors: MemoryVectors;
}

/** By the index, and by meaning where the query comes with a vector; by full text as long as the index is behind. */
export async function recallMemories(deps: RecallDeps, reader: Reader, query: RecallQuery, nowMs: number): Promise<Recalled> {
  const { db, index, vectors } = deps;
  const asked = readQuery(query.text, query.termsMax);
  const told = { terms: asked.terms.map((term) => term.word), stems: asked.terms.map((term) => term.stem) };
  const filter: MemoryFilter = reader.within === undefined ? (query.filter ?? {}) : { ...query.filter, within: reader.within };
  const byMeaning = query.vector === undefined ? undefined : await vectors.nearest(reader, query.vector, filter);
  // After the wait: what was forgotten meanwhile is in neither of the two.
  const isRated = hasRatings(db, reader);
  const byWords = index.rank(reader, asked, filter, byMeaning ? undefined : rankedFor(query, isRated));
  if (!byWords) {
    const results = recallByFullText(db, index, reader, query, asked.terms);
    return { results, method: 'fts', degraded: 'the index is being built', strong: isStrong(results), ...told };
  }
  if (byWords.length === 0 && !byMeaning?.length) return { results: [], method: 'none', strong: false, ...told };
  const found = (byMeaning ? fuse(byWords, byMeaning) : byWords).slice(0, RANKED_MAX);
  const ids = found.map(({ entry }) => entry.id);
  const weighed = isRated ? weighFeedback(found, ratingsOf(db, reader, ids), asked.terms, nowMs) : found;
  const results = toResults(db, reader, query, freshFirst(weighed));
  return { results, method: byMeaning ? 'hybrid' : 'keyword', strong: isStrong(results), ...told };
}

/** How many of the best a query needs: more than it asks for only where something may move or be left out afterwards. */
function rankedFor({ limit, scoreMin, wordsOnly }: RecallQuery, isRated: boolean): number {
  const takesAll = isRated || scoreMin !== undefined || wordsOnly === true;
  return takesAll ? RANKED_MAX : Math.max(limit, FRESH_AMONG);
}

function isStrong(results: readonly RecalledMemory[]): boolean {
  return results.slice(0, STRONG_AMONG).some((result) => result.match === 'strong');
}

/** The rows behind what was ranked, through the one filter nothing goes around. */
function toResults(db: DatabaseSync, reader: Reader, query: RecallQuery, ranked: readonly RankedMemory[]): RecalledMemory[] {
  const worth = ranked.filter((found) => scoreOf(found) >= (query.scoreMin ?? 0) && (found.mask !== 0 || !query.wordsOnly));
  const chosen = worth.slice(0, query.limit);
  const seqs = { sql: 'm.seq IN (SELECT value FROM json_each(?))', values: [JSON.stringify(chosen.map(({ entry }) => entry.seq))] };
  const rows = selectMemories(db, { scope: visibleTo(reader), where: [...conditionsOf(query.filter ?? {}), seqs], limit: query.limit });
  const bySeq = new Map(rows.map(({ seq, memory }) => [seq, memory]));
  return chosen.flatMap((found) => {
    const memory = bySeq.get(found.entry.seq);
    return memory ? [toResult(memory, found, query.explain ?? false)] : [];
  });
}

function toResult(memory: Memory, found: RankedMemory, explain: boolean): RecalledMemory {
  const source = found.likeness === undefined ? 'keyword' : found.mask === 0 ? 'vector' : 'hybrid';
  const result = {
    ...memory,
    score: scoreOf(found),
    match: matchOf(found),
    source,
    content_length: memory.content.length,
    truncated: false,
  };
  return explain ? { ...result, explain: explanationOf(found, memory) } : result;
}

function explanationOf(found: RankedMemory, memory: Memory) {
  const { relevance, coverage, around, certainty, features, feedback = 0, likeness } = found;
  const rounded = (value: number): number => Math.round(value * 10_000) / 10_000;
  return {
    relevance: rounded(relevance),
    coverage: rounded(coverage),
    around: rounded(around),
    feedback: rounded(feedback),
    likeness: likeness === undefined ? null : rounded(likeness),
    features: Object.fromEntries(Object.entries(features).map(([name, value]) => [name, rounded(value)])),
    parts: explainedParts(features),
    certainty: Number.isFinite(certainty) ? rounded(certainty) : null,
    inject: shownBecause(matchOf(found), memory.superseded_by),
  };
}

/** What the hook of a prompt would make of a result. Repeats, the room that is left and the project of the session are known to the hook alone. */
function shownBecause(match: Match, supersededBy: string | null): string {
  if (match === 'none') return 'not shown: too little of the question is in it';
  if (supersededBy !== null) return `not shown alone: superseded by ${supersededBy}`;
  if (match === 'faint') return 'shown beside a strong match only, where there is room: too little of the question is in it';
  const told = match === 'strong' ? 'shown' : 'shown as possibly related, among the first three, where no match is strong';
  return `${told}; left out while it was shown in one of the last turns, or where there is no room`;
}

/** Session start's order, @source spec/hooks. Equal scores: newest, then id. */
export function rankMemories(deps: Pick<RecallDeps, 'db' | 'index'>, reader: Reader, ranking: Ranking, nowMs: number): MemoryRow[] {
  return ranking.standing ? rankStanding(deps, reader, ranking, nowMs) : rankPool(deps.db, reader, ranking, nowMs, []);
}

function rankPool(db: DatabaseSync, reader: Reader, ranking: Ranking, nowMs: number, more: readonly Condition[]): MemoryRow[] {
  const { recencyBias: bias } = ranking;
  return selectMemories(db, {
    scope: visibleTo(reader),
    // Pieces of documents are found when they are asked for; unasked they would push everything else out.
    where: [...conditionsOf(ranking.filter ?? {}), { sql: `m.source_type <> 'document'`, values: [] }, ...more],
    pool: { orders: ['m.created_at DESC', 'm.importance DESC, m.created_at DESC'], size: ranking.poolLimit ?? RANKED_POOL },
    order: {
      sql: `m.importance * ? + ? / (1.0 + max(0, ? - m.created_at) / ${DAY_MS}.0) DESC, m.created_at DESC, m.id`,
      values: [1 - bias, bias, nowMs],
    },
    limit: ranking.limit,
  });
}

/** What stands is chosen by the index; while that is behind, from the newest and most important memories. */
function rankStanding({ db, index }: Pick<RecallDeps, 'db' | 'index'>, reader: Reader, ranking: Ranking, nowMs: number): MemoryRow[] {
  const size = ranking.poolLimit ?? RANKED_POOL;
  const seqs = index.standing(
    reader,
    reader.within === undefined ? (ranking.filter ?? {}) : { ...ranking.filter, within: reader.within },
    size,
  );
  const stands: Condition =
    seqs === undefined
      ? { sql: `(m.pinned = 1 OR m.type IN ('rule', 'preference'))`, values: [] }
      : { sql: 'm.seq IN (SELECT value FROM json_each(?))', values: [JSON.stringify(seqs)] };
  const rows = rankPool(db, reader, { ...ranking, limit: size }, nowMs, [stands]);
  const ratings = hasRatings(db, reader)
    ? ratingsOf(
        db,
        reader,
        rows.map(({ memory }) => memory.id),
      )
    : [];
  const weightOf = ({ memory }: MemoryRow): number => {
    const own = ratings.filter(({ memoryId }) => memoryId === memory.id);
    const rated = own.reduce((sum, { rating }) => sum + rating, 0) / Math.max(1, own.length);
    const used = Math.min(1, memory.access_count / USES_MAX);
    return (
      (memory.pinned ? PINNED_WEIGHT : 0) +
      (DIRECTS.test(memory.content) ? DIRECTING_WEIGHT : 0) +
      RATED_WEIGHT * rated +
      USED_WEIGHT * used
    );
  };
  const weighed = rows.map((row, place) => ({ row, weight: weightOf(row), place }));
  weighed.sort((a, b) => b.weight - a.weight || a.place - b.place);
  const [rules, others] = [true, false].map((isRule) => weighed.filter(({ row }) => (row.memory.type === 'rule') === isRule));
  // In turn, so that many rules of a project leave room for what the person likes, and the other way round; pinned ones before all.
  const inTurn = weighed.flatMap((_, place) => [rules![place], others![place]].filter((one) => one !== undefined));
  inTurn.sort((a, b) => Number(b.row.memory.pinned) - Number(a.row.memory.pinned));
  return inTurn.slice(0, ranking.limit).map(({ row }) => row);
}
