import type { z } from 'zod';

/**
 * How an operation is held to the one agent, or the one project, of a limited token:
 * - names of fields: what they name must be the token's; where none is given the first one is filled in;
 * - `owner`: the sessions or workflows the input names must be the token's; refused when it names none;
 * - `handler`: the handler limits its query by the caller of its context;
 * - `neutral`: nothing of any agent or project is shown or changed;
 * - `refused`: it goes over all of them.
 */
export type ScopeRule<Field extends string = string> = 'owner' | 'handler' | 'neutral' | 'refused' | readonly Field[];

/** What a token limited to an agent or a project may reach by an operation. Required of every operation. */
export interface OperationScope<Field extends string = string> {
  readonly agent: ScopeRule<Field>;
  readonly project: ScopeRule<Field>;
  /** Fields that name a session of the runtime by its id. An unknown one is `session_not_found`. */
  readonly sessions?: readonly Field[];
  /** Fields that name a workflow run by its id. An unknown one is `workflow_not_found`. */
  readonly workflows?: readonly Field[];
  /** Fields that name a session by the key of its harness. A message may go to anybody, so its addressee is none of them. */
  readonly keys?: readonly Field[];
  /** What a key is that nobody has used: new, hence the caller's to begin (`free`), or `session_not_found` (default). */
  readonly unusedKeys?: 'free';
  /** Flags that widen the operation to all agents and projects, whatever its other fields name. */
  readonly widening?: readonly Field[];
}

/** Names of the fields of an input, of every form of a union; any text where the schema does not tell. */
export type FieldOf<I extends z.ZodType> = [KeyOf<z.input<I>>] extends [never] ? string : KeyOf<z.input<I>>;
type KeyOf<T> = T extends unknown ? Extract<keyof T, string> : never;

/** Shows and changes nothing of any agent or project; or checks its every message by itself (`socket`). */
export const NEUTRAL = { agent: 'neutral', project: 'neutral' } as const satisfies OperationScope;
/** Goes over all agents and projects. */
export const WHOLE_WORKSPACE = { agent: 'refused', project: 'refused' } as const satisfies OperationScope;
/** Of the agent in `agentId`, over all its projects. */
export const ONE_AGENT = { agent: ['agentId'], project: 'refused' } as const satisfies OperationScope;
/** On memories of an agent and a project, which the input names. */
export const MEMORIES = {
  agent: ['agentId'],
  project: ['project'],
  keys: ['sessionKey'],
  unusedKeys: 'free',
} as const satisfies OperationScope;
/** On memories the input names by id: those of other projects are hidden by the query. */
export const MEMORY_BY_ID = { ...MEMORIES, project: 'handler' } as const satisfies OperationScope;
/** On what the sessions of one agent left behind: the query takes agent and project. */
export const LINE = { agent: ['agentId'], project: 'handler' } as const satisfies OperationScope;
/** On the session of the runtime that `id` names. */
export const ONE_SESSION = { agent: 'owner', project: 'owner', sessions: ['id'] } as const satisfies OperationScope;
/** On the workflow run that `id` names: its agents may be any, so a token for one agent has no part in it. */
export const ONE_WORKFLOW = { agent: 'refused', project: 'owner', workflows: ['id'] } as const satisfies OperationScope;

/** The one agent, the one project, or both that a token, and all that is done on its behalf, is limited to. */
export interface CallerLimit {
  readonly agent?: string | undefined;
  readonly project?: string | undefined;
}
