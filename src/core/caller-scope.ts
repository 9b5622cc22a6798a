import type { ErrorCode } from '../contract/errors.ts';
import { fieldsOf } from '../contract/input-check.ts';
import type { Operation } from '../contract/operation.ts';
import type { CallerLimit, ScopeRule } from '../contract/scope.ts';
import { type Caller, mayUse } from './caller.ts';
import { AppError } from './errors.ts';

/** Values of a flag that certainly mean no; see `flag` of the contract. */
const NO = /^(?:false|0|no|off|n|disabled)$/i;

/** A part an agent and a project have in what a name stands for. */
export interface Owner {
  /** Null for what belongs to no single agent, such as a workflow run. */
  readonly agent: string | null;
  readonly project: string | null;
  /** False for what an ended session left behind: each agent has a line of its own there, whoever uses the key now. */
  readonly isLive: boolean;
}

export type OwnedKind = 'session' | 'workflow' | 'key';

/** All that is known to own a session or a workflow run; empty for one that is unknown. */
export type OwnersOf = (kind: OwnedKind, name: string) => Promise<readonly Owner[]>;

export function isScoped(limit: CallerLimit | undefined): limit is CallerLimit {
  return limit !== undefined && (limit.agent !== undefined || limit.project !== undefined);
}

/** Whether a token may do less than run commands: files of the user, and new agents, are nothing for it. A call without a token is the user's. */
export function isNarrow(caller: Caller | undefined): boolean {
  return caller !== undefined && (limitOf(caller) !== undefined || !mayUse(caller.role, 'operator'));
}

/** The limit alone, undefined where there is none: what travels with the work a caller causes. */
export function limitOf(caller: CallerLimit | undefined): CallerLimit | undefined {
  if (!isScoped(caller)) return undefined;
  const { agent, project } = caller;
  return { ...(agent === undefined ? {} : { agent }), ...(project === undefined ? {} : { project }) };
}

/**
 * Both limits at once.
 *
 * @throws AppError `forbidden` when they exclude each other: nothing is within both
 */
export function bothLimits(a: CallerLimit | undefined, b: CallerLimit | undefined): CallerLimit | undefined {
  for (const what of ['agent', 'project'] as const) {
    const [first, second] = [a?.[what], b?.[what]];
    if (first !== undefined && second !== undefined && first !== second) throw outside(what, first, second);
  }
  return limitOf({ agent: a?.agent ?? b?.agent, project: a?.project ?? b?.project });
}

/**
 * Hold an input, not yet validated, to a limit: what is named must be within it, what is left out is filled in.
 *
 * @param input  is changed
 * @throws AppError `forbidden`
 */
export function narrowInput(operation: Operation, limit: CallerLimit, input: Record<string, unknown>): void {
  const { names } = fieldsOf(operation.input);
  for (const field of operation.scope.widening ?? []) {
    const value = input[field];
    if (!names.has(field) || value === undefined || NO.test(String(value))) continue;
    const detail = `the token is for the ${nameOf(limit)}, and ${field} goes over all of them; leave it out, or use a token without that limit`;
    throw new AppError('forbidden', { detail });
  }
  if (limit.agent !== undefined) narrow(operation, 'agent', limit.agent, input);
  if (limit.project !== undefined) narrow(operation, 'project', limit.project, input);
  if (limit.agent === undefined) return;
  for (const field of operation.scope.keys ?? []) {
    const named = /^(?:session:)?agent:([^:]+):./.exec(textOf(input[field]) ?? '')?.[1];
    if (named !== undefined && named !== limit.agent) throw outside('agent', limit.agent, named);
  }
}

type Dimension = 'agent' | 'project';

function narrow(operation: Operation, what: Dimension, allowed: string, input: Record<string, unknown>): void {
  const rule: ScopeRule = operation.scope[what];
  if (rule === 'neutral' || rule === 'handler') return;
  if (rule === 'refused' || (rule === 'owner' && namedIn(operation, input).length === 0)) {
    const detail = `the token is for the ${what} ${allowed}, and ${operation.id} is not limited to one; use a token without that limit`;
    throw new AppError('forbidden', { detail });
  }
  if (rule === 'owner') return;
  // How clients say that they name none; see AskingAgent of the contract.
  for (const field of rule) if (input[field] === '' || input[field] === null) delete input[field];
  for (const field of rule) {
    if (input[field] !== undefined && input[field] !== allowed) throw outside(what, allowed, String(input[field]));
  }
  const [main] = rule;
  if (main !== undefined && !rule.some((field) => input[field] !== undefined)) input[main] = allowed;
}

/**
 * Every session and workflow run an input names must be within the limit; an unknown one is none of the caller's.
 *
 * @throws AppError `forbidden`, `session_not_found`, `workflow_not_found`
 */
export async function requireOwner(
  operation: Operation,
  limit: CallerLimit,
  input: Readonly<Record<string, unknown>>,
  ownersOf: OwnersOf,
): Promise<void> {
  for (const { kind, name } of namedIn(operation, input)) {
    const owners = await ownersOf(kind, name);
    if (owners.length === 0 && !(kind === 'key' && operation.scope.unusedKeys === 'free')) throw unknown(kind, name);
    for (const owner of owners) requireWithin(limit, owner);
  }
}

/** @throws AppError `forbidden` for what another agent or project owns, or nobody in particular */
export function requireWithin(limit: CallerLimit, owner: Owner): void {
  if (limit.agent !== undefined && owner.isLive && owner.agent !== limit.agent)
    throw outside('agent', limit.agent, owner.agent ?? 'all agents');
  if (limit.project !== undefined && owner.project !== limit.project)
    throw outside('project', limit.project, owner.project ?? 'no project');
}

function namedIn({ scope, input: schema }: Operation, input: Readonly<Record<string, unknown>>): { kind: OwnedKind; name: string }[] {
  // A field the operation does not know would be dropped, and must not count as one that limits it.
  const { names } = fieldsOf(schema);
  const named = (kind: OwnedKind, fields: readonly string[] = []) =>
    fields.flatMap((field) => {
      const name = names.has(field) ? textOf(input[field]) : undefined;
      return name === undefined ? [] : [{ kind, name }];
    });
  return [...named('session', scope.sessions), ...named('workflow', scope.workflows), ...named('key', scope.keys)];
}

const UNKNOWN: Readonly<Record<OwnedKind, ErrorCode>> = {
  session: 'session_not_found',
  workflow: 'workflow_not_found',
  key: 'session_not_found',
};

function unknown(kind: OwnedKind, name: string): AppError {
  const what = kind === 'workflow' ? 'workflow' : 'session';
  return new AppError(UNKNOWN[kind], { detail: `no ${what} ${JSON.stringify(name.slice(0, 128))} that this token may reach` });
}

function nameOf({ agent, project }: CallerLimit): string {
  return agent === undefined ? `project ${project}` : `agent ${agent}`;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function outside(what: Dimension, allowed: string, named: string): AppError {
  return new AppError('forbidden', { detail: `the token is for the ${what} ${allowed}, not for ${JSON.stringify(named.slice(0, 128))}` });
}
