import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDaemonClient } from '../../src/client/daemon-client.ts';
import { createMemoryTools } from '../../src/tools/memory-tools.ts';
import { startCallbackServer } from '../helpers/callback-server.ts';
import { connectHttp } from '../helpers/mcp-connection.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { call } from './calls.ts';
import { verifies } from './verifies.ts';

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

let signet: Signet;
beforeAll(async () => {
  signet = await startSignet();
});
afterAll(() => signet.close());

const daemon = (method: string, path: string, body?: unknown) => call(method, signet.daemonUrl + path, body);
const remember = async (body: Record<string, unknown>): Promise<string> => (await daemon('POST', '/api/memory/remember', body)).body.id;
const recallIds = async (query: string): Promise<string[]> =>
  (await daemon('POST', '/api/memory/recall', { query })).body.results.map(({ id }: { id: string }) => id);
/** A tool as a model would get it: output or failure. */
const tool = async (name: string, input: unknown) => (await call('POST', `${signet.runtimeUrl}/tools/${name}`, { input })).body;
const refused = { isError: true, error: { code: 'invalid_request' } };

/** What stands in the database itself, for promises about what is kept and no longer shown. */
function stored(sql: string, id: string): Record<string, unknown> | undefined {
  const db = new DatabaseSync(join(signet.folder, 'data', 'memory.db'), { readOnly: true });
  const row = db.prepare(sql).get(id);
  db.close();
  return row && { ...row };
}

describe('the memory routes of the daemon', () => {
  verifies(['memory.remember.endpoint', 'memory.get.endpoint', 'auth.local'], async () => {
    const { status, body } = await daemon('POST', '/api/memory/remember', { content: 'The well is dry in August.', importance: 0.7 });
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({ content: 'The well is dry in August.', importance: 0.7, success: true }),
    ]);
    expect((await daemon('GET', `/api/memory/${body.id}`)).body).toMatchObject({ id: body.id, content: 'The well is dry in August.' });
    expect(await daemon('GET', '/api/memory/no-such-memory')).toMatchObject({ status: 404, body: { code: 'memory_not_found' } });
  });

  verifies('memory.recall.endpoint', async () => {
    const id = await remember({ content: 'Badgers dig under the orchard fence.' });
    const { body } = await daemon('POST', '/api/memory/recall', { query: 'orchard badgers' });
    expect(body).toMatchObject({ query: 'orchard badgers', count: 1, results: [{ id, content: 'Badgers dig under the orchard fence.' }] });
  });

  test('a limit is a number, and a date alone may say since when', async () => {
    const recall = (fields: object) => daemon('POST', '/api/memory/recall', { query: 'well', ...fields });
    for (const limit of [null, '', ' ', true, [], 'many', 1.5]) {
      const { status, body } = await recall({ limit });
      expect([status, body.code, body.detail]).toEqual([400, 'invalid_request', expect.stringMatching(/^limit /)]);
    }
    expect((await daemon('GET', '/api/memories?limit=')).status).toBe(400);
    for (const limit of [undefined, 5, '5', -5, 0, 1_000_000_000]) expect((await recall({ limit })).status).toBe(200);

    const id = await remember({ content: 'The gazebo was built of larch.', createdAt: '2020-01-01T00:00:00Z' });
    const since = async (day: string): Promise<string[]> =>
      (await recall({ query: 'gazebo larch', since: day })).body.results.map((memory: { id: string }) => memory.id);
    expect([await since('2020-01-01'), await since('2020-01-02')]).toEqual([[id], []]);
    expect(await recall({ since: '2020-13-01' })).toMatchObject({ status: 400, body: { detail: expect.stringContaining('since') } });
  });

  verifies(['memory.modify.endpoint', 'runtime.parity.modify'], async () => {
    const changes = [
      (id: string, fields: object) => daemon('PATCH', `/api/memory/${id}`, fields),
      (id: string, fields: object) => daemon('POST', '/api/memory/modify', { id, ...fields }),
    ];
    for (const [index, change] of changes.entries()) {
      const id = await remember({ content: `The mill has ${index + 4} sails.` });
      expect((await change(id, { content: 'no reason given' })).status).toBe(400);
      const { status } = await change(id, { reason: 'recounted', content: `The mill has ${index} broken sails.`, importance: 0.1 });
      expect(status).toBe(200);
      const memory = (await daemon('GET', `/api/memory/${id}`)).body;
      expect(memory).toMatchObject({ content: `The mill has ${index} broken sails.`, importance: 0.1, version: 2 });
      expect(memory.history.at(-1)).toMatchObject({
        event: 'updated',
        reason: 'recounted',
        oldContent: `The mill has ${index + 4} sails.`,
      });
    }
  });

  verifies(['memory.forget.endpoint', 'runtime.parity.forget'], async () => {
    const forgetting = [
      (id: string, reason?: string) => daemon('DELETE', `/api/memory/${id}`, { reason }),
      (id: string, reason?: string) => daemon('POST', '/api/memory/forget', { id, reason }),
    ];
    for (const [index, forget] of forgetting.entries()) {
      const id = await remember({ content: `Heron number ${index} was seen.` });
      expect((await forget(id)).status).toBe(400);
      expect((await forget(id, 'it was a stork')).status).toBe(200);
      expect((await daemon('GET', `/api/memory/${id}`)).status).toBe(404);
      expect(await recallIds('heron')).toEqual([]);
    }
  });
});

