import type { CrossAgentMessage, crossAgentOperations } from '../contract/cross-agent.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { AgentMessageDraft, MessageReader } from '../core/cross-agent.ts';
import { AppError } from '../core/errors.ts';
import type { RequestContext } from '../core/operation-call.ts';
import { type PeerDeps, readerOf } from './cross-agent-deps.ts';
import { agentOfKey, plainKey } from './hook-session.ts';
import { knownAgents, listAgents } from './known-agents.ts';

type Input = ParsedInputOf<(typeof crossAgentOperations)['sendAgentMessage']>;

/** @throws AppError unknown_agent, session_not_found, relay_forbidden, invalid_request */
export async function sendMessage(deps: PeerDeps, input: Input, context: RequestContext): Promise<{ message: CrossAgentMessage }> {
  const from = await readerOf(deps, { agentId: input.fromAgentId, sessionKey: input.fromSessionKey }, context);
  const sender = { content: input.content, type: input.type, fromAgentId: from.agentId, fromSessionKey: from.sessionKey };
  await requireInProject(deps, input, context);
  const message = input.acp ? await relay(deps, { ...input.acp }, sender) : await deliver(deps, input, sender);
  deps.news.tell();
  if (message.deliveryPath === 'local') deps.news.sent(message);
  const { id, fromAgentId, toAgentId, toSessionKey, broadcast, deliveryPath, deliveryStatus, recipients, deliveryError } = message;
  const fields = {
    id,
    fromAgentId,
    toAgentId,
    toSessionKey,
    broadcast,
    deliveryPath,
    deliveryStatus,
    recipients,
    fault: deliveryError?.code,
  };
  deps.log.info({ category: 'session', ...fields }, 'a message was sent between agents');
  return { message };
}

/** A token for one project reaches live sessions of that project, not agents as a whole, nor those of other servers. @throws AppError forbidden */
async function requireInProject({ presence }: PeerDeps, { toSessionKey, acp }: Input, { caller }: RequestContext): Promise<void> {
  if (caller?.project === undefined) return;
  const target = toSessionKey === undefined || acp ? undefined : await presence.find(plainKey(toSessionKey));
  if (target?.project === caller.project) return;
  const detail = `the token is for the project ${caller.project}; name a live session of it in toSessionKey`;
  throw new AppError('forbidden', { detail, errors: [{ pointer: '/toSessionKey', detail }] });
}

type Sender = Pick<AgentMessageDraft, 'content' | 'type' | 'fromAgentId' | 'fromSessionKey'>;

async function deliver(deps: PeerDeps, input: Input, sender: Sender): Promise<CrossAgentMessage> {
  const { broadcast } = input;
  const target = broadcast ? undefined : await targetOf(deps, input);
  return deps.messages.add({ ...sender, toAgentId: target?.agentId, toSessionKey: target?.sessionKey, broadcast, path: 'local' });
}

/** A session that is not live can only be waited for when its agent is known: it may come back under its key. */
async function targetOf(deps: PeerDeps, { toAgentId, toSessionKey }: Input): Promise<MessageReader> {
  const sessionKey = toSessionKey === undefined ? undefined : plainKey(toSessionKey);
  const session = sessionKey === undefined ? undefined : await deps.presence.find(sessionKey);
  if (session) {
    if (toAgentId !== undefined && toAgentId !== session.agentId) {
      const detail = `toAgentId: session ${JSON.stringify(sessionKey)} belongs to another agent than ${toAgentId}; leave one of the two out`;
      throw new AppError('invalid_request', { detail, errors: [{ pointer: '/toAgentId', detail }] });
    }
    return { agentId: session.agentId, sessionKey };
  }
  const agentId = toAgentId ?? agentOfKey(sessionKey);
  if (agentId === undefined) {
    throw new AppError('session_not_found', {
      detail: `no live session ${JSON.stringify(sessionKey)}; name its agent with toAgentId as well to leave the message for it`,
    });
  }
  const known = knownAgents(deps);
  if (!known.includes(agentId) && !(await deps.presence.hasAgent(agentId))) {
    throw new AppError('unknown_agent', {
      detail: `toAgentId: no agent "${agentId}" and no live session of one; known agents: ${listAgents(known)}`,
    });
  }
  return { agentId, sessionKey };
}

/** Kept first, so that whatever happens on the way can be seen; it goes on when the caller hangs up. */
async function relay(deps: PeerDeps, target: NonNullable<Input['acp']>, sender: Sender): Promise<CrossAgentMessage> {
  const { findRoute, relayMessage } = await import('./cross-agent-acp.ts');
  const deadline = AbortSignal.timeout(target.timeoutMs);
  const route = await findRoute(target, deps.config.crossAgent.acp.allowedOrigins, deadline);
  const to = { toAgentId: undefined, toSessionKey: undefined, broadcast: false };
  const message = await deps.messages.add({ ...sender, ...to, path: 'acp' });
  return deps.messages.settle(message.id, await relayMessage(route, message, target.metadata, deadline));
}
