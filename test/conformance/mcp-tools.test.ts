import { afterAll, beforeAll, describe, expect } from 'vitest';
import { startEmbedder } from '../helpers/embedder.ts';
import { connectHttp, type McpConnection } from '../helpers/mcp-connection.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { call, hooksOf } from './calls.ts';
import { verifies } from './verifies.ts';

const POLL = { timeout: 20_000 };
const TOOLS = [
  'memory_search',
  'memory_store',
  'memory_get',
  'memory_list',
  'memory_modify',
  'memory_forget',
  'memory_feedback',
  'agent_peers',
  'agent_message_send',
  'agent_message_inbox',
  'session_bypass',
  'secret_list',
  'secret_exec',
];

let signet: Signet;
let mcp: McpConnection;
beforeAll(async () => {
  signet = await startSignet();
  mcp = await connectHttp(signet.daemonUrl);
});
afterAll(async () => {
  await mcp.close();
  await signet.close();
});

const daemon = (method: string, path: string, body?: unknown) => call(method, signet.daemonUrl + path, body);
const store = async (content: string, more: Record<string, unknown> = {}): Promise<string> =>
  (await mcp.call('memory_store', { content, ...more })).id;
const rating = (id: string, sessionKey: string) => daemon('POST', '/api/memory/feedback', { sessionKey, feedback: { [id]: 1 } });

verifies('mcp.tools.list', async () => {
  const { tools } = await mcp.client.listTools();
  expect(tools.map(({ name }) => name).slice(0, TOOLS.length)).toEqual(TOOLS);
  for (const tool of tools) {
    expect(tool.inputSchema.type).toBe('object');
    expect(tool.outputSchema?.type).toBe('object');
    expect(tool.description).not.toBe('');
    expect(Object.keys(tool.annotations ?? {})).toEqual(expect.arrayContaining(['readOnlyHint', 'destructiveHint', 'idempotentHint']));
    for (const [name, property] of Object.entries(tool.inputSchema.properties ?? {}))
      expect([tool.name, name, property]).toEqual([tool.name, name, expect.objectContaining({ description: expect.any(String) })]);
  }
  const send = tools.find(({ name }) => name === 'agent_message_send')!;
  expect(Object.keys(send.inputSchema.properties!)).toEqual([
    'content',
    'from_agent_id',
    'from_session_key',
    'to_agent_id',
    'to_session_key',
    'broadcast',
    'type',
    'via',
    'acp_base_url',
    'acp_target_agent_name',
    'acp_timeout_ms',
  ]);
  expect(send.inputSchema.required).toEqual(['content']);
});

verifies('mcp.tools.daemon-api', async () => {
  const id = await store('The ferry leaves at seven.', { importance: 0.9, tags: 'travel,ferry' });
  const direct = (await daemon('GET', `/api/memory/${id}`)).body;
  expect(await mcp.call('memory_get', { id })).toEqual(direct);
  const recalled = (await daemon('POST', '/api/memory/recall', { query: 'ferry seven' })).body;
  const searched = await mcp.call('memory_search', { query: 'ferry seven' });
  expect(searched.results.map((memory: { id: string; score: number }) => [memory.id, memory.score])).toEqual(
    recalled.results.map((memory: { id: string; score: number }) => [memory.id, memory.score]),
  );
  const refusal = (await daemon('GET', '/api/memory/nowhere')).body;
  expect(await mcp.refusal('memory_get', { id: 'nowhere' })).toBe(`memory_get failed: ${refusal.detail} (memory_not_found)`);
});

