import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { EmbeddingConfig } from '../../src/contract/embedding-config.ts';
import { EmbeddingConfig as Schema } from '../../src/contract/embedding-config.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { type MemoryDraft, scopeOf } from '../../src/core/memory-store.ts';
import { createMeaning } from '../../src/daemon/memory-meaning.ts';
import { createEmbedder } from '../../src/providers/embedder.ts';
import { openMemoryStores } from '../../src/store/memory-store.ts';
import { hooksOf } from '../conformance/calls.ts';
import { verifies } from '../conformance/verifies.ts';
import { START_MS, tempFolder } from '../helpers/daemon-fixture.ts';
import { startEmbedder } from '../helpers/embedder.ts';
import { startSignet } from '../helpers/signet.ts';

const POLL_MS = 20;
const DEADLINE_MS = 20_000;

function draft(content: string, more: Partial<MemoryDraft> = {}): MemoryDraft {
  const base = { type: 'fact', importance: 0.5, tags: [], pinned: false, who: 'test', sourceType: 'manual' };
  return { ...base, content, agentId: 'default', scope: 'global', ...more };
}

async function open(config: Partial<EmbeddingConfig> = {}, folder = tempFolder()) {
  const embedder = await startEmbedder();
  const clock = { ms: START_MS, now: () => clock.ms };
  const stores = openMemoryStores(join(folder, 'memory.db'), clock);
  const parsed = Schema.parse({ provider: 'openai-compatible', baseUrl: embedder.url, timeoutMs: 200, ...config });
  const deps = { memories: stores.memories, vectors: stores.vectors, clock, log: silentLogger, timeoutMs: parsed.timeoutMs };
  const meaning = createMeaning({ ...deps, embedder: createEmbedder(parsed, {}) });
  onTestFinished(async () => {
    await meaning.stop();
    stores.close();
  });
  return { ...stores, memories: meaning.memories, meaning, embedder, clock };
}

