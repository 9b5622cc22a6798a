import { hash } from 'node:crypto';
import { daemonOperations } from '../contract/daemon.ts';
import type { Generation, GenerationChange } from '../contract/generation.ts';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { Session, SessionSummary } from '../contract/session.ts';
import type { sessionOperations } from '../contract/session-operations.ts';
import type { CauseRef } from '../contract/signal.ts';
import { limitOf } from '../core/caller-scope.ts';
import { newId } from '../core/clock.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { generationChange, mergeGeneration } from '../core/generation.ts';
import { nameHint } from '../core/nearest-name.ts';
import type { RequestContext } from '../core/operation-call.ts';
import type { SessionView } from '../core/session-view.ts';
import type { SessionCard } from '../core/signal-log.ts';
import { canonicalJson } from '../core/signal-seal.ts';
import { createChildGate } from './child-sessions.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';
import { sessionMachineRef } from './machine-service.ts';
import { chooseModel, warnOfUnlisted } from './model-choice.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import { SETTLED_STATES } from './session-card.ts';
import { abortTurn, endSession, refuseEnded } from './session-stop.ts';
import { requireTools } from './tool-choice.ts';

type Ops = typeof sessionOperations;
type Input<K extends keyof Ops> = ParsedInputOf<Ops[K]>;

/** Harness name of sessions that name none: this runtime's own. @source spec/native-runtime, "RuntimeAdapter" */
const HARNESS = 'signet-cli';
/** A single message is its own summary. */
const COMPACTABLE_MESSAGES_MIN = 2;

/** Create, look at, change and end sessions. */
export function createSessionService(deps: RuntimeDeps) {
  const children = createChildGate(deps);
  return {
    /** `cause`: the signal of another stream that brings the session about. */
    create: (input: Input<'createSession'>, context: RequestContext, cause?: CauseRef) => create(deps, children, input, context, cause),
    get: async ({ id }: Input<'getSession'>): Promise<Session> => {
      const { session } = await deps.supervisor.view(id);
      return { ...session, ...quarantineOf(deps, id) };
    },
    list: (query: Input<'listSessions'>, { caller }: Pick<RequestContext, 'caller'>) => listCards(deps, { ...query, ...limitOf(caller) }),
    children: async ({ id, limit, cursor }: Input<'listChildren'>, { caller }: Pick<RequestContext, 'caller'>) => {
      await deps.supervisor.view(id);
      return listCards(deps, { parent: id, limit, cursor, ...limitOf(caller) });
    },
    update: (input: Input<'updateSession'>, context: RequestContext) => update(deps, input, context),
    end: (input: Input<'endSession'>, context: RequestContext) => endSession(deps, input, context),
    abort: (input: Input<'abortTurn'>, context: RequestContext) => abortTurn(deps, input, context),
    wait: (input: Input<'waitSession'>, context: RequestContext) => wait(deps, input, context),
    compact: (input: Input<'compactSession'>, context: RequestContext) => compact(deps, input, context),
  };
}

export type SessionService = ReturnType<typeof createSessionService>;

async function create(
  deps: RuntimeDeps,
  children: ReturnType<typeof createChildGate>,
  input: Input<'createSession'>,
  context: RequestContext,
  cause: CauseRef | undefined,
): Promise<Session> {
  const id = input.id ?? newId('ses');
  const bodyDigest = hash('sha256', canonicalJson(input), 'base64url');
  const existing = input.id === undefined ? null : await existingSession(deps, input.id, bodyDigest);
  if (existing) {
    context.reply.status(200);
    return existing;
  }
  const limit = limitOf(context.caller);
  const begin = async () =>
    deps.supervisor.create(
      { ...(await createdPayload(deps, id, input, bodyDigest)), ...(cause ? { cause } : {}), ...(limit ? { limit } : {}) },
      context.client,
    );
  const host = await (input.parentId ? children.begin(input.parentId, begin) : begin());
  if (input.model !== undefined) void warnOfUnlisted(deps, host.view.session);
  return host.view.session;
}

