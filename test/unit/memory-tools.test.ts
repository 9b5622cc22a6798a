import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createInProcessTransport } from '../../src/client/in-process.ts';
import { AgentYaml } from '../../src/contract/config.ts';
import { memoryOperations } from '../../src/contract/memory.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { Call } from '../../src/core/operation-call.ts';
import type { ToolContext } from '../../src/core/tool.ts';
import { createMemoryHandlers } from '../../src/daemon/memory-handlers.ts';
import { openMemoryStores } from '../../src/store/memory-store.ts';
import { createMemoryTools } from '../../src/tools/memory-tools.ts';
import { createToolRegistry } from '../../src/tools/tool-registry.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';

/** The memory tools on a real store, and the inputs of the operations they called. */
function startTools() {
  const stores = openMemoryStores(join(tempFolder(), 'memory.db'), { now: () => Date.parse('2025-03-03T12:00:00.000Z') });
  onTestFinished(() => stores.close());
  const daemon = createInProcessTransport(memoryOperations, createMemoryHandlers({ ...stores, config: AgentYaml.parse({}) }));
  const asked: unknown[] = [];
  let calls = 0;
  const call: Call = (operation, input, options) => {
    asked.push({ [operation.id]: input });
    return daemon(operation, input, options);
  };
  const registry = createToolRegistry({ limits: { toolTimeoutMs: 60_000, toolOutputBytesMax: 65_536 }, log: silentLogger });
  for (const tool of createMemoryTools({ baseUrl: 'http://127.0.0.1:3850', call })) registry.register(tool);
  return {
    asked,
    registry,
    async run(name: string, input: object, context: Partial<ToolContext> = {}) {
      const { value, error } = await registry.run(name, input, { ...CONTEXT, callKey: `call_${++calls}`, ...context });
      return error ? { error } : { value: value as Record<string, unknown> };
    },
  };
}

const CONTEXT: ToolContext = {
  sessionKey: 'conversation',
  sessionId: 'ses_a',
  agent: 'dot',
  project: '/projects/dot/garden',
  daemonUrl: 'http://127.0.0.1:3850',
  callKey: 'call_1',
  signal: new AbortController().signal,
  progress: () => {},
};

test('five tools are built in; each may run again after a crash', () => {
  const { registry } = startTools();
  expect(registry.list().map(({ name, class: toolClass, origin, timeoutMs }) => [name, toolClass, origin, timeoutMs])).toEqual([
    ['memory_forget', 'idempotent', 'builtin', 10_000],
    ['memory_get', 'pure', 'builtin', 10_000],
    ['memory_modify', 'idempotent', 'builtin', 10_000],
    ['memory_search', 'pure', 'builtin', 10_000],
    ['memory_store', 'idempotent', 'builtin', 10_000],
  ]);
});

test('what is stored is found, in few words', async () => {
  const { run } = startTools();

  const stored = await run('memory_store', { content: 'The tomatoes want sun', type: 'fact', importance: 0.7, tags: 'garden, summer' });
  const found = await run('memory_search', { query: 'tomatoes' });

  const memory = {
    content: 'The tomatoes want sun',
    type: 'fact',
    importance: 0.7,
    tags: 'garden,summer',
    agentId: 'dot',
    scope: 'global',
    created_at: '2025-03-03T12:00:00.000Z',
  };
  expect(stored.value).toEqual({ id: expect.any(String), ...memory });
  expect(found.value).toEqual([{ id: stored.value!.id, ...memory, score: expect.any(Number) }]);
});

test('the agent, session, project and call key of the context travel with a store', async () => {
  const { run, asked } = startTools();

  await run('memory_store', { content: 'The well is dry', tags: 'water' });

  expect(asked).toEqual([
    {
      remember: {
        content: '[water]: The well is dry',
        agentId: 'dot',
        sessionKey: 'conversation',
        project: '/projects/dot/garden',
        idempotencyKey: 'call_1',
      },
    },
  ]);
});

test('a private memory is found by its own agent alone, with whose it is', async () => {
  const { run } = startTools();
  const told = { content: 'Ada earns 4,000 a month', visibility: 'private' };
  expect((await run('memory_store', told, { agent: 'dot' })).value).toMatchObject({ agentId: 'dot', scope: 'private' });
  const search = async (agent: string) => (await run('memory_search', { query: 'what does Ada earn?' }, { agent })).value;
  expect(await search('dot')).toMatchObject([{ content: told.content, agentId: 'dot', scope: 'private' }]);
  expect(await search('rose')).toEqual([]);
  expect((await run('memory_store', { ...told, visibility: 'secret' })).error?.code).toBe('invalid_request');
});

