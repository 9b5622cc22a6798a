import { QUERY_CHARS_MAX, RECALL_LIMIT } from '../contract/memory.ts';
import { type memoryLifecycleOperations, RETENTION_DAYS } from '../contract/memory-lifecycle.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import { type MemoryStore, ownerOf, type SessionStore } from '../core/memory-store.ts';
import type { MemoryTransfer } from '../core/memory-transfer.ts';
import { tagList } from '../core/memory-type.ts';
import type { Handlers } from '../core/operation-call.ts';
import { countFitting } from '../core/page-bytes.ts';
import { plainKey, readerFor } from './hook-session.ts';
import { noteOf } from './memory-actor.ts';
import { type RememberDeps, rememberMemory } from './memory-handlers.ts';
import { defaultVisibility, memoryFilter, recallQuery } from './memory-input.ts';

const DAY_MS = 86_400_000;
/** Days before today's beginning at which each part begins. */
const TIMELINE = [
  { name: 'today', days: 0 },
  { name: 'week', days: 7 },
  { name: 'month', days: 37 },
] as const;

export interface MemoryLifecycleDeps extends RememberDeps {
  readonly sessions: SessionStore;
  readonly transfer: MemoryTransfer;
  readonly clock: Clock;
}

/** History, recovery, ratings, lists, older forms of the search, export and import. */
export function createMemoryLifecycleHandlers({
  memories,
  sessions,
  transfer,
  clock,
  config,
  warnOf,
}: MemoryLifecycleDeps): Handlers<typeof memoryLifecycleOperations> {
  return {
    saveMemory: (input, context) => rememberMemory({ memories, config, ...(warnOf ? { warnOf } : {}) }, input, context),
    memoryHistory: async (input, context) => {
      const reader = readerFor(input, context);
      if (!(await memories.get(reader, input.id)))
        throw new AppError('memory_not_found', { detail: `no memory ${input.id} that this caller may see` });
      const history = await memories.history(reader, input.id, input.limit);
      return { memoryId: input.id, count: history.length, history };
    },
    recoverMemory: async (input, context) => {
      const recovered = await memories.recover(readerFor(input, context), input.id, noteOf(input, context));
      return { ...recovered, success: true, retentionDays: RETENTION_DAYS };
    },
    memoryFeedback: async (input, context) => {
      const sessionKey = plainKey(input.sessionKey || input.session_key || '');
      const reader = readerFor({ agentId: input.agentId, sessionKey }, context);
      const line = { agentId: ownerOf(reader), sessionKey };
      const recorded = await sessions.feedback(reader, line, input.feedback ?? input.ratings ?? {});
      return { ok: true, success: true, recorded };
    },
    listMemories: async (input, context) => {
      const { limit, offset, forgotten } = input;
      const filter = memoryFilter(input, { project: input.project });
      const page = await memories.list(readerFor(input, context), { filter, limit, offset, forgotten });
      const fitting = page.memories.slice(0, countFitting(page.memories));
      const next = offset + fitting.length;
      const stats = { total: page.total, withEmbeddings: page.embedded, critical: page.critical };
      return { memories: fitting, total: page.total, next: next < page.total && fitting.length > 0 ? next : null, stats };
    },
    ...createSearchHandlers(memories),
    ...createLookHandlers(memories, clock),
    exportMemories: async (input, context) => {
      const reader = input.all ? null : readerFor(input, context);
      const { records, next } = await transfer.exportPage(reader, input.after, input.limit);
      const header = input.after === 0 ? [{ format: 'signet-memories', version: 1 }] : [];
      const lines = [...header, ...records, next === undefined ? { end: true } : { next }];
      return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    },
    importMemories: async (input) => {
      const { duplicates, ...counts } = await transfer.importRecords(
        input.memories.map((record) => ({ ...record, scope: record.scope ?? defaultVisibility(config, record.agentId) ?? 'global' })),
        input.conflict,
      );
      return { ...counts, duplicates: [...duplicates], success: true };
    },
  };
}

type LookHandlers = Pick<Handlers<typeof memoryLifecycleOperations>, 'similarMemories' | 'memoryTimeline'>;

function createLookHandlers(memories: MemoryStore, clock: Clock): LookHandlers {
  return {
    similarMemories: async (input, context) => {
      const reader = readerFor(input, context);
      const memory = await memories.get(reader, input.id);
      if (!memory) throw new AppError('memory_not_found', { detail: `no memory ${input.id} that this caller may see` });
      const filter = memoryFilter({ type: input.type }, {});
      const text = memory.content.slice(0, QUERY_CHARS_MAX);
      const { results } = await memories.recall(reader, { text, limit: input.k + 1, filter });
      const others = results.filter(({ id }) => id !== memory.id).slice(0, input.k);
      return {
        results: others.map(({ id, content, type, tags, score, created_at }) => ({
          id,
          content,
          type,
          tags: tagList(tags),
          score,
          created_at,
        })),
      };
    },
    memoryTimeline: async (input, context) => {
      const reader = readerFor(input, context);
      const nowMs = clock.now();
      const todayMs = nowMs - (nowMs % DAY_MS);
      let untilMs: number | undefined;
      const buckets: Awaited<ReturnType<LookHandlers['memoryTimeline']>>['buckets'] = [];
      for (const { name, days } of TIMELINE) {
        const sinceMs = todayMs - days * DAY_MS;
        const page = await memories.list(reader, { filter: { sinceMs, untilMs }, limit: input.limit, offset: 0 });
        buckets.push({ name, since: isoTime(sinceMs), count: page.total, memories: page.memories });
        untilMs = sinceMs - 1;
      }
      return { buckets };
    },
  };
}

type SearchHandlers = Pick<Handlers<typeof memoryLifecycleOperations>, 'searchMemories' | 'searchMemoriesLegacy'>;

function createSearchHandlers(memories: MemoryStore): SearchHandlers {
  return {
    searchMemories: async (input, context) => {
      const query = input.q ?? input.query ?? '';
      const reader = readerFor(input, context);
      const found = await memories.recall(reader, recallQuery({ ...input, query }, { project: input.project }));
      const { results, method, degraded, strong } = found;
      return { results, count: results.length, query, method, ...(degraded ? { degraded } : {}), strong };
    },
    searchMemoriesLegacy: async (input, context) => {
      const reader = readerFor(input, context);
      const project = { project: input.project };
      const filter = memoryFilter(input, project);
      if (input.distinct === 'who') return { values: await memories.authors(reader, filter) };
      const query = input.q ?? input.query ?? '';
      if (query.trim() === '') {
        const { memories: results } = await memories.list(reader, { filter, limit: input.limit ?? RECALL_LIMIT, offset: 0 });
        return { results };
      }
      return { results: (await memories.recall(reader, recallQuery({ ...input, query }, project))).results };
    },
  };
}
