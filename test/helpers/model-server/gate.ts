import type { Reply } from './reply.ts';
import type { ModelRequest } from './request.ts';

/** How long `next()` waits for a request, in ms. */
const NEXT_TIMEOUT_MS = 5_000;

/** A request that waits for its answer. */
export interface Held {
  readonly request: ModelRequest;
  /** Decide the outcome; the second call does nothing. */
  reply(reply: Reply): void;
}

interface Waiter {
  resolve(held: Held): void;
}

export interface Gate {
  readonly pending: number;
  /** undefined when the gate is open or is opened while the request waits. */
  hold(request: ModelRequest): Promise<Reply | undefined>;
  next(timeoutMs?: number): Promise<Held>;
  close(): void;
  open(): void;
}

/** Holds requests back so that a test decides one outcome after the other. */
export function createGate(): Gate {
  const held: Held[] = [];
  const waiters: Waiter[] = [];
  const releases = new Set<(reply: Reply | undefined) => void>();
  let closed = false;

  return {
    get pending() {
      return held.length;
    },
    hold: (request) => {
      if (!closed) return Promise.resolve(undefined);
      return new Promise((resolve) => {
        const release = (reply: Reply | undefined): void => {
          releases.delete(release);
          resolve(reply);
        };
        releases.add(release);
        const one: Held = { request, reply: release };
        const waiter = waiters.shift();
        if (waiter) waiter.resolve(one);
        else held.push(one);
      });
    },
    next: (timeoutMs = NEXT_TIMEOUT_MS) => {
      const first = held.shift();
      if (first) return Promise.resolve(first);
      return new Promise<Held>((resolve, reject) => {
        const timer = setTimeout(() => {
          waiters.splice(waiters.indexOf(waiter), 1);
          reject(new Error(`no request reached the model server within ${timeoutMs} ms`));
        }, timeoutMs);
        const waiter: Waiter = {
          resolve: (one) => {
            clearTimeout(timer);
            resolve(one);
          },
        };
        waiters.push(waiter);
      });
    },
    close: () => {
      closed = true;
    },
    open: () => {
      closed = false;
      held.length = 0;
      for (const release of [...releases]) release(undefined);
    },
  };
}
