/** Streams that wait at once; one more waits for its heartbeat. */
const LISTENERS_MAX = 10_000;

/** Tells those who wait that sessions came or went, or that a message was sent. What it was they read themselves. */
export interface PeerNews {
  tell(): void;
  /** @returns function that ends it */
  subscribe(listener: () => void): () => void;
}

export function createPeerNews(): PeerNews {
  const listeners = new Set<() => void>();
  return {
    tell() {
      for (const listener of listeners) listener();
    },
    subscribe(listener) {
      if (listeners.size < LISTENERS_MAX) listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