async function until(done: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + DEADLINE_MS; !(await done()); ) {
    if (performance.now() > end) throw new Error('it did not come to pass');
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

const reader = scopeOf(null);
const ask = { text: 'which beverage?', limit: 5 };

for (const provider of ['openai-compatible', 'ollama'] as const) {
  test(`${provider}: what means the same is found without a word in common, once its vector is there`, async () => {
    const { memories, meaning, vectors } = await open({ provider });
    await memories.remember(draft('Maya orders oolong every morning'));
    await memories.remember(draft('the sedan needs new tyres'));
    expect((await memories.recall(reader, ask)).results).toEqual([]);
    meaning.start();
    await until(async () => (await vectors.count()) === 2);
    const found = await memories.recall(reader, ask);
    expect(found).toMatchObject({ method: 'hybrid', strong: true });
    expect(found.results[0]).toMatchObject({ content: 'Maya orders oolong every morning', source: 'vector' });
    expect(await meaning.status()).toMatchObject({ provider, state: 'ready', vectors: 2 });
  });
}

test.each(['down', 'slow', 'short', 'nonsense', 'flat', 'endless'] as const)(
  'an embedder that is %s means words alone, with the reason, never an error',
  async (mood) => {
    const { memories, embedder } = await open({ dimensions: 4 });
    await memories.remember(draft('the beverage list is on the fridge'));
    embedder.mood = mood;
    const found = await memories.recall(reader, ask);
    expect(found).toMatchObject({ method: 'keyword', degraded: expect.stringContaining('the embedder failed: ') });
    expect(found.results.map((memory) => memory.content)).toEqual(['the beverage list is on the fridge']);
  },
);

test('vectors of another length than those that are kept count as a fault, also after a restart', async () => {
  const folder = tempFolder();
  const first = await open({}, folder);
  await first.memories.remember(draft('the beverage list is on the fridge'));
  first.meaning.start();
  await until(async () => (await first.vectors.count()) === 1);
  expect(await first.memories.recall(reader, ask)).toMatchObject({ method: 'hybrid' });
  const { memories, embedder } = await open({}, folder);
  embedder.mood = 'short';
  expect(await memories.recall(reader, ask)).toMatchObject({
    method: 'keyword',
    degraded: expect.stringContaining('answered with 2 numbers, and the vectors of memories have 4'),
  });
  embedder.mood = 'ok';
  expect(await memories.recall(reader, ask)).not.toHaveProperty('degraded');
});

test('the prompt hook says like recall that it went by words alone', async () => {
  const embedder = await startEmbedder();
  embedder.mood = 'down';
  const signet = await startSignet({ yaml: `embedding: { provider: openai-compatible, baseUrl: '${embedder.url}' }\n` });
  onTestFinished(() => signet.close());
  const hook = hooksOf(signet.daemonUrl);
  const asked = { sessionKey: 'k', prompt: 'which beverage list?' };
  expect(await hook('user-prompt-submit', asked)).toMatchObject({ degraded: expect.stringContaining('the embedder failed') });
  embedder.mood = 'ok';
  expect(await hook('user-prompt-submit', asked)).not.toHaveProperty('degraded');
});

test('an embedder that fails three times is left alone for half a minute', async () => {
  const { memories, embedder, clock, meaning } = await open();
  await memories.remember(draft('the beverage list is on the fridge'));
  embedder.mood = 'down';
  for (let call = 0; call < 3; call += 1) await memories.recall(reader, ask);
  embedder.mood = 'ok';
  const asked = embedder.texts.length;
  expect(await memories.recall(reader, ask)).toMatchObject({ method: 'keyword', degraded: expect.stringContaining('left alone') });
  expect(await meaning.status()).toMatchObject({ state: 'failing' });
  expect(embedder.texts.length).toBe(asked);
  clock.ms += 30_000;
  expect(await memories.recall(reader, ask)).toMatchObject({ method: 'hybrid' });
});

test('a changed memory gets a new vector; a text the embedder refuses holds up no other', async () => {
  const { memories, meaning, vectors, embedder } = await open();
  const { memory } = await memories.remember(draft('oolong'));
  meaning.start();
  await until(async () => (await vectors.count()) === 1);
  expect((await memories.recall(reader, ask)).results).toHaveLength(1);
  embedder.mood = 'refusing';
  await memories.remember(draft('poison in the brew'));
  await memories.change(reader, memory.id, { content: 'a sedan' }, { reason: 'wrong', changedBy: 'test' });
  await until(async () => (await vectors.missing({ provider: 'openai-compatible', model: 'nomic-embed-text' }, 10)).length === 0);
  const [best] = (await memories.recall(reader, { text: 'vehicle', limit: 5 })).results;
  expect(best?.content).toBe('a sedan');
});

test('vectors of another model count as missing', async () => {
  const folder = tempFolder();
  const first = await open({ model: 'one' }, folder);
  await first.memories.remember(draft('oolong'));
  first.meaning.start();
  await until(async () => (await first.vectors.count()) === 1);
  expect(await first.vectors.missing({ provider: 'openai-compatible', model: 'two' }, 10)).toHaveLength(1);
  expect(
    await first.vectors.nearest(reader, { provider: 'openai-compatible', model: 'two', dimensions: 4, vector: [1, 0, 0, 0] }, {}),
  ).toEqual([]);
});

verifies('agents.search.vector-scope', async () => {
  const { memories, meaning, vectors } = await open();
  await memories.remember(draft('Rose likes oolong', { agentId: 'rose', scope: 'private' }));
  const forgotten = await memories.remember(draft('matcha is gone'));
  await memories.remember(draft('tea for all', { project: '/a' }));
  meaning.start();
  await until(async () => (await vectors.count()) === 3);
  await memories.forget(reader, forgotten.memory.id, { reason: 'gone', changedBy: 'test' });
  const contents = async (agent: string | null, filter = {}) =>
    (await memories.recall(scopeOf(agent), { ...ask, filter })).results.map((memory) => memory.content).sort();
  expect(await contents('rose')).toEqual(['Rose likes oolong', 'tea for all']);
  expect(await contents('miles')).toEqual(['tea for all']);
  expect(await contents(null)).toEqual(['tea for all']);
  expect(await contents('rose', { project: '/b' })).toEqual([]);
});

test('no embedder is a way of its own: words alone, nothing degraded', async () => {
  const { memories } = await open({ provider: 'none' });
  await memories.remember(draft('the beverage list'));
  const found = await memories.recall(reader, ask);
  expect(found.method).toBe('keyword');
  expect(found.degraded).toBeUndefined();
});

test('openai-compatible without an address is refused by name', () => {
  expect(Schema.safeParse({ provider: 'openai-compatible' }).error?.issues).toMatchObject([{ path: ['baseUrl'] }]);
  expect(Schema.parse({})).toMatchObject({ provider: 'none', timeoutMs: 800 });
});

test('openai without an address is OpenAI, with the key of agent.yaml or of the environment', async () => {
  const parsed = Schema.parse({ provider: 'openai', api_key: 'sk-test' });
  expect(createEmbedder(parsed, {})).toMatchObject({ provider: 'openai-compatible', model: 'text-embedding-3-small' });
  expect(createEmbedder({ ...parsed, model: 'text-embedding-3-large' }, {})).toMatchObject({ model: 'text-embedding-3-large' });
  expect(Schema.safeParse({ provider: 'openai-compatible' }).error?.issues[0]?.path).toEqual(['baseUrl']);
});

test('the key of agent.yaml goes with the request; a variable that is named goes first', async () => {
  const server = await startEmbedder();
  const config = { provider: 'openai', baseUrl: server.url, api_key: 'from-yaml' };
  const ask = (more: object, env: Record<string, string>) =>
    createEmbedder(Schema.parse({ ...config, ...more }), env)!.embed(['tea'], {
      signal: AbortSignal.timeout(DEADLINE_MS),
      timeoutMs: DEADLINE_MS,
    });
  await ask({}, { OPENAI_API_KEY: 'not for others' });
  expect(server.keys.at(-1)).toBe('Bearer from-yaml');
  await ask({ apiKeyEnv: 'MY_KEY' }, { MY_KEY: 'from-env' });
  expect(server.keys.at(-1)).toBe('Bearer from-env');
  await ask({ api_key: undefined }, { OPENAI_API_KEY: 'not for others' });
  expect(server.keys.at(-1)).toBeUndefined();
});
