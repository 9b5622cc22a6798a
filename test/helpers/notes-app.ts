import { z } from 'zod';
import { defineOperation, flag, wholeNumber } from '../../src/contract/operation.ts';
import { NEUTRAL } from '../../src/contract/scope.ts';
import { AppError } from '../../src/core/errors.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { Handlers } from '../../src/core/operation-call.ts';
import { createHttpServer, type HttpServerOptions } from '../../src/http/server.ts';

/** A small made-up operation table with one of each kind, for tests of the wire. */
export const noteOperations = {
  addNote: defineOperation({
    id: 'addNote',
    method: 'POST',
    path: '/notes/:shelf',
    tag: 'notes',
    scope: NEUTRAL,
    role: 'agent',
    summary: 'Keep a note.',
    status: 201,
    queryFields: ['dry'],
    input: z.object({
      shelf: z.string().min(1).max(600),
      content: z.string().min(1),
      stars: z.int().min(1).max(5).optional(),
      kind: z.enum(['idea', 'fact']).default('idea'),
      labels: z.array(z.strictObject({ name: z.string() })).optional(),
      dry: flag.optional(),
    }),
    output: z.looseObject({ shelf: z.string(), content: z.string() }),
    errors: ['id_conflict'],
  }),
  strictNote: defineOperation({
    id: 'strictNote',
    method: 'PATCH',
    path: '/notes/:shelf',
    tag: 'notes',
    scope: NEUTRAL,
    role: 'operator',
    summary: 'Change a note.',
    bodyBytesMax: 1_000,
    input: z.strictObject({ shelf: z.string(), content: z.string().optional() }),
    output: z.object({ shelf: z.string() }),
    errors: [],
  }),
  oldNote: defineOperation({
    id: 'oldNote',
    method: 'POST',
    path: '/old',
    tag: 'notes',
    scope: NEUTRAL,
    role: 'agent',
    summary: 'For clients that exist.',
    unknownFields: 'ignore',
    input: z.object({ content: z.string() }),
    output: z.object({ content: z.string() }),
    errors: [],
  }),
  findNotes: defineOperation({
    id: 'findNotes',
    method: 'GET',
    path: '/notes',
    tag: 'notes',
    scope: NEUTRAL,
    role: 'readonly',
    summary: 'Find notes.',
    input: z.object({ word: z.string().optional(), limit: wholeNumber(1, 100).default(10), open: flag.optional() }),
    output: z.looseObject({ limit: z.int() }),
    errors: [],
  }),
  dropNote: defineOperation({
    id: 'dropNote',
    method: 'DELETE',
    path: '/notes/:shelf',
    tag: 'notes',
    scope: NEUTRAL,
    role: 'operator',
    summary: 'Drop a note.',
    status: 204,
    input: z.object({ shelf: z.string(), reason: z.string().optional() }),
    output: z.undefined(),
    errors: ['not_found'],
  }),
  failNote: defineOperation({
    id: 'failNote',
    method: 'POST',
    path: '/fail',
    tag: 'notes',
    scope: NEUTRAL,
    role: 'agent',
    summary: 'Fail as told.',
    input: z.object({ how: z.enum(['busy', 'conflict', 'bug', 'hang', 'accepted']) }),
    output: z.object({ how: z.string() }),
    errors: ['session_busy', 'id_conflict'],
  }),
  plainNote: defineOperation({
    id: 'plainNote',
    method: 'GET',
    path: '/plain',
    tag: 'notes',
    scope: NEUTRAL,
    role: 'readonly',
    summary: 'Text.',
    contentType: 'text/plain; charset=utf-8',
    input: z.object({}),
    output: z.string(),
    errors: [],
  }),
  openapi: defineOperation({
    id: 'openapi',
    method: 'GET',
    path: '/openapi.json',
    tag: 'notes',
    scope: NEUTRAL,
    role: 'readonly',
    summary: 'This document.',
    input: z.object({}),
    output: z.looseObject({ openapi: z.string() }),
    errors: [],
  }),
};

type JsonOperations = Omit<typeof noteOperations, 'openapi'>;

export const noteHandlers: Handlers<JsonOperations> = {
  addNote: (input) => {
    if (input.shelf === 'taken')
      throw new AppError('id_conflict', { detail: 'the shelf taken is taken', extra: { shelf: input.shelf }, retryAfterMs: 1_500 });
    return { ...input };
  },
  strictNote: ({ shelf }) => ({ shelf }),
  oldNote: ({ content }) => ({ content }),
  findNotes: (input) => ({ ...input }),
  dropNote: ({ shelf }) => {
    if (shelf === 'none') throw new AppError('not_found', { detail: 'no shelf none' });
    return undefined;
  },
  failNote: ({ how }, context) => {
    if (how === 'busy') throw new AppError('session_busy', { detail: 'holds 16 turns', retryAfterMs: 1_200 });
    if (how === 'conflict') throw new AppError('id_conflict', { detail: 'other body', extra: { head: 4 } });
    if (how === 'bug') throw new TypeError('secret path /etc/shadow');
    if (how === 'accepted') context.reply.status(202);
    if (how === 'accepted') return { how };
    return new Promise(() => {});
  },
  plainNote: () => 'plain words',
};

export type NotesServerOptions = Partial<Omit<HttpServerOptions<typeof noteOperations>, 'operations'>>;

/** A listening server on a free port; the caller closes it. */
export async function startNotes(options: NotesServerOptions = {}) {
  const server = createHttpServer({
    operations: noteOperations,
    handlers: noteHandlers,
    security: {},
    title: 'Notes',
    version: '1.0.0',
    log: silentLogger,
    ...options,
  });
  const { port, url } = await server.listen('127.0.0.1', 0);
  return { port, url, close: () => server.close() };
}
