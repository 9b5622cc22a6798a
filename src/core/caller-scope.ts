import { fieldsOf } from '../contract/input-check.ts';
import type { Operation } from '../contract/operation.ts';
import type { Caller } from './caller.ts';
import { AppError } from './errors.ts';

/** Operations that show nothing of any agent, or whose every message is checked by itself (`socket`). */
const NEUTRAL = new Set([
  ...['daemonHealth', 'daemonOpenapi', 'whoami', 'listAgents', 'runtimeConfig', 'hookSynthesisConfig'],
  ...['health', 'healthLive', 'healthReady', 'info', 'runtimeOpenapi', 'listProviders', 'providerStatus', 'listModels'],
  ...['listMachines', 'machineGraph', 'machineMermaid', 'listRuntimeAgents', 'socket'],
]);
/** Fields that say on whose behalf a call is made; the first one an operation knows is filled in. */
const AGENT_FIELDS = ['agentId', 'agent', 'fromAgentId', 'agent_id', 'from_agent_id'];
/** Fields that name a session of the runtime. */
const ID_FIELDS = ['session', 'sessionId', 'parentId', 'parent', 'resume', 'with'];
/** Fields that name a session by the key of its harness. Whom a message goes to is not among them: that may be anybody. */
const KEY_FIELDS = ['sessionKey', 'session_key', 'sessionId', 'key', 'parentSessionKey', 'fromSessionKey', 'from_session_key'];

/** Operations on a memory of any project, whose session key says no more than which agent asks: it limits them to nothing. */
const OF_ANY_PROJECT = new Set([
  ...['getMemory', 'memoryHistory', 'patchMemory', 'modifyMemory', 'deleteMemory', 'recoverMemory'],
  ...['memoryTimeline', 'similarMemories'],
]);

/** Operations that read what the sessions of one agent left under a key: whoever lives under it now has no part in it. */
const OF_OWN_LINE = new Set(['getTranscript', 'getContinuity', 'searchTranscripts', 'listSummaries']);

/** Flags that widen an operation to all agents and projects, whichever its other fields name. */
const WIDENING_FIELDS = ['all'];
/** What a flag may be given as so that it certainly says no; see `flag` of the contract. */
const NO = /^(?:false|0|no|off|n|disabled)$/i;

/** What a session belongs to. */
export interface Owner {
  readonly agent: string;
  readonly project: string | null;
}

/** Undefined for a session nobody knows. */
export type OwnerOf = (kind: 'id' | 'key', session: string) => Promise<Owner | undefined>;

export function isScoped(caller: Caller | undefined): caller is Caller {
  return caller !== undefined && (caller.agent !== undefined || caller.project !== undefined);
}

/**
 * Hold an input, not yet validated, to the agent and the project of a token: what is named must be these, what is left out becomes these.
 * An operation that names neither is refused: it would go over all of them.
 *
 * @param input  is changed
 * @throws AppError `forbidden`
 */
export function narrowInput(operation: Operation, caller: Caller, input: Record<string, unknown>): void {
  if (NEUTRAL.has(operation.id)) return;
  const { names } = fieldsOf(operation.input);
  for (const field of WIDENING_FIELDS) {
    const value = input[field];
    if (!names.has(field) || value === undefined || NO.test(String(value))) continue;
    const detail = `the token is for the ${limitOf(caller)}, and ${field} goes over all of them; leave it out, or use a token without that limit`;
    throw new AppError('forbidden', { detail });
  }
  const own = operation.path.startsWith('/api/agents/:name') ? ['name'] : [];
  narrow(operation, { what: 'agent', allowed: caller.agent, fields: [...own, ...AGENT_FIELDS] }, names, input);
  narrow(operation, { what: 'project', allowed: caller.project, fields: ['project'] }, names, input);
  if (caller.agent === undefined) return;
  for (const field of KEY_FIELDS) {
    const named = /^(?:session:)?agent:([^:]+):./.exec(textOf(input[field]) ?? '')?.[1];
    if (named !== undefined && named !== caller.agent) throw outside('agent', caller.agent, named);
  }
}

interface Dimension {
  readonly what: 'agent' | 'project';
  readonly allowed: string | undefined;
  readonly fields: readonly string[];
}

function narrow(
  operation: Operation,
  { what, allowed, fields }: Dimension,
  names: ReadonlySet<string>,
  input: Record<string, unknown>,
): void {
  if (allowed === undefined) return;
  const known = fields.filter((field) => names.has(field));
  // How clients say that they name none; see AskingAgent of the contract.
  for (const field of known) if (input[field] === '' || input[field] === null) delete input[field];
  for (const field of fields) {
    if (input[field] !== undefined && input[field] !== allowed) throw outside(what, allowed, String(input[field]));
  }
  const [main] = known;
  if (main !== undefined) {
    if (!known.some((field) => input[field] !== undefined)) input[main] = allowed;
  } else if (OF_ANY_PROJECT.has(operation.id) || sessionsOf(operation, input).length === 0) {
    const detail = `the token is for the ${what} ${allowed}, and ${operation.id} is not limited to one; use a token without that limit`;
    throw new AppError('forbidden', { detail });
  }
}

/**
 * Every session an input names must belong to the agent and the project of the token.
 *
 * @throws AppError `forbidden`
 */
export async function requireOwner(
  operation: Operation,
  caller: Caller,
  input: Readonly<Record<string, unknown>>,
  ownerOf: OwnerOf,
): Promise<void> {
  if (NEUTRAL.has(operation.id)) return;
  if (OF_OWN_LINE.has(operation.id) && caller.project === undefined && input.agentId === caller.agent) return;
  for (const { kind, session } of sessionsOf(operation, input)) {
    const owner = await ownerOf(kind, session);
    if (owner === undefined) continue;
    if (caller.agent !== undefined && owner.agent !== caller.agent) throw outside('agent', caller.agent, owner.agent);
    if (caller.project !== undefined && owner.project !== caller.project)
      throw outside('project', caller.project, owner.project ?? 'no project');
  }
}

interface NamedSession {
  readonly kind: 'id' | 'key';
  readonly session: string;
}

function sessionsOf(operation: Operation, input: Readonly<Record<string, unknown>>): NamedSession[] {
  const isDaemon = operation.path.startsWith('/api/');
  const ids = isDaemon ? [] : [...(operation.path.startsWith('/session/:id') ? ['id'] : []), ...ID_FIELDS];
  const keys = isDaemon ? KEY_FIELDS : ['sessionKey'];
  // A field the operation does not know would be dropped, and must not count as one that limits it.
  const { names } = fieldsOf(operation.input);
  const named = (kind: NamedSession['kind'], fields: readonly string[]): NamedSession[] =>
    fields.flatMap((field) => {
      if (!names.has(field)) return [];
      const session = textOf(input[field]);
      return session === undefined ? [] : [{ kind, session }];
    });
  return [...named('id', ids), ...named('key', keys)];
}

function limitOf({ agent, project }: Caller): string {
  return agent === undefined ? `project ${project}` : `agent ${agent}`;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function outside(what: 'agent' | 'project', allowed: string, named: string): AppError {
  return new AppError('forbidden', { detail: `the token is for the ${what} ${allowed}, not for ${JSON.stringify(named.slice(0, 128))}` });
}
