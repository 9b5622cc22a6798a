import type { CrossAgentMessage } from '../contract/cross-agent.ts';
import type { MessageStore } from '../core/cross-agent.ts';
import { messageBlock } from './cross-agent-inject.ts';
import type { HookSession } from './hook-session.ts';

export interface HeardInput {
  readonly turnKey?: string | undefined;
  readonly heardMessages?: readonly string[] | undefined;
}

/** What a hook says of a message; the text stands in the inject. */
export type ShownMessage = Pick<CrossAgentMessage, 'id' | 'type' | 'fromAgentId' | 'fromSessionKey' | 'broadcast' | 'createdAt'>;

/**
 * Messages that are new to the session, as a block for its next prompt; noted as shown. None without a session key: nobody could tell
 * what was shown already.
 *
 * @param signal  of the call: who has gone is shown nothing
 */
export async function messagesFor(
  messages: Pick<MessageStore, 'unheard' | 'noteShown'>,
  { line, reader }: HookSession,
  { turnKey, heardMessages }: HeardInput,
  charsMax: number,
  signal: AbortSignal,
): Promise<{ text: string; shown: ShownMessage[] }> {
  if (!line) return { text: '', shown: [] };
  const listener = { ...line, turnKey, heard: heardMessages, isDirect: reader.within !== undefined };
  const unheard = await messages.unheard(listener);
  if (unheard.length === 0 || signal.aborted) return { text: '', shown: [] };
  const { text, shown } = messageBlock(unheard, charsMax);
  await messages.noteShown(listener, shown);
  return {
    text,
    shown: shown.map(({ id, type, fromAgentId, fromSessionKey, broadcast, createdAt }) => ({
      id,
      type,
      fromAgentId,
      ...(fromSessionKey === undefined ? {} : { fromSessionKey }),
      broadcast,
      createdAt,
    })),
  };
}
