import { z } from 'zod';
import { defineOperation } from '../../src/contract/operation.ts';
import { NEUTRAL } from '../../src/contract/scope.ts';
import { type Logger, silentLogger } from '../../src/core/logger.ts';
import { createHttpServer, type SharedLimits, type SocketHandler, type SseHandler } from '../../src/http/server.ts';
import type { StreamLimits } from '../../src/http/sse.ts';

export const streamOperations = {
  watch: defineOperation({
    id: 'watch',
    method: 'GET',
    path: '/watch/:topic',
    tag: 'streams',
    scope: NEUTRAL,
    role: 'readonly',
    summary: 'Server-sent events.',
    input: z.strictObject({ topic: z.string(), after: z.string().regex(/^\d+$/).optional(), token: z.string().optional() }),
    output: z.string(),
    errors: ['session_not_found'],
    stream: 'sse',
  }),
  talk: defineOperation({
    id: 'talk',
    method: 'GET',
    path: '/talk',
    tag: 'streams',
    scope: NEUTRAL,
    role: 'readonly',
    summary: 'A WebSocket.',
    input: z.strictObject({ token: z.string().optional() }),
    output: z.string(),
    errors: [],
    stream: 'websocket',
  }),
};

export interface StreamAppOptions {
  readonly watch?: SseHandler<(typeof streamOperations)['watch']>;
  readonly talk?: SocketHandler<(typeof streamOperations)['talk']>;
  readonly limits?: Partial<StreamLimits>;
  readonly security?: Parameters<typeof createHttpServer>[0]['security'];
  readonly log?: Logger;
  readonly shared?: SharedLimits;
}

/** One SSE and one WebSocket operation with handlers of the test; the caller closes it. */
export async function startStreams(options: StreamAppOptions) {
  const server = createHttpServer({
    operations: streamOperations,
    handlers: {},
    streams: { watch: options.watch ?? (() => {}) },
    sockets: { talk: options.talk ?? (() => {}) },
    security: options.security ?? {},
    title: 'Streams',
    version: '1',
    log: options.log ?? silentLogger,
    ...(options.shared ? { shared: options.shared } : {}),
    ...(options.limits ? { streamLimits: options.limits } : {}),
  });
  const { port, url } = await server.listen('127.0.0.1', 0);
  return { port, url, close: () => server.close() };
}
