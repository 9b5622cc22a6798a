import { createHash } from 'node:crypto';
import { BATCH_MEMORIES_MAX, type memoryOperations, RECALL_LIMIT_MAX } from '../contract/memory.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import { AppError } from '../core/errors.ts';
import type { MemoryFilter, MemoryStore, Reader } from '../core/memory-store.ts';
import { tagList } from '../core/memory-type.ts';
import type { RequestContext } from '../core/operation-call.ts';
import { admitsOf } from '../core/recall/filter.ts';
import { noteOf, refuseForceOfPipeline } from './memory-actor.ts';
import { memoryFilter } from './memory-input.ts';
import { type Item, itemOf, refused, settled } from './memory-item.ts';

/** More memories than this are forgotten only with the token of a preview. */
const UNCONFIRMED_MAX = 25;
const TOKEN_CHARS = 32;

type Input = ParsedInputOf<(typeof memoryOperations)['forgetMemory']>;

interface Chosen {
  readonly id: string;
  readonly score: number;
}

/**
 * Forget one memory by id, or several by ids, query or filters. One id is meant and done at once; several are shown first unless the caller
 * says execute. The token of a preview stands for its very set of ids, so that nothing else is forgotten with it.
 */
export async function forgetMemories(memories: MemoryStore, reader: Reader, input: Input, context: RequestContext) {
  refuseForceOfPipeline(input.force, context);
  const isSingle = input.id !== undefined && input.ids === undefined;
  if (!isSingle && input.if_version !== undefined) {
    throw refused('if_version', 'if_version is taken for a single id; of several, each has a version of its own');
  }
  const mode = input.mode ?? (isSingle ? 'execute' : 'preview');
  const chosen = await choose(memories, reader, input);
  if (mode === 'preview') return preview(memories, reader, chosen);
  const ids = chosen.map(({ id }) => id);
  if (input.reason === undefined) throw refused('reason', 'reason is required');
  const note = { ...noteOf({ ...input, reason: input.reason }, context), force: input.force };
  if (isSingle) return forgotten([itemOf(await memories.forget(reader, input.id!, note))]);
  requireConfirmation(ids, input.confirm_token ?? input.confirmToken);
  const results: Item[] = [];
  for (const id of ids) results.push(await settled(id, async () => itemOf(await memories.forget(reader, id, note))));
  return forgotten(results);
}

const FILTERS = [
  'type',
  'tags',
  'who',
  'source_type',
  'scope',
  'visibility',
  'project',
  'pinned',
  'importance_min',
  'since',
  'until',
] as const;

/** In the order given or found, each once. */
async function choose(memories: MemoryStore, reader: Reader, input: Input): Promise<Chosen[]> {
  const named = [...(input.id === undefined ? [] : [input.id]), ...(input.ids ?? [])];
  const filters = FILTERS.filter((name) => (name === 'tags' ? tagList(input.tags).length > 0 : input[name] !== undefined));
  const { query, project } = input;
  const filter = memoryFilter(input, { project });
  if (named.length > 0) {
    const ids = [...new Set(named)].slice(0, BATCH_MEMORIES_MAX);
    if (filters.length > 0) await requireFitting(memories, reader, ids, filter);
    return ids.map((id) => ({ id, score: 1 }));
  }
  if (!query?.trim() && filters.length === 0) throw refused('ids', `id, ids[], query or a filter (${FILTERS.join(', ')}) is required`);
  if (!query?.trim()) {
    const { memories: listed } = await memories.list(reader, { filter, limit: input.limit, offset: 0 });
    return listed.map(({ id }) => ({ id, score: 1 }));
  }
  const { results } = await memories.recall(reader, {
    text: query,
    limit: Math.min(input.limit, RECALL_LIMIT_MAX),
    scoreMin: input.min_score ?? input.minScore,
    wordsOnly: true,
    filter,
  });
  return results.map(({ id, score }) => ({ id, score }));
}

/** Of ids and filters both must hold, or nothing is forgotten. What nobody is left to know of may be of any project. */
async function requireFitting(memories: MemoryStore, reader: Reader, ids: readonly string[], filter: MemoryFilter): Promise<void> {
  const fits = admitsOf(filter);
  for (const id of ids) {
    const memory = await memories.get(reader, id);
    const isFitting = memory
      ? !fits || fits({ ...memory, sourceType: memory.source_type, createdAtMs: Date.parse(memory.created_at) })
      : filter.project === undefined;
    if (!isFitting) throw new AppError('memory_not_found', { detail: `no memory ${id} that fits the filters beside the ids` });
  }
}

async function preview(memories: MemoryStore, reader: Reader, chosen: readonly Chosen[]) {
  const results: Item[] = [];
  const candidates: (Chosen & { pinned: boolean; version: number })[] = [];
  for (const { id, score } of chosen) {
    const memory = await memories.get(reader, id);
    if (memory) candidates.push({ id, score, pinned: memory.pinned, version: memory.version });
    const status = memory ? 'would_delete' : 'memory_not_found';
    results.push({ id, status, ...(memory ? { pinned: memory.pinned, version: memory.version } : {}) });
  }
  const ids = chosen.map(({ id }) => id);
  const requiresConfirm = ids.length > UNCONFIRMED_MAX;
  const counts = { requested: ids.length, deleted: 0, success: true, count: candidates.length };
  return { mode: 'preview' as const, ...counts, requiresConfirm, confirmToken: tokenOf(ids), candidates, results };
}

function requireConfirmation(ids: readonly string[], token: string | undefined): void {
  if (ids.length <= UNCONFIRMED_MAX || token === tokenOf(ids)) return;
  const detail =
    token === undefined
      ? `${ids.length} memories are forgotten only with confirm_token from a preview of the same memories`
      : 'confirm_token belongs to other memories than these; look at a new preview';
  throw new AppError('confirmation_required', {
    detail,
    errors: [{ pointer: '/confirm_token', detail }],
    extra: { requiresConfirm: true, confirmToken: tokenOf(ids), count: ids.length },
  });
}

function tokenOf(ids: readonly string[]): string {
  return createHash('sha256')
    .update([...new Set(ids)].sort().join('\n'))
    .digest('hex')
    .slice(0, TOKEN_CHARS);
}

function forgotten(results: Item[]) {
  const deleted = results.filter((item) => item.status === 'deleted').length;
  return { mode: 'execute' as const, requested: results.length, deleted, success: deleted === results.length, results };
}
