import type { Signal } from '../../contract/signal.ts';

/** A frame of a stream before it is written as SSE or for a socket. */
export interface StreamFrame {
  /** Left out in control frames, so that they never move a cursor. */
  readonly id?: string;
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** The stored signal, when the frame is one: encoded once for all its readers. */
  readonly signal?: Signal;
}

/** Where a reader writes to. */
export interface StreamSink {
  /** False when the reader is slow: stop, await `drained()`. */
  write(frame: StreamFrame): boolean;
  drained(): Promise<void>;
  readonly closed: AbortSignal;
}

export function storedFrame(signal: Signal, id: string): StreamFrame {
  return { id, event: signal.name, data: signal as unknown as Record<string, unknown>, signal };
}

/** A piece of running text. `content` stands at the top as well, so that a client can write it out without knowing more. */
export function deltaFrame(
  session: string,
  agent: string,
  kind: 'text' | 'thinking',
  piece: { content: string; index: number; offset: number; cursor: string | undefined; parent: string | undefined; at: string },
): StreamFrame {
  const { content, index, offset, cursor, parent, at } = piece;
  return {
    ...(cursor === undefined ? {} : { id: cursor }),
    event: `${kind}:delta`,
    data: {
      v: 1,
      ...(cursor === undefined ? {} : { id: cursor }),
      name: `${kind}:delta`,
      stream: `session:${session}`,
      payload: { content, index, offset },
      content,
      timestamp: at,
      source: { kind: 'stream', agent, session, ...(parent ? { parent } : {}) },
    },
  };
}
