import type { AgentYaml } from '../contract/config.ts';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import type { Clock } from '../core/clock.ts';
import type { MessageReader, MessageStore, PresenceStore } from '../core/cross-agent.ts';
import type { Logger } from '../core/logger.ts';
import type { RequestContext } from '../core/operation-call.ts';
import type { PeerNews } from './cross-agent-news.ts';
import { askingAgent, plainKey } from './hook-session.ts';

export interface PeerDeps {
  readonly presence: PresenceStore;
  readonly messages: MessageStore;
  readonly news: PeerNews;
  readonly folder: string;
  readonly config: AgentYaml;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Who asks: the agent that is named, else the session's, else `default`. */
export async function readerOf(
  { presence }: Pick<PeerDeps, 'presence'>,
  named: MessageReader | { readonly agentId?: string | undefined; readonly sessionKey?: string | undefined },
  context: RequestContext,
): Promise<MessageReader> {
  const sessionKey = named.sessionKey === undefined ? undefined : plainKey(named.sessionKey);
  const said = askingAgent(named, context);
  const isDirect = context.caller?.project !== undefined;
  if (said !== undefined || sessionKey === undefined) return { agentId: said ?? DEFAULT_AGENT, sessionKey, isDirect };
  return { agentId: (await presence.find(sessionKey))?.agentId ?? DEFAULT_AGENT, sessionKey, isDirect };
}
