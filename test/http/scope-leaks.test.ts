import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, call } from '../conformance/calls.ts';
import { verifies } from '../conformance/verifies.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { openSse } from '../helpers/sse-client.ts';

/** Everybody who owns memories, with what the roster says of them; `frank` is in no roster, `default` owns what nobody owns. */
const POLICIES = {
  alma: {},
  bruno: { read_policy: 'isolated' },
  carol: { read_policy: 'group', policy_group: 'harbour' },
  dave: { read_policy: 'group', policy_group: 'harbour' },
  erin: { policy_group: 'harbour' },
  gina: { read_policy: 'group' },
  hugo: { read_policy: 'shared' },
} as const;
const OWNERS = [...Object.keys(POLICIES), 'frank', 'default'];
const LONG = { timeout: 30_000 };
/** Null names no agent. */
const READERS = [...OWNERS, null];
const KINDS = ['global', 'private', 'archived', 'forgotten'] as const;
type Kind = (typeof KINDS)[number];

interface Planted {
  readonly owner: string;
  readonly kind: Kind;
  readonly token: string;
  readonly id: string;
}

/** The rule in its plainest words, kept apart from the code that is tested. */
function maySee(reader: string | null, { owner, kind }: Planted): boolean {
  if (kind === 'private') return reader === owner;
  if (kind !== 'global') return false;
  if (reader === owner) return true;
  if (reader === 'bruno' || reader === 'gina') return false;
  if (reader === 'carol' || reader === 'dave') return ['carol', 'dave', 'erin'].includes(owner);
  return true;
}

/** Hides in no other word, and survives every way in which text is shown. */
const tokenOf = (owner: string, kind: string): string => `zq${owner}${kind}`;

interface Calls {
  get(path: string): Promise<Answer>;
  post(path: string, body: object, headers?: Record<string, string>): Promise<Answer>;
  call(method: string, path: string, body?: object): Promise<Answer>;
}

const callsOf = ({ daemonUrl }: Signet): Calls => ({
  get: (path) => call('GET', daemonUrl + path),
  post: (path, body, headers) => call('POST', daemonUrl + path, body, headers),
  call: (method, path, body) => call(method, daemonUrl + path, body),
});
const yamlOf = (roster: readonly object[]): string => JSON.stringify({ agents: { roster } });

let signet: Signet;
let daemon: Calls;
let planted: Planted[];

beforeAll(async () => {
  signet = await startSignet({ yaml: yamlOf(Object.entries(POLICIES).map(([name, policy]) => ({ name, ...policy }))) });
  writeFileSync(join(signet.folder, 'MEMORY.md'), 'zqsynthesis of all.');
  daemon = callsOf(signet);
  planted = await plant();
});
afterAll(() => signet.close());

async function plant(): Promise<Planted[]> {
  const made: Planted[] = [];
  for (const owner of OWNERS) {
    for (const kind of KINDS) {
      const token = tokenOf(owner, kind);
      const content = `The lantern of the ${token} burns in the lighthouse.`;
      const scope = kind === 'private' || kind === 'archived' ? 'private' : 'global';
      const fields = { content, who: `who${token}`, agentId: owner, scope, importance: 0.95, type: 'fact' };
      const { body } = await daemon.post('/api/memory/remember', fields);
      made.push({ owner, kind, token, id: body.id });
      if (kind === 'forgotten') await daemon.call('DELETE', `/api/memory/${body.id}`, { reason: 'test', agentId: owner });
    }
  }
  return archive(made);
}

/** Agents are archived as a whole: these memories come back as an export says it. */
async function archive(made: readonly Planted[]): Promise<Planted[]> {
  const { body } = await daemon.get('/api/memories/export?all=1');
  const lines = String(body)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const archived = new Set(made.filter(({ kind }) => kind === 'archived').map(({ id }) => id));
  const memories = lines.filter(({ id }) => archived.has(id)).map((record) => ({ ...record, scope: 'archived' }));
  const answer = await daemon.post('/api/memories/import', { memories, conflict: 'overwrite' });
  expect(answer.body).toMatchObject({ overwritten: OWNERS.length });
  return [...made];
}

const inBody = (reader: string | null) => (reader === null ? {} : { agentId: reader });
const inQuery = (reader: string | null) => (reader === null ? '' : `&agentId=${reader}`);
const headerOf = (reader: string | null): Record<string, string> => (reader === null ? {} : { 'x-signet-agent-id': reader });
const hook = (name: string, reader: string | null, body: object) =>
  daemon.post(`/api/hooks/${name}`, { harness: 'test', ...inBody(reader), ...body });
const newKey = (): string => `session-${randomUUID()}`;