test.each([
  ['tags that would break the prefix', 'The gate squeaks', 'a]b,c', 'a]b,c'],
  ['a content that begins with a bracket', '[sic] The gate squeaks', 'gate', 'gate'],
  ['blank tags', 'The gate squeaks', ' ', null],
])('%s are kept as they are meant', async (_, content, tags, kept) => {
  const { run } = startTools();
  expect((await run('memory_store', { content, tags })).value).toMatchObject({ content, tags: kept });
});

test('the same call run again after a crash stores one memory', async () => {
  const { run } = startTools();

  const first = await run('memory_store', { content: 'Water on Mondays' });
  const again = await run('memory_store', { content: 'Water on Mondays' }, { callKey: 'call_1' });

  expect(again.value).toMatchObject({ id: first.value!.id, deduped: true });
  expect((await run('memory_search', { query: 'Mondays' })).value).toHaveLength(1);
});

test('a search keeps to limit, type and score', async () => {
  const { run } = startTools();
  await run('memory_store', { content: 'Roses like clay', type: 'fact' });
  await run('memory_store', { content: 'Roses are to be cut in March', type: 'rule' });

  expect((await run('memory_search', { query: 'roses', limit: 1 })).value).toHaveLength(1);
  expect((await run('memory_search', { query: 'roses', type: 'rule' })).value).toMatchObject([{ content: 'Roses are to be cut in March' }]);
  expect((await run('memory_search', { query: 'roses clay', min_score: 0.99 })).value).toMatchObject([{ content: 'Roses like clay' }]);
  expect((await run('memory_search', { query: 'cactus' })).value).toEqual([]);
});

test('a memory is changed with a reason that its history keeps', async () => {
  const { run } = startTools();
  const { id } = (await run('memory_store', { content: 'Compost is in the shed', importance: 0.5 })).value!;

  const changed = await run('memory_modify', { id, reason: 'It was moved', content: 'Compost is by the gate', importance: 0 });
  const again = await run('memory_modify', { id, reason: 'It was moved', content: 'Compost is by the gate', importance: 0 });

  expect(changed.value).toMatchObject({ id, content: 'Compost is by the gate', importance: 0, version: 2 });
  expect(again.value).toMatchObject({ version: 2 });
  const { history } = (await run('memory_get', { id })).value!;
  expect(history).toMatchObject([{ event: 'created' }, { event: 'updated', reason: 'It was moved', newContent: 'Compost is by the gate' }]);
});

test('a change that names no field is refused with the fields it may name', async () => {
  const { run, asked } = startTools();

  const { error } = await run('memory_modify', { id: '1', reason: 'because' });

  expect(error).toEqual({ code: 'invalid_request', message: 'nothing to change; give content, type, importance or tags' });
  expect(asked).toEqual([]);
});

test('a forgotten memory is gone, and forgetting it again is done as well', async () => {
  const { run } = startTools();
  const { id } = (await run('memory_store', { content: 'The key is under the pot' })).value!;

  expect(await run('memory_forget', { id, reason: 'Not safe' })).toEqual({ value: { id, status: 'deleted' } });
  expect(await run('memory_forget', { id, reason: 'Not safe' })).toEqual({ value: { id, status: 'deleted' } });
  expect((await run('memory_search', { query: 'key pot' })).value).toEqual([]);
});

test('faults of the daemon reach the model with their code', async () => {
  const { run } = startTools();

  expect((await run('memory_get', { id: 'nowhere' })).error?.code).toBe('memory_not_found');
  expect((await run('memory_forget', { id: 'nowhere', reason: 'r' })).error?.code).toBe('memory_not_found');
  expect((await run('memory_modify', { id: 'nowhere', reason: 'r', type: 'fact' })).error?.code).toBe('memory_not_found');
});

test('a call without a needed field never reaches the daemon', async () => {
  const { run, asked } = startTools();

  expect((await run('memory_store', {})).error?.message).toContain('/content is missing');
  expect((await run('memory_search', { query: 'x', limit: 0 })).error?.message).toContain('/limit must be >= 1');
  expect((await run('memory_store', { content: 'x', importance: 2 })).error?.message).toContain('/importance must be <= 1');
  expect(asked).toEqual([]);
});

test('an aborted call does not store', async () => {
  const { run, registry } = startTools();
  const run1 = await run('memory_store', { content: 'Never said' }, { signal: AbortSignal.abort() });
  expect(run1.error?.code).toBe('aborted');
  expect((await registry.run('memory_search', { query: 'never' }, CONTEXT)).value).toEqual([]);
});
