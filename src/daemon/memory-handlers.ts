import type { AgentYaml } from '../contract/config.ts';
import { checkInput } from '../contract/input-check.ts';
import { memoryOperations } from '../contract/memory.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import { AppError } from '../core/errors.ts';
import { type MemoryChange, type MemoryStore, type Reader, scopeOf } from '../core/memory-store.ts';
import { tagList } from '../core/memory-type.ts';
import type { Handlers, RequestContext } from '../core/operation-call.ts';
import { askingAgent, readerFor } from './hook-session.ts';
import { actorOf, noteOf, refuseForceOfPipeline } from './memory-actor.ts';
import { forgetMemories } from './memory-forget.ts';
import { IMPORTANCE_DEFAULT, memoryDraft, recallQuery, requireSuperseded } from './memory-input.ts';
import { type Item, itemOf, refused, settled } from './memory-item.ts';

type Input<K extends keyof typeof memoryOperations> = ParsedInputOf<(typeof memoryOperations)[K]>;

export interface RememberDeps {
  readonly config: AgentYaml;
  readonly memories: MemoryStore;
  /** What is to be said of an agent nobody has set up; nothing when left out. */
  readonly warnOf?: (agentId: string) => string | undefined;
}

/** Handlers of /api/memory. They work in bypassed sessions too: bypass silences hooks, not tools. */
export function createMemoryHandlers(deps: RememberDeps): Handlers<typeof memoryOperations> {
  const { memories } = deps;
  return {
    remember: (input, context) => rememberMemory(deps, input, context),
    recall: async (input, context) => {
      const reader = readerFor(input, context);
      const { results, method, degraded, strong } = await memories.recall(reader, recallQuery(input, { project: input.project }));
      return { results, count: results.length, query: input.query, method, ...(degraded ? { degraded } : {}), strong };
    },
    getMemory: async (input, context) => {
      const reader = readerFor(input, context);
      const memory = await memories.get(reader, input.id);
      if (!memory) throw new AppError('memory_not_found', { detail: `no memory ${input.id} that this caller may see` });
      return { ...memory, history: await memories.history(reader, input.id) };
    },
    patchMemory: async (input, context) => {
      const reader = readerFor(input, context);
      return { ...(await memories.change(reader, input.id, changeOf(input), noteOf(input, context))), success: true };
    },
    deleteMemory: async (input, context) => {
      const reader = readerFor(input, context);
      refuseForceOfPipeline(input.force, context);
      const note = { ...noteOf(input, context), force: input.force };
      return { ...(await memories.forget(reader, input.id, note)), success: true };
    },
    modifyMemory: (input, context) => modify(memories, readerFor(input, context), input, context),
    forgetMemory: (input, context) => forgetMemories(memories, readerFor(input, context), input, context),
  };
}

/** Also behind the older name of the route. @throws AppError memory_not_found when the memory to be superseded is not there for the caller */
export async function rememberMemory({ memories, config, warnOf }: RememberDeps, input: Input<'remember'>, context: RequestContext) {
  const agentId = askingAgent(input, context);
  const reader = scopeOf(agentId, context.caller);
  const draft = memoryDraft(reader, input, {
    who: input.who,
    config,
    sourceType: input.sourceType ?? 'manual',
    sourceId: input.sourceId,
    project: input.project,
    sessionKey: input.sessionKey,
    importance: IMPORTANCE_DEFAULT,
    actor: actorOf(context),
  });
  await requireSuperseded(memories, reader, draft.supersedes);
  const { memory, deduped } = await memories.remember(draft);
  const warning = agentId === undefined ? undefined : warnOf?.(agentId);
  return { ...memory, embedded: false, success: true as const, ...(deduped ? { deduped } : {}), ...(warning ? { warning } : {}) };
}

async function modify(memories: MemoryStore, reader: Reader, { patches, ...single }: Input<'modifyMemory'>, context: RequestContext) {
  if (patches === undefined) {
    if (single.id === undefined) throw refused('patches', 'id or patches[] is required');
    if (single.reason === undefined) throw refused('reason', 'reason is required');
    const note = noteOf({ ...single, reason: single.reason }, context);
    return modified([itemOf(await memories.change(reader, single.id, changeOf(single), note))]);
  }
  const results: Item[] = [];
  for (const patch of patches) results.push(await patchOne(memories, reader, patch, single, context));
  return modified(results);
}

interface ChangeFields {
  readonly content?: string;
  readonly type?: string;
  readonly importance?: number;
  readonly tags?: string[] | string | null;
  readonly pinned?: boolean;
  readonly scope?: unknown;
  readonly visibility?: unknown;
}

/** @throws AppError invalid_request when there is nothing to change, or when what is to be changed cannot be */
function changeOf({ content, type, importance, tags, pinned, scope, visibility }: ChangeFields): MemoryChange {
  if (scope !== undefined || visibility !== undefined) {
    const field = scope === undefined ? 'visibility' : 'scope';
    throw refused(field, `${field} is settled when a memory is written; forget this one and write it anew`);
  }
  if ([content, type, importance, tags, pinned].every((field) => field === undefined)) {
    throw refused('content', 'nothing to change; give content, type, importance, tags or pinned');
  }
  return { content, type, importance, pinned, tags: tags === undefined || tags === null ? tags : tagList(tags) };
}

async function patchOne(
  memories: MemoryStore,
  reader: Reader,
  patch: unknown,
  defaults: { reason?: string; changed_by?: string },
  context: RequestContext,
): Promise<Item> {
  const { reason, changed_by } = defaults;
  const { fields, ...told } = isRecord(patch) ? patch : {};
  const id = typeof told.id === 'string' || typeof told.id === 'number' ? String(told.id) : '';
  const invalid = (error: string): Item => ({ id, status: 'invalid_request', success: false, error });
  if (!isRecord(patch)) return invalid('a patch must be an object with an id and the fields to change');
  if (fields !== undefined && !isRecord(fields)) return invalid('fields must be an object of the fields to change');
  const { id: _, ...nested } = fields ?? {};
  const checked = checkInput(memoryOperations.patchMemory, { reason, changed_by, ...told, ...nested });
  if (!checked.ok) return invalid(checked.errors.map(({ detail }) => detail).join('; '));
  const { value } = checked;
  return settled(id, async () => itemOf(await memories.change(reader, value.id, changeOf(value), noteOf(value, context))));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function modified(results: Item[]) {
  const updated = results.filter((item) => item.status === 'updated').length;
  return { total: results.length, updated, success: results.every((item) => item.success === true), results };
}