verifies(['mcp.memory_search.hybrid', 'mcp.memory_search.ranked'], async () => {
  const embedder = await startEmbedder();
  const yaml = `embedding: { provider: openai-compatible, baseUrl: "${embedder.url}", timeoutMs: 10000 }\n`;
  const own = await startSignet({ yaml });
  try {
    const there = await connectHttp(own.daemonUrl);
    const vector = (await there.call('memory_store', { content: 'Maya orders oolong every morning' })).id;
    const words = (await there.call('memory_store', { content: 'Which beverage the guests want is asked at noon' })).id;
    await there.call('memory_store', { content: 'The sedan needs new tyres' });
    await expect.poll(async () => (await call('GET', `${own.daemonUrl}/api/status`)).body.embedding.vectors, POLL).toBe(3);
    const { results, method } = await there.call('memory_search', { query: 'which beverage?' });
    expect(method).toBe('hybrid');
    expect(results.map(({ id }: { id: string }) => id)).toEqual(expect.arrayContaining([vector, words]));
    const scores = results.map(({ score }: { score: number }) => score);
    expect(scores).toEqual([...scores].sort((a, b) => b - a));
    await there.close();
  } finally {
    await own.close();
  }
});

describe('memory_list', () => {
  verifies(['mcp.memory_list.limit', 'mcp.memory_list.offset', 'mcp.memory_list.type', 'mcp.memory_list.result'], async () => {
    const own = await startSignet();
    try {
      const there = await connectHttp(own.daemonUrl);
      const ids: string[] = [];
      for (let n = 0; n < 105; n += 1) {
        const type = n % 50 === 0 ? 'decision' : 'fact';
        ids.unshift((await there.call('memory_store', { content: `Lantern number ${n} hangs at gate ${n}.`, type })).id);
      }
      const listed = async (input: object) => (await there.call('memory_list', { ...input })).memories.map(({ id }: { id: string }) => id);
      const all = await listed({ limit: 1_000 });
      expect([...all].sort()).toEqual([...ids].sort());
      expect(await listed({})).toEqual(all.slice(0, 100));
      expect(await listed({ limit: 2, offset: 3 })).toEqual(all.slice(3, 5));
      const decisions = (await there.call('memory_list', { type: 'decision' })).memories;
      expect(decisions.map(({ type, importance, tags }: Record<string, unknown>) => [type, importance, tags])).toEqual(
        Array(3).fill(['decision', 0.5, null]),
      );
      await there.close();
    } finally {
      await own.close();
    }
  });
});