describe('memory_search', () => {
  verifies(['mcp.memory_search.query', 'mcp.memory_search.limit'], async () => {
    expect(await tool('memory_search', { limit: 3 })).toMatchObject(refused);
    for (let index = 0; index < 12; index += 1) await remember({ content: `Sparrow sighting ${index}.` });
    expect((await tool('memory_search', { query: 'sparrow' })).output).toHaveLength(10);
    expect((await tool('memory_search', { query: 'sparrow', limit: 4 })).output).toHaveLength(4);
  });

  verifies('mcp.memory_search.array', async () => {
    const mcp = await connectHttp(signet.daemonUrl);
    try {
      await remember({ content: 'The heron nests by the mill.' });
      const raw = async (name: string, input: object) => mcp.client.callTool({ name, arguments: { ...input } });
      for (const [name, input, list] of [
        ['memory_search', { query: 'heron mill' }, 'results'],
        ['memory_list', { limit: 2 }, 'memories'],
      ] as const) {
        const { content, structuredContent } = (await raw(name, input)) as CallToolResult;
        const [part] = content;
        const listed = JSON.parse(part?.type === 'text' ? part.text : '');
        expect(Array.isArray(listed)).toBe(true);
        expect(listed).toContainEqual(expect.objectContaining({ content: 'The heron nests by the mill.' }));
        expect(structuredContent).toMatchObject({ [list]: listed });
      }
    } finally {
      await mcp.close();
    }
  });

  verifies(['mcp.memory_search.type', 'mcp.memory_search.min_score', 'mcp.memory_search.result'], async () => {
    await remember({ content: 'Prefers walnut bread.', type: 'preference', importance: 0.6, tags: 'food,bakery' });
    await remember({ content: 'The walnut tree fell in the storm.', type: 'event' });
    const ofType = (await tool('memory_search', { query: 'walnut', type: 'preference' })).output;
    expect(ofType).toEqual([
      {
        ...{ id: expect.any(String), content: 'Prefers walnut bread.', type: 'preference', importance: 0.6, tags: 'food,bakery' },
        ...{ agentId: 'default', scope: 'global', score: expect.any(Number), created_at: expect.stringMatching(TIMESTAMP) },
      },
    ]);
    const found = async (input: object) => (await tool('memory_search', input)).output.map(({ content }: { content: string }) => content);
    const query = 'walnut storm';
    expect((await found({ query })).sort()).toEqual(['Prefers walnut bread.', 'The walnut tree fell in the storm.']);
    expect(await found({ query, min_score: 0.9 })).toEqual(['The walnut tree fell in the storm.']);
  });
});

describe('memory_store', () => {
  verifies(['mcp.memory_store.content', 'mcp.memory_store.importance'], async () => {
    expect(await tool('memory_store', { type: 'fact' })).toMatchObject(refused);
    for (const importance of [-0.1, 1.1]) expect(await tool('memory_store', { content: 'x', importance })).toMatchObject(refused);
    for (const importance of [0, 0.25, 1]) {
      const { output } = await tool('memory_store', { content: `Weighed ${importance}.`, importance });
      expect((await daemon('GET', `/api/memory/${output.id}`)).body.importance).toBe(importance);
    }
  });

  verifies(['mcp.memory_store.type', 'mcp.memory_store.tags', 'mcp.memory_store.result'], async () => {
    const input = { content: 'Chose the red door.', type: 'decision', importance: 0.8, tags: 'house,paint' };
    const { output, isError } = await tool('memory_store', input);
    const owned = { agentId: 'default', scope: 'global', created_at: expect.stringMatching(TIMESTAMP) };
    expect([isError, output]).toEqual([false, { ...input, id: expect.any(String), ...owned }]);
    expect((await daemon('GET', `/api/memory/${output.id}`)).body).toMatchObject({
      content: 'Chose the red door.',
      type: 'decision',
      tags: 'house,paint',
    });
  });

  verifies('mcp.memory_store.tags.prefix', async () => {
    const server = await startCallbackServer(() => ({
      id: '1',
      content: 'Chose the red door.',
      type: 'fact',
      importance: 0.5,
      tags: 'house,paint',
    }));
    const store = createMemoryTools(createDaemonClient({ baseUrl: server.origin })).find(({ name }) => name === 'memory_store');
    const context = { sessionKey: 's', sessionId: 'ses_1', agent: 'default', project: '', daemonUrl: server.origin, callKey: 'c' };
    const input = { content: 'Chose the red door.', tags: 'house,paint' };
    // The answer of this stand-in is shorter than the daemon's; what was sent is what counts here.
    await store?.execute(input, { ...context, signal: AbortSignal.timeout(10_000), progress: () => {} }).catch(() => undefined);
    await server.close();
    expect(server.requests).toMatchObject([
      { method: 'POST', path: '/api/memory/remember', body: { content: '[house,paint]: Chose the red door.' } },
    ]);
  });
});

