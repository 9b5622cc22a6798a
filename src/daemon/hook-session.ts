import type { SessionClaim } from '../contract/daemon.ts';
import type { hookOperations } from '../contract/hooks.ts';
import { AgentName, DEFAULT_AGENT } from '../contract/ids.ts';
import type { OutputOf, ParsedInputOf } from '../contract/operation.ts';
import { AppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { ClaimStore, Reader, RuntimePath, SessionLine, SessionStore } from '../core/memory-store.ts';
import { claimOf, ownerOf, scopeOf } from '../core/memory-store.ts';
import type { Handler, RequestContext } from '../core/operation-call.ts';
import type { PeerNews } from './cross-agent-news.ts';

const PREFIX = 'session:';

/** Fields every hook call may carry, after validation. */
export interface HookCaller {
  readonly harness: string;
  readonly sessionKey?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly agentId?: string | undefined;
  readonly project?: string | undefined;
  readonly runtimePath?: RuntimePath | undefined;
  readonly holder?: string | undefined;
  readonly parentSessionKey?: string | undefined;
  readonly harnessAgentId?: string | undefined;
  readonly bypass?: boolean | undefined;
}

/** Who is calling, once key, agent and claim are settled. */
export interface HookSession {
  readonly key: string | undefined;
  readonly reader: Reader;
  readonly project: string | undefined;
  /** Undefined without a key: there is nothing to continue. */
  readonly line: SessionLine | undefined;
  readonly parentKey: string | undefined;
}

type HookOperations = typeof hookOperations;
export type HookId = keyof HookOperations;
export type HookInput<K extends HookId> = ParsedInputOf<HookOperations[K]>;
export type HookOutput<K extends HookId> = OutputOf<HookOperations[K]>;

export interface HookSpec<K extends HookId> {
  /** The answer of a silenced hook: every field of the normal answer, empty. */
  readonly silent: (session: HookSession) => HookOutput<K>;
  readonly answer: (input: HookInput<K>, session: HookSession, context: RequestContext) => Promise<HookOutput<K>>;
  /** `renew` for session-start, `end` for session-end; every other hook refreshes the claim or takes a free one. */
  readonly claim?: 'renew' | 'end';
  /** With `end`: false when the session goes on all the same, and keeps its claim. */
  readonly isOver?: (input: HookInput<K>) => boolean;
}

/** `session:abc` and `abc` are the same session. */
export function plainKey(key: string): string {
  return key.startsWith(PREFIX) && key.length > PREFIX.length ? key.slice(PREFIX.length) : key;
}

/** `agent:<id>:<rest>` names its agent. */
export function agentOfKey(key: string | undefined): string | undefined {
  const id = /^agent:([^:]+):./.exec(key ?? '')?.[1];
  return id !== undefined && AgentName.safeParse(id).success ? id : undefined;
}

interface HookBasics {
  readonly claims: ClaimStore;
  readonly sessions: Pick<SessionStore, 'noteProject'>;
  readonly log: Logger;
  readonly news: Pick<PeerNews, 'tell'>;
}

/**
 * A handler around one hook: settles who calls, takes or refreshes the claim, and stays silent when the session is bypassed
 * (`bypassed: true`) or the caller asks for no hooks (header `x-signet-no-hooks: 1`; the claim is then left alone).
 *
 * @throws AppError session_claimed when the session belongs to the other runtime path
 * @source spec/hooks, "Per-Session Bypass"
 */
export function createHook<K extends HookId>(
  { claims, sessions, log, news }: HookBasics,
  hook: K,
  spec: HookSpec<K>,
): Handler<HookOperations[K]> {
  return async (input, context) => {
    const caller = input as HookCaller;
    const key = keyOf(caller);
    const noHooks = context.header('x-signet-no-hooks') === '1';
    const settled = await settle({ claims, sessions }, { caller, context, noHooks, claim: spec.claim });
    const { session } = settled;
    // A claim that was just taken for the first time.
    if (settled.claim?.claimedAt === settled.claim?.lastSeenAt) news.tell();
    // A session may begin bypassed: then its very first hook is silent as well.
    const claim = caller.bypass && settled.claim ? await claims.setBypass(settled.claim.key, true, settled.claim.agentId) : settled.claim;
    const bypassed = claim?.bypassed ?? settled.others.some((other) => other.bypassed);
    if (settled.others.length > 0) {
      const agents = settled.others.map((other) => other.agentId);
      log.warn({ category: 'session', hook, sessionKey: key, agents }, 'several agents use this session key; name one in agentId');
    }
    log.debug({ hook, sessionKey: key, harness: caller.harness, bypassed, noHooks }, 'hook called');
    try {
      if (noHooks) return spec.silent(session);
      if (bypassed) return { ...spec.silent(session), bypassed: true };
      return await spec.answer(input, session, context);
    } finally {
      // Whatever happened above: an ended session must not block its key. Others under the same key go on, bypassed if they were.
      if (spec.claim === 'end' && settled.claim && (spec.isOver?.(input) ?? true)) {
        await claims.release(settled.claim.key, { holder: caller.holder, agentId: settled.claim.agentId });
        news.tell();
      }
    }
  };
}

interface Call {
  readonly caller: HookCaller;
  readonly context: RequestContext;
  readonly noHooks: boolean;
  readonly claim: 'renew' | 'end' | undefined;
}

interface Settled {
  readonly claim: SessionClaim | undefined;
  /** Of several agents under the key, none of which was named: the call acts for nobody in particular. */
  readonly others: readonly SessionClaim[];
  readonly session: HookSession;
}

async function settle(
  { claims, sessions }: Pick<HookBasics, 'claims' | 'sessions'>,
  { caller, context, noHooks, claim: mode }: Call,
): Promise<Settled> {
  const key = keyOf(caller);
  const hooked = key !== undefined && !noHooks && mode !== 'end';
  const named = caller.agentId ?? agentOfKey(key);
  // Taking a claim looks at the one that is held by itself.
  const live = key === undefined || (hooked && named !== undefined) ? [] : await claims.under(key);
  const others = named === undefined && live.length > 1 ? live.filter((claim) => claim.agentId !== DEFAULT_AGENT) : [];
  const own = claimOf(live, named ?? DEFAULT_AGENT);
  const held = own ?? (mode === 'end' ? lastHeard(others, caller) : undefined);
  const runtimePath = caller.runtimePath ?? pathOf(context);
  // In mid-session a claim of nobody's own would only take the end away from those whose session it is.
  const takes = hooked && (mode === 'renew' || own !== undefined || others.length === 0);
  if (hooked && !takes) await claims.check({ key, runtimePath });
  const agentId = named ?? (await knownAgent(claims, mode === 'renew' ? undefined : held, caller));
  const { harness, project, holder, harnessAgentId } = caller;
  const parentKey = takes ? await parentOf(claims, key, caller) : undefined;
  const request = { key: key ?? '', runtimePath, harness, agentId: agentId ?? DEFAULT_AGENT, project, holder, parentKey, harnessAgentId };
  const claim = takes ? await claims.take(request, { restart: mode === 'renew' }) : held;
  const reader = scopeOf(agentId, context.caller, true);
  const line = key === undefined ? undefined : { agentId: ownerOf(reader), sessionKey: key };
  // So that it stays reachable for a caller of this project when no claim says whose it is any more.
  if (line && reader.within && takes) await sessions.noteProject(line, reader.within.project);
  return { claim, others, session: { key, reader, project: project ?? claim?.project ?? undefined, line, parentKey } };
}

/**
 * Whose session ends by a key alone that several agents use: the one heard of last, of this harness where it has one. Nobody's while one of
 * them is to be left alone: it may be that one.
 */
function lastHeard(others: readonly SessionClaim[], { harness }: HookCaller): SessionClaim | undefined {
  if (others.some((claim) => claim.bypassed)) return undefined;
  return others.find((claim) => claim.harness === harness) ?? others[0];
}

/** As told, else the session whose sub-agent this one seems to be. What is only inferred opens no memories. */
async function parentOf(claims: ClaimStore, key: string, caller: HookCaller): Promise<string | undefined> {
  const { parentSessionKey, harnessAgentId, harness, project } = caller;
  if (parentSessionKey !== undefined) return plainKey(parentSessionKey) === key ? undefined : plainKey(parentSessionKey);
  if (harnessAgentId === undefined) return undefined;
  return (await claims.likelyParent({ key, harness, project }))?.key;
}

/** The agent that opened the session, or its parent's. `default` stands for nobody in particular: it opens no private memories. */
async function knownAgent(claims: ClaimStore, held: SessionClaim | undefined, input: HookCaller): Promise<string | undefined> {
  const parentKey = input.parentSessionKey === undefined ? undefined : plainKey(input.parentSessionKey);
  const parent = held === undefined && parentKey !== undefined ? claimOf(await claims.under(parentKey), DEFAULT_AGENT) : undefined;
  const known = (held ?? parent)?.agentId ?? agentOfKey(parentKey);
  return known === DEFAULT_AGENT ? undefined : known;
}

function keyOf(input: HookCaller): string | undefined {
  const key = input.sessionKey ?? input.sessionId;
  return key === undefined ? undefined : plainKey(key);
}

function pathOf(context: RequestContext): RuntimePath | undefined {
  const path = context.header('x-signet-runtime-path');
  return path === 'plugin' || path === 'legacy' ? path : undefined;
}

/** The agent a memory route acts for: the field, else the header `x-signet-agent-id`. @throws AppError invalid_request */
export function agentOf(agentId: string | undefined, context: RequestContext): string | undefined {
  const named = agentId ?? (context.header('x-signet-agent-id') || undefined);
  if (named === undefined || AgentName.safeParse(named).success) return named;
  throw new AppError('invalid_request', { detail: `x-signet-agent-id: ${JSON.stringify(named)} is no agent name` });
}

/** Whose memories a call may see and change: its agent, within the limit of its caller. @throws AppError invalid_request */
export function readerFor(asking: Asking, context: RequestContext): Reader {
  return scopeOf(askingAgent(asking, context), context.caller);
}

interface Asking {
  readonly agentId?: string | undefined;
  readonly sessionKey?: string | undefined;
}

/** The same where a call may carry a session key: one that names its agent does so where nothing else does. */
export function askingAgent(asking: Asking, context: RequestContext): string | undefined {
  const { sessionKey } = asking;
  return agentOf(asking.agentId, context) ?? agentOfKey(sessionKey === undefined ? undefined : plainKey(sessionKey));
}
