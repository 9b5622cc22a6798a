import { memoryOperations } from '../contract/memory.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { type Changed, type ChangeNote, type MemoryChange, type MemoryStore, type Reader, scopeOf } from '../core/memory-store.ts';
import { tagList } from '../core/memory-type.ts';
import type { Handlers } from '../core/operation-call.ts';
import { agentOf } from './hook-session.ts';
import { IMPORTANCE_DEFAULT, memoryDraft, recallQuery } from './memory-input.ts';

/** Author of a memory whose writer did not say. */
const WHO_DEFAULT = 'daemon';

type Input<K extends keyof typeof memoryOperations> = ParsedInputOf<(typeof memoryOperations)[K]>;
type Item = { id: string; status: string } & Record<string, unknown>;

/** Handlers of /api/memory. They work in bypassed sessions too: bypass silences hooks, not tools. */
export function createMemoryHandlers({ memories }: { readonly memories: MemoryStore }): Handlers<typeof memoryOperations> {
  return {
    remember: async (input, context) => {
      const reader = scopeOf(agentOf(input.agentId, context));
      const draft = memoryDraft(reader, input, {
        who: input.who ?? WHO_DEFAULT,
        sourceType: input.sourceType ?? 'manual',
        sourceId: input.sourceId,
        project: input.project,
        sessionKey: input.sessionKey,
        importance: IMPORTANCE_DEFAULT,
      });
      const { memory, deduped } = await memories.remember(draft);
      return { ...memory, embedded: false, success: true, ...(deduped ? { deduped } : {}) };
    },
    recall: async (input, context) => {
      const reader = scopeOf(agentOf(input.agentId, context));
      const { results, method, strong } = await memories.recall(reader, recallQuery(input, { project: input.project }));
      return { results, count: results.length, query: input.query, method, strong };
    },
    getMemory: async (input, context) => {
      const reader = scopeOf(agentOf(input.agentId, context));
      const memory = await memories.get(reader, input.id);
      if (!memory) throw new AppError('memory_not_found', { detail: `no memory ${input.id} that this caller may see` });
      return { ...memory, history: await memories.history(reader, input.id) };
    },
    patchMemory: async (input, context) => {
      const reader = scopeOf(agentOf(input.agentId, context));
      return { ...(await memories.change(reader, input.id, changeOf(input), noteOf(input))), success: true };
    },
    deleteMemory: async (input, context) => {
      const reader = scopeOf(agentOf(input.agentId, context));
      const note = { reason: input.reason, changedBy: context.client, ifVersion: input.if_version, force: input.force };
      return { ...(await memories.forget(reader, input.id, note)), success: true };
    },
    modifyMemory: (input, context) => modify(memories, scopeOf(agentOf(input.agentId, context)), input),
    forgetMemory: (input, context) => forget(memories, scopeOf(agentOf(input.agentId, context)), input, context.client),
  };
}

async function modify(memories: MemoryStore, reader: Reader, { patches, ...single }: Input<'modifyMemory'>) {
  if (patches === undefined) {
    if (single.id === undefined) throw missing('patches', 'id or patches[] is required');
    if (single.reason === undefined) throw missing('reason', 'reason is required');
    const note = noteOf({ ...single, reason: single.reason });
    return modified([itemOf(await memories.change(reader, single.id, changeOf(single), note))]);
  }
  const results: Item[] = [];
  for (const patch of patches) results.push(await patchOne(memories, reader, patch, single));
  return modified(results);
}

async function forget(memories: MemoryStore, reader: Reader, input: Input<'forgetMemory'>, changedBy: string) {
  const ids = [...new Set([...(input.id === undefined ? [] : [input.id]), ...(input.ids ?? [])])];
  if (ids.length === 0) throw missing('ids', 'id or ids[] is required');
  // One id is meant; a list is shown first unless the caller says execute, as existing clients expect.
  const isSingle = input.ids === undefined;
  const mode = input.mode ?? (isSingle ? 'execute' : 'preview');
  if (mode === 'preview') return forgotten(mode, await previewAll(memories, reader, ids));
  if (input.reason === undefined) throw missing('reason', 'reason is required');
  const note = { reason: input.reason, changedBy, force: input.force };
  if (isSingle) return forgotten(mode, [itemOf(await memories.forget(reader, ids[0]!, note))]);
  const results: Item[] = [];
  for (const id of ids) results.push(await settled(id, async () => itemOf(await memories.forget(reader, id, note))));
  return forgotten(mode, results);
}

interface ChangeFields {
  readonly content?: string;
  readonly type?: string;
  readonly importance?: number;
  readonly tags?: string[] | string | null;
  readonly pinned?: boolean;
}

function changeOf({ content, type, importance, tags, pinned }: ChangeFields): MemoryChange {
  return { content, type, importance, pinned, tags: tags === undefined || tags === null ? tags : tagList(tags) };
}

function noteOf(fields: { reason: string; changed_by?: string; if_version?: number }): ChangeNote {
  return { reason: fields.reason, changedBy: fields.changed_by ?? WHO_DEFAULT, ifVersion: fields.if_version };
}

function missing(field: string, detail: string): AppError {
  return new AppError('invalid_request', { detail, errors: [{ pointer: `/${field}`, detail }] });
}

function itemOf(changed: Changed): Item {
  return { ...changed, success: true };
}

/** One patch of a batch stands for itself: the others go on whatever becomes of it. */
async function patchOne(
  memories: MemoryStore,
  reader: Reader,
  patch: { id: string },
  defaults: { reason?: string; changed_by?: string },
): Promise<Item> {
  const { reason, changed_by } = defaults;
  const checked = memoryOperations.patchMemory.input.safeParse({ reason, changed_by, ...patch });
  if (!checked.success) {
    const error = checked.error.issues.map((issue) => `${issue.path.join('.') || 'patch'}: ${issue.message}`).join('; ');
    return { id: patch.id, status: 'invalid_request', success: false, error };
  }
  return settled(patch.id, async () => itemOf(await memories.change(reader, patch.id, changeOf(checked.data), noteOf(checked.data))));
}

async function previewAll(memories: MemoryStore, reader: Reader, ids: readonly string[]): Promise<Item[]> {
  const results: Item[] = [];
  for (const id of ids) {
    const memory = await memories.get(reader, id);
    results.push(
      memory ? { id, status: 'would_delete', pinned: memory.pinned, version: memory.version } : { id, status: 'memory_not_found' },
    );
  }
  return results;
}

async function settled(id: string, run: () => Promise<Item>): Promise<Item> {
  try {
    return await run();
  } catch (error) {
    // The store's own faults end the batch: every further item would meet them too.
    if (!isAppError(error) || error.status >= 500) throw error;
    return { ...error.extra, id, status: error.code, success: false, error: error.detail };
  }
}

function modified(results: Item[]) {
  const updated = results.filter((item) => item.status === 'updated').length;
  return { total: results.length, updated, success: results.every((item) => item.success === true), results };
}

function forgotten(mode: 'preview' | 'execute', results: Item[]) {
  const deleted = results.filter((item) => item.status === 'deleted').length;
  return { mode, requested: results.length, deleted, success: mode === 'preview' || deleted === results.length, results };
}
