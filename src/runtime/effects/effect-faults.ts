import type { SessionHost } from '../session-host.ts';

/** Causes that are kept, the newest; whoever waits for the turn comes for its own at once. */
const FAULTS_MAX = 64;

/**
 * The causes of effects that failed by a fault of this program, by prompt. The log of the session says that an effect failed, the log of the
 * program why; the answer to the prompt carries the cause, so that it stands in the log under the request's own id as well.
 */
export interface EffectFaults {
  /** Keeps the cause. @returns whose work it was, as fields for the log */
  keep(host: SessionHost, key: string, cause: unknown): { readonly session: string; readonly key: string; readonly promptId?: string };
  /** Of the newest fault of this prompt; undefined when it had none, or long ago. */
  causeOf(session: string, promptId: string): unknown;
}

export function createEffectFaults(): EffectFaults {
  const causes = new Map<string, unknown>();
  return {
    keep(host, key, cause) {
      const promptId = host.core.snapshot.context.turn?.promptId;
      if (promptId === undefined) return { session: host.id, key };
      const name = nameOf(host.id, promptId);
      causes.delete(name);
      causes.set(name, cause);
      for (const oldest of causes.keys()) {
        if (causes.size <= FAULTS_MAX) break;
        causes.delete(oldest);
      }
      return { session: host.id, key, promptId };
    },
    causeOf: (session, promptId) => causes.get(nameOf(session, promptId)),
  };
}

function nameOf(session: string, promptId: string): string {
  return `${session} ${promptId}`;
}
