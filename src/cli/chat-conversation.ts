import type { RuntimeClient } from '../client/runtime-client.ts';
import type { Generation } from '../contract/generation.ts';
import type { Session } from '../contract/session.ts';
import type { CliContext } from './context.ts';
import type { AddressFlags } from './workspace.ts';

export interface ChatFlags extends AddressFlags, Generation {
  readonly session?: string;
  readonly agent?: string;
  readonly model?: string;
  readonly provider?: string;
  readonly project?: string;
  /** One prompt instead of a conversation; `-` reads it from stdin. */
  readonly print?: string;
  readonly json?: boolean;
  /** End the session when leaving. */
  readonly end?: boolean;
}

export interface Conversation {
  readonly context: CliContext;
  readonly client: RuntimeClient;
  readonly session: Session;
  readonly flags: ChatFlags;
}