/**
 * The session that was begun with this id and body, so that a request made again is answered whatever the load; null when there is none.
 *
 * @throws AppError `id_conflict`
 */
export async function existingSession(deps: RuntimeDeps, id: string, bodyDigest: string): Promise<Session | null> {
  const existing = await deps.supervisor.view(id).catch(absent);
  if (existing && existing.bodyDigest !== bodyDigest)
    throw new AppError('id_conflict', { detail: `session ${id} exists and was created with another body` });
  if (existing) return existing.session;
  if ((await deps.log.head(`session:${id}`)).head === 0) return null;
  throw new AppError('id_conflict', {
    detail: `a session ${id} was purged here; its numbers are never used again, so choose another id`,
  });
}

async function update(deps: RuntimeDeps, { id, ...change }: Input<'updateSession'>, context: RequestContext): Promise<Session> {
  const host = await deps.supervisor.get(id);
  const choosesModel = change.provider !== undefined || change.model !== undefined;
  const chosen = choosesModel
    ? chooseModel(deps, { provider: change.provider ?? host.view.session.provider, model: change.model })
    : undefined;
  const generation = await changedGeneration(deps, host.view.session.agent, change);
  await host.handle((core) => {
    refuseEnded(core.snapshot.context.endReason !== null, id);
    return [{ name: 'session:updated', payload: { ...change, ...generation, ...chosen, by: context.client }, client: context.client }];
  });
  return host.view.session;
}

/** What a setting that is taken away becomes: that of the agent as the roster has it now, else none. */
async function changedGeneration(deps: RuntimeDeps, agent: string, change: GenerationChange): Promise<GenerationChange> {
  const changed = generationChange(change);
  if (!Object.values(changed).includes(null)) return changed;
  const known = await requireAgent(deps, agent).catch((error: unknown) => {
    if (isAppError(error, 'unknown_agent')) return undefined; // It left the roster since.
    throw error;
  });
  return {
    ...changed,
    ...Object.fromEntries(Object.entries(mergeGeneration(known)).filter(([name]) => changed[name as keyof Generation] === null)),
  };
}

async function wait(deps: RuntimeDeps, { id, state, timeoutMs }: Input<'waitSession'>, context: RequestContext): Promise<Session> {
  const reached = ({ session }: SessionView) => {
    const fits = state === undefined ? SETTLED_STATES.has(session.state) && session.queue.length === 0 : session.state === state;
    return fits ? session : undefined;
  };
  const now = reached(await deps.supervisor.view(id));
  if (now) return now;
  return (await deps.supervisor.get(id)).until(reached, { timeoutMs, signal: context.signal });
}

async function compact(deps: RuntimeDeps, { id }: Input<'compactSession'>, context: RequestContext) {
  const host = await deps.supervisor.get(id);
  const { head } = await host.handle(({ snapshot }) => {
    refuseEnded(snapshot.context.endReason !== null, id);
    if (snapshot.value !== 'idle' && snapshot.value !== 'passivated') {
      throw new AppError('turn_open', { detail: `session ${id} is busy; wait for it to be idle, or abort its turn`, retryAfterMs: 1_000 });
    }
    if (snapshot.context.messages < COMPACTABLE_MESSAGES_MIN) {
      throw new AppError('nothing_to_compact', {
        detail: `session ${id} has ${snapshot.context.messages} messages since its last compaction`,
      });
    }
    return [{ name: 'compaction:requested', payload: { by: context.client }, client: context.client }];
  });
  const done = await host.until(({ lastCompaction, session }) => {
    if (lastCompaction && lastCompaction.seq > head) return lastCompaction;
    return session.state === 'compacting'
      ? undefined
      : ({ seq: session.seq, code: 'cancelled', message: 'the compaction was aborted' } as const);
  });
  if ('code' in done) throw new AppError('compaction_failed', { detail: done.message });
  return done;
}

