import { setTimeout } from 'node:timers/promises';
import type { RuntimeConfig } from '../contract/config.ts';
import { runtimeOperations } from '../contract/runtime.ts';
import type { CallerLimit } from '../contract/scope.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Call, CallOptions } from '../core/operation-call.ts';
import type { SpawnSession, SpawnWish } from '../core/session-spawner.ts';
import { streamToken } from '../core/signal-seal.ts';
import type { SessionHost } from './session-host.ts';
import type { Supervisor } from './supervisor.ts';

const { createSession, endSession, prompt } = runtimeOperations;

/** The one prompt of a spawned session. */
const PROMPT_ID = 'spawn';
/** Wait before a task that the runtime does not take now is offered again; unit: milliseconds. */
const RETRY_MS = 1_000;
/** Why a spawned session ends. */
const DONE = 'done';

interface SpawnDeps {
  readonly supervisor: Supervisor;
  readonly config: Pick<RuntimeConfig, 'spawn'>;
  /** Of the runtime's own operations: a child is a session like any other. */
  readonly call: Call;
  readonly logger: Logger;
}

/** Child sessions for the tool `spawn_session`. Session and prompt are named after the call, so a call that is repeated joins the first. */
export function createSpawnSession(deps: SpawnDeps): SpawnSession {
  return async (wish, signal) => {
    const parent = await parentOf(deps, wish.parent);
    const id = `ses_${streamToken(`spawn:${wish.callKey}`)}`;
    const limit = childLimit(wish, parent);
    const options = { headers: { 'x-signet-actor': `session:${parent.id}` }, limit };
    await whenTaken(signal, () => bring(deps, parent, id, wish, options));
    const message = { id, promptId: PROMPT_ID, content: wish.prompt };
    if (!wish.wait) {
      const { status } = await whenTaken(signal, () => deps.call(prompt, { ...message, async: true }, { ...options, signal }));
      return { session: id, status };
    }
    const parentLeft = watchParent(deps.supervisor, parent, signal);
    try {
      const asked = { ...options, signal, timeoutMs: wish.timeoutMs };
      const { status, content } = await whenTaken(signal, () => deps.call(prompt, message, asked));
      return { session: id, status, content };
    } finally {
      await tellUsage(deps, id, wish);
      // A parent that comes back makes its call again and finds the child at work.
      if (!parentLeft()) void finish(deps, id, options);
    }
  };
}

/** A runtime that takes no new work now says nothing about the task: it is offered again until the call's own deadline. */
async function whenTaken<T>(signal: AbortSignal, offer: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await offer();
    } catch (error) {
      // With `extra` it is how a prompt that was taken has ended.
      if (!isAppError(error, 'overloaded') || error.extra) throw error;
      await setTimeout(error.retryAfterMs ?? RETRY_MS, undefined, { signal });
    }
  }
}

/** Also of a child that failed: it was paid for. */
async function tellUsage({ supervisor }: SpawnDeps, id: string, { used }: SpawnWish): Promise<void> {
  const view = await supervisor.view(id).catch(() => null); // Its log is gone, or damaged: nothing is known.
  if (view) used?.({ ...view.session.usage }, view.session.costUsd);
}

async function parentOf({ supervisor }: SpawnDeps, id: string): Promise<SessionHost> {
  try {
    return await supervisor.get(id);
  } catch (error) {
    if (!isAppError(error, 'session_not_found')) throw error;
    throw new AppError('invalid_request', { detail: 'only a session can have child sessions: call it with sessionId', cause: error });
  }
}

/** Another agent than the parent's is one the configuration allows, so the child is limited to that one in its place. */
function childLimit({ limit, agent }: SpawnWish, parent: SessionHost): CallerLimit | undefined {
  if (limit?.agent === undefined) return limit;
  return { ...limit, agent: agent ?? parent.view.session.agent };
}

/** Begins the child unless an earlier call did. It may do no more than its parent. */
async function bring({ supervisor, config, call }: SpawnDeps, parent: SessionHost, id: string, wish: SpawnWish, options: CallOptions) {
  const known = await supervisor.view(id).catch((error: unknown) => {
    if (isAppError(error, 'session_not_found')) return null;
    throw error;
  });
  if (known) return;
  const { session } = parent.view;
  const agent = wish.agent ?? session.agent;
  if (agent !== session.agent) requireAllowed(config, agent, session.agent);
  const inherited = agent === session.agent ? { provider: session.provider, model: wish.model ?? session.model } : { model: wish.model };
  const { allowedTools } = parent.core;
  await call(
    createSession,
    {
      id,
      parentId: parent.id,
      agent,
      ...inherited,
      title: wish.title,
      project: session.project ?? undefined,
      harness: session.harness,
      bypass: session.bypassed,
      metadata: workflowMarks(session.metadata),
      tools: allowedTools === null ? undefined : [...allowedTools],
    },
    options,
  );
}

/** A child of an activation works for the same workflow. */
function workflowMarks({ workflow, workflowAgent }: Readonly<Record<string, unknown>>): Record<string, unknown> | undefined {
  return workflow === undefined || workflowAgent === undefined ? undefined : { workflow, workflowAgent };
}

/**
 * A child reads the private memories of its agent and tells its parent what it likes. So only a person may open one agent to the others:
 * neither a model nor a token that is for one agent.
 */
function requireAllowed({ spawn }: SpawnDeps['config'], agent: string, own: string): void {
  if (spawn.agents.includes(agent)) return;
  throw new AppError('spawn_forbidden', {
    detail: `agent: sessions of ${own} may not begin sessions of ${JSON.stringify(agent)}; leave agent out, or have it listed in runtime.spawn.agents`,
  });
}

/** Has the parent left memory (and not given up the call) when the signal aborted? Asked at that moment: it may be back soon after. */
function watchParent(supervisor: Supervisor, parent: SessionHost, signal: AbortSignal): () => boolean {
  let left = false;
  const look = () => {
    left = parent.closed || supervisor.peek(parent.id) !== parent;
  };
  if (signal.aborted) look();
  signal.addEventListener('abort', look, { once: true });
  return () => left;
}

async function finish({ call, logger }: SpawnDeps, id: string, options: CallOptions): Promise<void> {
  try {
    await call(endSession, { id, reason: DONE }, options);
  } catch (error) {
    logger.warn({ err: error, session: id }, 'a spawned session did not end');
  }
}
