import type { RuntimeClient } from '../client/runtime-client.ts';
import { isSignal, type SessionEvent } from '../client/session-stream.ts';
import type { Session } from '../contract/session.ts';
import { newId } from '../core/clock.ts';

export interface Turns {
  /** Nothing of this session runs or waits, as far as the events tell. */
  idle(): boolean;
  see(event: SessionEvent): void;
  send(client: RuntimeClient, content: string): Promise<void>;
  /** Resolves when no prompt of ours is open any more, or on `signal`. Never rejects. */
  settled(signal: AbortSignal): Promise<void>;
  failures(): number;
}

/** Which prompts of a session are open: our own from the moment they are sent, the others from their first signal on. */
export function createTurns(session: Session): Turns {
  const open = new Set<string>([...session.queue, ...(session.turn ? [session.turn.promptId] : [])]);
  let waiting: (() => void)[] = [];
  let failed = 0;
  const close = (...promptIds: string[]) => {
    for (const id of promptIds) open.delete(id);
    if (open.size > 0) return;
    for (const resolve of waiting) resolve();
    waiting = [];
  };
  return {
    idle: () => open.size === 0,
    failures: () => failed,
    see(event) {
      if (isSignal(event, 'turn:queued') || isSignal(event, 'turn:start')) open.add(event.payload.promptId);
      else if (isSignal(event, 'turn:end')) {
        if (event.payload.error) failed += 1;
        close(event.payload.promptId, ...event.payload.promptIds);
      } else if (isSignal(event, 'turn:rejected') || isSignal(event, 'prompt:cancelled')) close(event.payload.promptId);
    },
    async send(client, content) {
      const promptId = newId('prm');
      open.add(promptId);
      try {
        await client.session.promptAsync(session.id, { content, promptId });
      } catch (error) {
        failed += 1;
        close(promptId);
        throw error;
      }
    },
    settled(signal) {
      if (open.size === 0 || signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        waiting.push(resolve);
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    },
  };
}