async function createdPayload(deps: RuntimeDeps, id: string, input: Input<'createSession'>, bodyDigest: string) {
  const resumed = input.resume ? await endedSession(deps, input.resume) : null;
  const agent = input.agent ?? resumed?.agent ?? DEFAULT_AGENT;
  const known = await requireAgent(deps, agent);
  const chosen = chooseModel(deps, {
    provider: input.provider ?? known?.provider,
    model: input.model ?? (input.provider ? undefined : known?.model),
  });
  // A child may do what its parent may, also when a tool of it is gone by now.
  if (input.tools && input.parentId === undefined) requireTools(deps, input.tools, '/tools');
  const { limits, routing } = deps.config;
  const summary = routing.compaction ? chooseModel(deps, routing.compaction) : null;
  return {
    session: id,
    key: resumed?.sessionKey ?? input.sessionKey ?? id,
    agent,
    project: input.project ?? resumed?.project ?? null,
    title: input.title ?? resumed?.title ?? '',
    harness: input.harness ?? HARNESS,
    ...chosen,
    ...mergeGeneration(input, resumed, known),
    parentSession: input.parentId ?? null,
    resumedFrom: resumed?.id ?? null,
    ...(input.system ? { system: input.system } : {}),
    tools: input.tools ?? null,
    bypassed: input.bypass ?? false,
    metadata: input.metadata ?? {},
    machine: sessionMachineRef(),
    bodyDigest,
    limits: {
      mailboxTurnsMax: limits.mailboxTurnsMax,
      roundsMax: limits.roundsMax,
      attemptsMax: limits.attemptsMax,
      turnTimeoutMs: limits.turnTimeoutMs,
      approvalTimeoutMs: limits.approvalTimeoutMs,
      abortGraceMs: limits.abortGraceMs,
      idleTtlMs: limits.idleTtlMs,
      backoffMs: limits.backoffMs,
      retryAfterMsMax: limits.retryAfterMsMax,
      compactAtShare: limits.compactAtShare,
    },
    summary: summary ? { provider: summary.provider, model: summary.model } : null,
  };
}

/** @throws AppError `session_not_found`, `id_conflict` */
async function endedSession(deps: RuntimeDeps, id: string): Promise<Session> {
  const { session } = await deps.supervisor.view(id);
  if (session.state === 'ended') return session;
  throw new AppError('id_conflict', { detail: `session ${id} has not ended; send it prompts instead of resuming it` });
}

/** @throws AppError `unknown_agent` */
export async function requireAgent(deps: RuntimeDeps, name: string) {
  if (name === DEFAULT_AGENT) return undefined;
  const { agents } = await deps.daemon.call(daemonOperations.listAgents, {});
  deps.agentLimits.learn(agents);
  const entry = agents.find((agent) => agent.name === name);
  if (!entry) {
    throw new AppError('unknown_agent', {
      detail: `no agent "${name}"; ${nameHint(
        name,
        agents.map((agent) => agent.name),
        'known',
      )}. Or add it to agents.roster in agent.yaml`,
    });
  }
  return entry;
}

async function listCards(
  deps: RuntimeDeps,
  {
    cursor,
    limit,
    ...query
  }: { agent?: string; project?: string; state?: string; parent?: string; search?: string; limit: number; cursor?: string | undefined },
) {
  const after = cursor === undefined ? undefined : decodeCursor(cursor);
  const cards = await deps.log.cards({ ...query, limit: limit + 1, ...(after ? { after } : {}) });
  const items = cards.slice(0, limit).map((card) => ({ ...summaryOf(card), ...quarantineOf(deps, card.id) }));
  const last = items.at(-1);
  return { items, next: cards.length > limit && last ? encodeCursor(last) : null };
}

function summaryOf(card: SessionCard): SessionSummary {
  const { key, open: _open, parent, state, ...rest } = card;
  return { ...rest, state: state as SessionSummary['state'], sessionKey: key, parentId: parent };
}

function quarantineOf({ supervisor }: RuntimeDeps, id: string): Pick<Session, 'quarantined'> {
  const why = supervisor.whyAside(id);
  if (!why) return {};
  return { quarantined: { code: why.code === 'log_divergence' ? why.code : 'session_quarantined', reason: why.detail } };
}

function absent(error: unknown): null {
  if (error instanceof AppError && error.code === 'session_not_found') return null;
  throw error;
}
