import type { AgentYaml } from '../contract/config.ts';
import type { Memory } from '../contract/memory.ts';
import type { Clock } from '../core/clock.ts';
import type { MessageStore, PresenceStore } from '../core/cross-agent.ts';
import type { Logger } from '../core/logger.ts';
import type { ClaimStore, MemoryStore, SessionStore } from '../core/memory-store.ts';
import type { PeerNews } from './cross-agent-news.ts';
import type { Lineage } from './transcript-lineage.ts';

export interface HookDeps {
  readonly memories: MemoryStore;
  readonly claims: ClaimStore;
  readonly sessions: SessionStore;
  readonly lineage: Lineage;
  readonly presence: PresenceStore;
  readonly messages: MessageStore;
  readonly news: PeerNews;
  readonly folder: string;
  readonly config: AgentYaml;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The shape in which hooks show a memory. */
export function hookMemory({ id, content, type, importance, created_at }: Memory) {
  return { id, content, type, importance, created_at };
}
