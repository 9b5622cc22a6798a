import type { IncomingHttpHeaders } from 'node:http';
import type { Wire } from './reply.ts';

export interface ModelRequest {
  /** 1 for the first one. */
  readonly number: number;
  readonly wire: Wire;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readonly<Record<string, unknown>>;
  readonly model: string;
  readonly stream: boolean;
  /** Port of the client's end: equal for two requests over one connection. */
  readonly clientPort: number;
  /** The client closed the socket before the answer was whole. */
  readonly aborted: boolean;
  /** Resolves when the exchange is over, one way or the other. */
  readonly closed: Promise<{ readonly aborted: boolean }>;
}