describe('memory_get', () => {
  verifies(['mcp.memory_get.id', 'mcp.memory_get.fields', 'mcp.memory_get.timestamps', 'mcp.memory_get.history'], async () => {
    expect(await tool('memory_get', {})).toMatchObject(refused);
    expect(await tool('memory_get', { id: 'nowhere' })).toMatchObject({ isError: true, error: { code: 'memory_not_found' } });
    const id = await remember({ content: 'The attic leaks.', type: 'fact', importance: 0.4, tags: 'house' });
    await daemon('PATCH', `/api/memory/${id}`, { content: 'The attic leaked.', reason: 'the roof was mended' });

    const { output } = await tool('memory_get', { id });
    expect(output).toMatchObject({ id, content: 'The attic leaked.', type: 'fact', importance: 0.4, tags: 'house' });
    expect([output.created_at, output.updated_at]).toEqual([expect.stringMatching(TIMESTAMP), expect.stringMatching(TIMESTAMP)]);
    expect(output.history).toMatchObject([
      { event: 'created', version: 1 },
      { event: 'updated', version: 2, reason: 'the roof was mended', oldContent: 'The attic leaks.', newContent: 'The attic leaked.' },
    ]);
  });
});

describe('memory_modify', () => {
  verifies(['mcp.memory_modify.id', 'mcp.memory_modify.reason'], async () => {
    const id = await remember({ content: 'The cat sleeps on the stove.' });
    expect(await tool('memory_modify', { reason: 'because', content: 'x' })).toMatchObject(refused);
    expect(await tool('memory_modify', { id, content: 'x' })).toMatchObject(refused);
    expect(await tool('memory_modify', { id: 'nowhere', reason: 'because', content: 'x' })).toMatchObject({ isError: true });
    await tool('memory_modify', { id, reason: 'it moved', content: 'The cat sleeps on the chair.' });
    expect((await daemon('GET', `/api/memory/${id}`)).body.history.at(-1)).toMatchObject({ event: 'updated', reason: 'it moved' });
  });

  verifies(
    [
      'mcp.memory_modify.content',
      'mcp.memory_modify.type',
      'mcp.memory_modify.importance',
      'mcp.memory_modify.tags',
      'mcp.memory_modify.keeps',
      'mcp.memory_modify.result',
    ],
    async () => {
      const first = { content: 'The dog barks at trains.', type: 'fact', importance: 0.6, tags: 'dog,noise' };
      const id = await remember(first);
      const changes = [{ content: 'The dog barks at buses.' }, { type: 'observation' }, { importance: 0 }, { tags: 'dog,bus' }];
      let expected: Record<string, unknown> = { ...first };
      for (const change of changes) {
        expected = { ...expected, ...change };
        const { output, isError } = await tool('memory_modify', { id, reason: 'heard again', ...change });
        expect([isError, output]).toEqual([false, expect.objectContaining({ id, ...expected })]);
        expect((await daemon('GET', `/api/memory/${id}`)).body).toMatchObject(expected);
      }
    },
  );
});

describe('memory_forget', () => {
  verifies(['mcp.memory_forget.id', 'mcp.memory_forget.reason', 'mcp.memory_forget.soft', 'mcp.memory_forget.result'], async () => {
    const id = await remember({ content: 'The duck pond is frozen.' });
    expect(await tool('memory_forget', { reason: 'because' })).toMatchObject(refused);
    expect(await tool('memory_forget', { id })).toMatchObject(refused);
    expect(await tool('memory_forget', { id: 'nowhere', reason: 'because' })).toMatchObject({ isError: true });
    expect((await tool('memory_get', { id })).output).toMatchObject({ content: 'The duck pond is frozen.' });

    expect(await tool('memory_forget', { id, reason: 'it thawed' })).toMatchObject({ isError: false, output: { id, status: 'deleted' } });
    expect(await recallIds('duck pond')).toEqual([]);
    expect(stored('SELECT content, deleted_at IS NOT NULL AS forgotten FROM memories WHERE id = ?', id)).toEqual({
      ...{ content: 'The duck pond is frozen.', forgotten: 1 },
    });
    expect(stored("SELECT reason FROM memory_history WHERE memory_id = ? AND event = 'deleted'", id)).toEqual({ reason: 'it thawed' });
  });
});
