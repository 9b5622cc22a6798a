/** A limit on how much runs at once; those who wait go in order. */
export interface Slots {
  /**
   * Resolves with the function that gives the slot back; call it exactly once.
   *
   * @throws the signal's reason when it aborts before a slot is free
   */
  take(signal: AbortSignal): Promise<() => void>;
  readonly waiting: number;
}

/** @param onIdle  called when the last slot came back */
export function createSlots(limit: number, onIdle?: () => void): Slots {
  let taken = 0;
  const queue: { grant: () => void }[] = [];
  const release = () => {
    const next = queue.shift();
    if (next) next.grant();
    else taken -= 1;
    if (taken === 0) onIdle?.();
  };
  return {
    get waiting() {
      return queue.length;
    },
    take(signal) {
      if (signal.aborted) return Promise.reject(signal.reason);
      if (taken < limit) {
        taken += 1;
        return Promise.resolve(once(release));
      }
      const { promise, resolve, reject } = Promise.withResolvers<() => void>();
      const entry = {
        grant: () => {
          signal.removeEventListener('abort', giveUp);
          resolve(once(release));
        },
      };
      const giveUp = () => {
        queue.splice(queue.indexOf(entry), 1);
        reject(signal.reason);
      };
      queue.push(entry);
      signal.addEventListener('abort', giveUp, { once: true });
      return promise;
    },
  };
}

/** One limit a key; a key without takers is forgotten. */
export function slotsBySession(limit: number): (session: string) => Slots {
  const bySession = new Map<string, Slots>();
  return (session) => {
    let slots = bySession.get(session);
    if (!slots) {
      slots = createSlots(limit, () => bySession.delete(session));
      bySession.set(session, slots);
    }
    return slots;
  };
}

function once(run: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    run();
  };
}