verifies('runtime.tool.same-as-mcp', 'they take the same fields, find and change the same memories', async () => {
  const NAMES = ['memory_search', 'memory_store', 'memory_get', 'memory_modify', 'memory_forget', 'secret_list', 'secret_exec'];
  interface Schema {
    readonly properties: Readonly<Record<string, { readonly type: string }>>;
    readonly required?: readonly string[];
  }
  const shapeOf = (name: string, { properties, required }: Schema) => {
    const fields = Object.entries(properties).map(([field, { type }]) => `${field}: ${type}`);
    return { name, fields: fields.sort(), required: [...(required ?? [])].sort() };
  };
  const { tools } = (await call('GET', `${signet.runtimeUrl}/tools`)).body as { tools: { name: string; inputSchema: Schema }[] };
  const offered = (await mcp.client.listTools()).tools.filter(({ name }) => NAMES.includes(name));
  expect(offered).toHaveLength(NAMES.length);
  for (const { name, inputSchema } of offered) {
    const own = tools.find((tool) => tool.name === name);
    expect(shapeOf(name, own!.inputSchema)).toEqual(shapeOf(name, inputSchema as unknown as Schema));
  }

  const run = async (name: string, input: object) => (await call('POST', `${signet.runtimeUrl}/tools/${name}`, { input })).body;
  const value = async (name: string, input: object) => (await run(name, input)).output;
  // The tools of the runtime are code of their own: each field is tried there too.
  const full = { content: 'The lock keeper is off on Sundays.', type: 'decision', importance: 0.25, tags: 'lock,week' };
  const stored = await value('memory_store', full);
  expect(await mcp.call('memory_get', { id: stored.id })).toMatchObject(full);
  expect(await mcp.call('memory_get', { id: stored.id })).toMatchObject(await value('memory_get', { id: stored.id }));
  await value('memory_store', { content: 'The lock keeper fishes on Sundays.', type: 'fact' });
  const search = { query: 'lock keeper Sundays' };
  const idsOf = (results: { id: string }[]) => results.map(({ id: one }) => one);
  for (const more of [{}, { limit: 1 }, { type: 'decision' }, { min_score: 0.99 }]) {
    const there = (await mcp.call('memory_search', { ...search, ...more })).results;
    expect(idsOf(await value('memory_search', { ...search, ...more })), JSON.stringify(more)).toEqual(idsOf(there));
  }
  expect(await value('memory_search', { ...search, limit: 1 })).toHaveLength(1);
  expect(await value('memory_search', { ...search, type: 'decision' })).toMatchObject([{ id: stored.id }]);
  await value('memory_modify', { id: stored.id, reason: 'asked', importance: 0, tags: 'week', type: 'fact' });
  expect(await mcp.call('memory_get', { id: stored.id })).toMatchObject({
    content: full.content,
    importance: 0,
    tags: 'week',
    type: 'fact',
  });
  for (const [name, input] of [
    ['memory_search', {}],
    ['memory_store', {}],
    ['memory_store', { content: 'x', importance: 2 }],
    ['memory_get', {}],
    ['memory_modify', { id: stored.id }],
    ['memory_forget', { id: stored.id }],
    ['memory_get', { id: 'mem_nobody' }],
  ] as const) {
    expect([name, input, (await run(name, input)).isError]).toEqual([name, input, true]);
  }

  const { id } = await value('memory_store', { content: 'The harbour crane is orange.', tags: 'harbour' });
  const [found] = await value('memory_search', { query: 'harbour crane' });
  expect((await mcp.call('memory_search', { query: 'harbour crane' })).results[0]).toEqual(found);
  expect(await mcp.call('memory_get', { id })).toMatchObject({ id, content: 'The harbour crane is orange.', tags: 'harbour' });
  await mcp.call('memory_modify', { id, reason: 'painted', content: 'The harbour crane is green.' });
  expect(await value('memory_get', { id })).toMatchObject({ content: 'The harbour crane is green.' });
  await value('memory_forget', { id, reason: 'sold' });
  expect(await mcp.refusal('memory_get', { id })).toContain('(memory_not_found)');
});

verifies('mcp.memory_forget.hidden', async () => {
  const id = await store('The cellar key hangs behind the clock.');
  await mcp.call('memory_forget', { id, reason: 'moved' });
  const { results } = await mcp.call('memory_search', { query: 'cellar key clock' });
  expect(results.map((memory: { id: string }) => memory.id)).not.toContain(id);
  const { memories } = await mcp.call('memory_list', { limit: 1_000 });
  expect(memories.map((memory: { id: string }) => memory.id)).not.toContain(id);
  expect(await mcp.refusal('memory_get', { id })).toContain('(memory_not_found)');
});