/** Every way to read, each answered with all there is for the reader. */
const PATHS: Readonly<Record<string, (reader: string | null) => Promise<Answer>>> = {
  recall: (reader) => daemon.post('/api/memory/recall', { query: 'lantern lighthouse', limit: 100, ...inBody(reader) }),
  'recall with an explanation': (reader) =>
    daemon.post('/api/memory/recall', { query: 'lantern lighthouse', limit: 100, explain: true, ...inBody(reader) }),
  'recall by header': (reader) => daemon.post('/api/memory/recall', { query: 'lantern', limit: 100 }, headerOf(reader)),
  search: (reader) => daemon.get(`/api/memory/search?q=lantern&limit=100${inQuery(reader)}`),
  'older search': (reader) => daemon.get(`/memory/search?q=lantern&limit=100${inQuery(reader)}`),
  'older search without a question': (reader) => daemon.get(`/memory/search?limit=100${inQuery(reader)}`),
  authors: (reader) => daemon.get(`/memory/search?distinct=who${inQuery(reader)}`),
  list: (reader) => daemon.get(`/api/memories?limit=1000${inQuery(reader)}`),
  export: (reader) => daemon.get(`/api/memories/export?limit=1000${inQuery(reader)}`),
  'preview of forgetting': (reader) =>
    daemon.post('/api/memory/forget', { query: 'lantern', limit: 100, mode: 'preview', ...inBody(reader) }),
  'hook recall': (reader) => hook('recall', reader, { query: 'lantern lighthouse', limit: 100 }),
  'hook recall by the key of a session': (reader) =>
    hook('recall', null, { query: 'lantern', limit: 100, sessionKey: reader === null ? newKey() : `agent:${reader}:${newKey()}` }),
  'MCP tool': async (reader) => {
    const args = { name: 'memory_search', arguments: { query: 'lantern', limit: 100 } };
    const headers = { ...headerOf(reader), accept: 'application/json, text/event-stream' };
    return daemon.post('/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: args }, headers);
  },
};
/** These show the best few: what must not be there is not, what else is there is a matter of ranking. */
const SHORT_PATHS: typeof PATHS = {
  'session start': (reader) => hook('session-start', reader, { sessionKey: newKey() }),
  prompt: (reader) => hook('user-prompt-submit', reader, { sessionKey: newKey(), prompt: 'Which lantern burns in the lighthouse?' }),
  'compaction hook': (reader) => hook('pre-compaction', reader, { sessionKey: newKey() }),
  summaries: (reader) => daemon.get(`/api/sessions/summaries?limit=10${inQuery(reader)}`),
  transcripts: (reader) => daemon.post('/api/sessions/search', { query: 'lantern', ...inBody(reader) }),
  'logs of the daemon': () => daemon.get('/api/logs?limit=1000'),
};

/** A memory is told by its words, its author or its id. */
const seen = (answer: Answer): string[] => {
  const text = JSON.stringify(answer.body);
  return planted.filter(({ token, id }) => text.includes(token) || text.includes(id)).map(({ token }) => token);
};
const allowed = (reader: string | null): string[] => planted.filter((memory) => maySee(reader, memory)).map(({ token }) => token);

describe.each(READERS)('%s', (reader) => {
  test.each(Object.keys(PATHS))('%s shows what it may see, and nothing else', async (path) => {
    const answer = await PATHS[path]!(reader);
    expect(answer.status).toBe(200);
    expect(seen(answer).sort()).toEqual(allowed(reader).sort());
  });

  test.each(Object.keys(SHORT_PATHS))('%s shows nothing that it may not see', async (path) => {
    const answer = await SHORT_PATHS[path]!(reader);
    expect(answer.status).toBe(200);
    expect(seen(answer).filter((token) => !allowed(reader).includes(token))).toEqual([]);
  });

  test('counts count what it may see', async () => {
    const count = allowed(reader).length;
    const { body } = await daemon.get(`/api/memories?limit=1${inQuery(reader)}`);
    expect(body).toMatchObject({ total: count, stats: { total: count, critical: count, withEmbeddings: 0 } });
    expect((await daemon.post('/api/memory/recall', { query: 'lantern', limit: 100, ...inBody(reader) })).body.count).toBe(count);
  });

  test('a memory by its id: read, history, change, rating, forgetting', async () => {
    for (const memory of planted) {
      const isSeen = maySee(reader, memory);
      const path = `/api/memory/${memory.id}`;
      const query = inQuery(reader).replace('&', '?');
      const statuses = [
        (await daemon.get(path + query)).status,
        (await daemon.get(`${path}/history${query}`)).status,
        (await daemon.get(`${path}/sources${query}`)).status,
      ];
      expect(statuses, memory.token).toEqual(isSeen ? [200, 200, 200] : [404, 404, 404]);
      const rated = await daemon.post('/api/memory/feedback', { ...inBody(reader), sessionKey: 'r', feedback: { [memory.id]: 0 } });
      expect(rated.body.recorded, memory.token).toBe(isSeen ? 1 : 0);
      // Forgotten ones can be told from those that never were by whoever could see them.
      if (isSeen || memory.kind === 'forgotten') continue;
      const change = { ...inBody(reader), reason: 'curious', content: 'mine' };
      expect((await daemon.call('PATCH', path, change)).body.code, memory.token).toBe('memory_not_found');
      expect((await daemon.call('DELETE', path, { ...inBody(reader), reason: 'curious' })).body.code).toBe('memory_not_found');
      expect((await daemon.post(`${path}/recover`, { ...inBody(reader), reason: 'curious' })).body.code).toBe('memory_not_found');
    }
  });
});

test('MEMORY.md of the workspace is made of what all remember: who may not read that does not begin with it', async () => {
  const begins = async (reader: string | null) => (await hook('session-start', reader, {})).body.inject.includes('zqsynthesis');
  for (const reader of ['alma', 'erin', 'hugo', 'frank', null]) expect(await begins(reader), String(reader)).toBe(true);
  for (const reader of ['bruno', 'carol', 'gina']) expect(await begins(reader), reader).toBe(false);
});

test('who takes the place of a memory is not told to those who may not see it', async () => {
  const older = (await daemon.post('/api/memory/remember', { content: 'The bell rings at six.', agentId: 'erin' })).body.id;
  const newer = { content: 'The bell rings at seven.', agentId: 'alma', supersedes: older };
  const { id } = (await daemon.post('/api/memory/remember', newer)).body;
  const told = async (agentId: string) =>
    JSON.stringify([
      (await daemon.get(`/api/memory/${older}?agentId=${agentId}`)).body,
      (await daemon.get(`/api/memory/${older}/history?agentId=${agentId}`)).body,
      (await daemon.post('/api/memory/recall', { query: 'bell rings', agentId, explain: true })).body,
      (await daemon.get(`/api/memories/export?agentId=${agentId}`)).body,
    ]);
  expect(await told('hugo')).toContain(id);
  expect(await told('carol')).toContain(older);
  expect(await told('carol')).not.toContain(id);
});

test('a policy takes effect when agent.yaml changes, in recall as well', async () => {
  const roster = (dot: object) => yamlOf([{ name: 'dot', ...dot }, { name: 'rose' }]);
  const other = await startSignet({ yaml: roster({}) });
  const changed = callsOf(other);
  const found = async (agentId: string) => (await changed.post('/api/memory/recall', { query: 'anchor', agentId })).body;
  try {
    for (const agentId of ['dot', 'rose']) await changed.post('/api/memory/remember', { content: `The anchor of ${agentId}.`, agentId });
    expect((await found('dot')).count).toBe(2);
    writeFileSync(join(other.folder, 'agent.yaml'), roster({ read_policy: 'isolated' }));
    await expect
      .poll(() => found('dot'), LONG)
      .toMatchObject({ count: 1, method: 'keyword', results: [{ content: 'The anchor of dot.' }] });
    expect(await found('rose')).toMatchObject({ count: 2, method: 'keyword' });
    writeFileSync(join(other.folder, 'agent.yaml'), roster({ read_policy: 'shared' }));
    await expect.poll(() => found('dot'), LONG).toMatchObject({ count: 2, method: 'keyword' });
  } finally {
    await other.close();
  }
});

test('a stream of one agent holds no signal of another one, and no memory of theirs', async () => {
  const stream = await openSse(`${signet.runtimeUrl}/events?agent=hugo&after=0`);
  try {
    for (const agent of ['alma', 'hugo']) {
      const { id } = (await call('POST', `${signet.runtimeUrl}/session`, { agent })).body;
      await call('POST', `${signet.runtimeUrl}/session/${id}/prompt`, { content: `Which lantern burns in the lighthouse, asks ${agent}?` });
    }
    await stream.until((event) => event.event === 'turn:end');
    const text = JSON.stringify(stream.frames);
    expect(text).toContain('asks hugo');
    expect(text).not.toContain('asks alma');
    const tokens = [...new Set(text.match(/zq[a-z]+(?:global|private|archived|forgotten)/g) ?? [])];
    expect(tokens).toContain('zqhugoprivate');
    expect(tokens.filter((token) => !allowed('hugo').includes(token))).toEqual([]);
  } finally {
    stream.close();
  }
});

verifies('agents.claude-code.single', async () => {
  // A harness that names no agent is the default one, whatever the roster holds.
  const inject = (await daemon.post('/api/hooks/session-start', { harness: 'claude-code', sessionKey: newKey() })).body.inject;
  expect(inject).toContain('zqsynthesis');
  const { id } = (await hook('remember', null, { harness: 'claude-code', content: 'Operators note.' })).body;
  expect((await daemon.get(`/api/memory/${id}`)).body).toMatchObject({ agentId: 'default', scope: 'global' });
});
