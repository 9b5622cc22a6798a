import type { AgentYaml } from '../contract/config.ts';
import type { Scope } from '../contract/memory.ts';
import { AppError } from '../core/errors.ts';
import { type MemoryDraft, type MemoryFilter, type MemoryStore, ownerOf, type Reader, type RecallQuery } from '../core/memory-store.ts';
import { inferType, readPrefixes, tagList } from '../core/memory-type.ts';
import { refused } from './memory-item.ts';

/** Importance of a memory whose writer did not say. */
export const IMPORTANCE_DEFAULT = 0.5;

export interface WriteFields {
  readonly content: string;
  readonly type?: string;
  readonly importance?: number;
  readonly tags?: string[] | string | null;
  readonly pinned?: boolean;
  readonly scope?: Scope;
  readonly visibility?: Scope;
  readonly createdAt?: string;
  readonly idempotencyKey?: string;
  readonly supersedes?: string;
}

export type WriteContext = Pick<MemoryDraft, 'sourceType' | 'sourceId' | 'project' | 'sessionKey' | 'actor'> & {
  /** As the caller says; its agent when it says nothing, and without one the program it is. */
  readonly who?: string | undefined;
  /** The program that writes, such as a harness. */
  readonly program?: string | undefined;
  readonly importance: number;
  readonly config: AgentYaml;
};

/** Of memories an agent writes without a visibility, as agent.yaml says; undefined where it says nothing. */
export function defaultVisibility({ agents, memory }: AgentYaml, agentId: string): MemoryDraft['scope'] | undefined {
  return agents?.roster.find(({ name }) => name === agentId)?.memory?.defaultVisibility ?? memory.defaultVisibility;
}

/** Of what is written unasked, such as summaries: never wider than `otherwise`. */
export function unaskedVisibility(config: AgentYaml, agentId: string, otherwise: MemoryDraft['scope']): MemoryDraft['scope'] {
  return defaultVisibility(config, agentId) === 'private' ? 'private' : otherwise;
}

/**
 * What the store is asked to keep: prefixes read, type inferred, scope settled.
 *
 * @throws AppError invalid_request for `private` without an agent, for `archived`, and when scope and visibility disagree
 */
export function memoryDraft(reader: Reader, fields: WriteFields, context: WriteContext): MemoryDraft {
  const { content, tags, critical } = readPrefixes(fields.content);
  const { importance, config, who, program, ...origin } = context;
  return {
    ...origin,
    who: who ?? reader.agentId ?? program ?? ownerOf(reader),
    content,
    type: fields.type ?? inferType(content),
    importance: critical ? 1 : (fields.importance ?? importance),
    tags: tagList([...tagList(fields.tags), ...tags]),
    pinned: critical || (fields.pinned ?? false),
    agentId: ownerOf(reader),
    scope: scopeToWrite(reader, fields, config),
    idempotencyKey: fields.idempotencyKey || null,
    createdAtMs: fields.createdAt === undefined ? undefined : Date.parse(fields.createdAt),
    supersedes: fields.supersedes,
    withinProject: reader.within?.project,
    changesOwn: reader.changesOwn,
  };
}

/** @throws AppError memory_not_found when a draft wants to take the place of a memory that its writer may not see */
export async function requireSuperseded(memories: MemoryStore, reader: Reader, id: string | undefined): Promise<void> {
  if (id === undefined) return;
  const older = await memories.get(reader, id);
  // To take its place is to change how others find it.
  if (older && reader.changesOwn && older.agentId !== reader.agentId) {
    const detail = `supersedes names ${id}, which belongs to the agent ${older.agentId}; the token is for the agent ${reader.agentId}`;
    throw new AppError('forbidden', { detail, errors: [{ pointer: '/supersedes', detail }] });
  }
  if (older) return;
  const detail = `supersedes names ${id}: no memory of this id that this caller may see`;
  throw new AppError('memory_not_found', { detail, errors: [{ pointer: '/supersedes', detail }] });
}

function scopeToWrite(reader: Reader, fields: WriteFields, config: AgentYaml): MemoryDraft['scope'] {
  const wanted = namedScope(fields);
  // What nobody in particular writes is then kept for `default`: less is found, nothing is told.
  if (wanted === undefined) return defaultVisibility(config, ownerOf(reader)) ?? 'global';
  const name = fields.scope === undefined ? 'visibility' : 'scope';
  if (wanted === 'archived') throw refused(name, 'a memory is archived with its agent; write it as global or private');
  if (wanted === 'private' && reader.agentId === null) throw refused(name, 'a private memory needs the agentId it belongs to');
  return wanted;
}

/** One field under two names. @throws AppError invalid_request when they disagree */
function namedScope<T extends Scope>({ scope, visibility }: { readonly scope?: T; readonly visibility?: T }): T | undefined {
  if (scope === undefined || visibility === undefined || scope === visibility) return scope ?? visibility;
  throw refused('visibility', `scope "${scope}" and visibility "${visibility}" mean the same field; send one`);
}

export interface RecallFields {
  readonly query: string;
  readonly limit: number;
  readonly project?: string;
  readonly type?: string;
  readonly scope?: MemoryFilter['scope'];
  readonly visibility?: MemoryFilter['scope'];
  readonly tags?: string[] | string | null;
  readonly who?: string;
  readonly pinned?: boolean;
  readonly importance_min?: number;
  readonly since?: string;
  readonly until?: string;
  readonly min_score?: number;
  readonly minScore?: number;
  readonly explain?: boolean;
}

export type FilterFields = Omit<RecallFields, 'query' | 'limit' | 'min_score' | 'minScore' | 'explain'> & { readonly source_type?: string };

export function memoryFilter(fields: FilterFields, project: Pick<MemoryFilter, 'project' | 'aroundProject'>): MemoryFilter {
  const time = (text: string | undefined): number | undefined => (text === undefined ? undefined : Date.parse(text));
  return {
    ...project,
    type: fields.type,
    scope: namedScope(fields),
    tags: tagList(fields.tags),
    who: fields.who,
    sourceType: fields.source_type,
    pinned: fields.pinned,
    importanceMin: fields.importance_min,
    sinceMs: time(fields.since),
    untilMs: time(fields.until),
  };
}

/** @param project  how the project narrows the search: a route is taken at its word, a hook looks around its own project */
export function recallQuery(fields: RecallFields, project: Pick<MemoryFilter, 'project' | 'aroundProject'>): RecallQuery {
  const { query, limit, min_score, minScore, explain } = fields;
  return { text: query, limit, scoreMin: min_score ?? minScore, explain, filter: memoryFilter(fields, project) };
}