describe('memory_feedback', () => {
  const rated = (id: string, sessionKey: string) => ({ session_key: sessionKey, ratings: { [id]: 0.5 } });

  verifies(['mcp.memory_feedback.session_key', 'mcp.memory_feedback.ratings', 'mcp.memory_feedback.range'], async () => {
    const id = await store('The bridge is closed on Mondays.');
    expect(await mcp.refusal('memory_feedback', { ratings: { [id]: 1 } })).toContain('session_key is required');
    expect(await mcp.refusal('memory_feedback', { session_key: 'fb' })).toContain('ratings is required');
    for (const score of [1.01, -1.01]) {
      const text = await mcp.refusal('memory_feedback', { session_key: 'fb', ratings: { [id]: score } });
      expect(text).toContain(`ratings.${id}`);
    }
  });

  verifies('mcp.memory_feedback.embedded-json', async () => {
    const ids = [await store('The lighthouse lamp is lit at dusk.'), await store('The lighthouse keeper is called Enn.')];
    const hook = hooksOf(signet.daemonUrl);
    const said = (json: string) => ({
      sessionKey: 'fb-text',
      userMessage: 'go on',
      lastAssistantMessage: `Lit.\n\`\`\`json\n${json}\n\`\`\``,
    });
    const wrong = { [ids[1]!]: 7, nobody: 1 };
    for (const feedback of [
      `{"memory_feedback": {"${ids[1]}": 1`,
      `{"memory_feedback": {${ids[1]}: 1}}`,
      JSON.stringify({ memory_feedback: wrong }),
    ])
      expect(await hook('user-prompt-submit', said(feedback))).toMatchObject({ inject: expect.any(String) });
    await hook('user-prompt-submit', said(JSON.stringify({ memory_feedback: { [ids[0]!]: -0.5 } })));
    expect(await Promise.all(ids.map(storedRatings))).toEqual([[{ session_key: 'fb-text', rating: -0.5 }], []]);
  });

  verifies(['mcp.memory_feedback.zero', 'mcp.memory_feedback.immediate', 'mcp.memory_feedback.result'], async () => {
    const id = await store('The bakery sells rye on Fridays.');
    expect(await mcp.call('memory_feedback', { session_key: 'fb-1', ratings: { [id]: 0, unknown: 1 } })).toEqual({ ok: true, recorded: 1 });
    expect(await storedRatings(id)).toEqual([{ session_key: 'fb-1', rating: 0 }]);
    await mcp.call('memory_feedback', rated(id, 'fb-2'));
    expect(await storedRatings(id)).toContainEqual({ session_key: 'fb-2', rating: 0.5 });
    expect((await rating(id, 'fb-3')).body).toMatchObject({ ok: true, recorded: 1 });
  });

  async function storedRatings(id: string) {
    const { DatabaseSync } = await import('node:sqlite');
    const db = new DatabaseSync(`${signet.folder}/data/memory.db`, { readOnly: true });
    const rows = db.prepare('SELECT session_key, rating FROM memory_feedback WHERE memory_id = ? ORDER BY session_key').all(id);
    db.close();
    return rows.map((row) => ({ ...row }));
  }
});

verifies(
  [
    'mcp.session_bypass.session_key',
    'mcp.session_bypass.enabled',
    'mcp.session_bypass.result',
    'mcp.session_bypass.endpoint',
    'mcp.beside-hooks',
    'hooks.bypass.tools-work',
  ],
  async () => {
    const hook = hooksOf(signet.daemonUrl);
    await hook('session-start', { sessionKey: 'both' });
    await store('The tower clock is late.');
    expect(await mcp.refusal('session_bypass', { enabled: true })).toContain('session_key is required');
    expect(await mcp.refusal('session_bypass', { session_key: 'both' })).toContain('enabled is required');
    expect(await mcp.refusal('session_bypass', { session_key: 'never', enabled: true })).toContain('(session_not_found)');

    expect(await mcp.call('session_bypass', { session_key: 'both', enabled: true })).toEqual({ key: 'both', bypassed: true });
    expect(await hook('user-prompt-submit', { sessionKey: 'both', userMessage: 'tower clock' })).toMatchObject({ bypassed: true });
    expect((await mcp.call('memory_search', { query: 'tower clock' })).count).toBe(1);
    const stored = await store('The tower bell is silent.');
    expect((await mcp.call('memory_search', { query: 'tower bell' })).results[0].id).toBe(stored);

    expect(await mcp.call('session_bypass', { session_key: 'both', enabled: false })).toEqual({ key: 'both', bypassed: false });
    expect(await hook('user-prompt-submit', { sessionKey: 'both', userMessage: 'tower clock' })).not.toMatchObject({ bypassed: true });
  },
);
