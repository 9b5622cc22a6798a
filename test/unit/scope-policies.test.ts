import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type PolicyEntry, readPolicies, underPolicies } from '../../src/core/agent-policy.ts';
import { type MemoryDraft, scopeOf } from '../../src/core/memory-store.ts';
import { openMemoryStores } from '../../src/store/memory-store.ts';
import { memoryMigrations } from '../../src/store/memory-store-schema.ts';
import { closeDatabase, openDatabase } from '../../src/store/sqlite.ts';
import { verifies } from '../conformance/verifies.ts';
import { START_MS, tempFolder } from '../helpers/daemon-fixture.ts';

/** More than are taken in at open: the index is behind for a moment. */
const MANY = 2_200;
const MODEL = { provider: 'test', model: 'test', dimensions: 4 };

function open(roster: readonly PolicyEntry[] = [], folder = tempFolder()) {
  const policies = readPolicies(roster);
  const stores = openMemoryStores(join(folder, 'memory.db'), { now: () => START_MS }, undefined, () => policies);
  onTestFinished(() => stores.close());
  return stores;
}

function draft(content: string, more: Partial<MemoryDraft> = {}): MemoryDraft {
  const base = { type: 'fact', importance: 0.5, tags: [], pinned: false, who: 'test', sourceType: 'manual' };
  return { ...base, content, agentId: 'default', scope: 'global', ...more };
}

describe('circles', () => {
  const circles = (roster: readonly PolicyEntry[]) => {
    const policies = readPolicies(roster);
    return Object.fromEntries(roster.map(({ name }) => [name, policies.circleOf(name)]));
  };

  test('shared sees all, isolated itself, group those of its group', () => {
    expect(
      circles([
        { name: 'a' },
        { name: 'b', read_policy: 'shared', policy_group: 'g' },
        { name: 'c', read_policy: 'isolated', policy_group: 'g' },
        { name: 'd', read_policy: 'group', policy_group: 'g' },
        { name: 'e', read_policy: 'group', policy_group: 'h' },
        { name: 'f', read_policy: 'group' },
      ]),
    ).toEqual({ a: undefined, b: undefined, c: ['c'], d: ['b', 'c', 'd'], e: ['e'], f: ['f'] });
  });

  test('who names no agent reads as the default one; without policies nothing changes', () => {
    const closed = readPolicies([{ name: 'default', read_policy: 'isolated' }]);
    expect(underPolicies(scopeOf(null), closed)).toMatchObject({ agentId: null, circle: ['default'] });
    expect(underPolicies(scopeOf('dot'), closed)).toMatchObject({ agentId: 'dot', circle: undefined, apart: ['default'] });
    expect(underPolicies(scopeOf('dot'), readPolicies([{ name: 'dot' }]))).toEqual(scopeOf('dot'));
  });
});

const CLOSED: readonly PolicyEntry[] = [{ name: 'dot', read_policy: 'isolated' }, { name: 'rose' }];

test('full text, while the index is behind, keeps to the circle as well', async () => {
  const folder = tempFolder();
  const before = open(CLOSED, folder);
  await Promise.all(Array.from({ length: MANY }, (_, n) => before.memories.remember(draft(`anchor ${n} of rose`, { agentId: 'rose' }))));
  await before.memories.remember(draft('the anchor of dot', { agentId: 'dot' }));
  const { memories } = open(CLOSED, folder);
  const query = { text: 'anchor', limit: 50 };
  const behind = await memories.recall(scopeOf('dot'), query);
  expect([behind.method, behind.results.map(({ agentId }) => agentId)]).toEqual(['fts', ['dot']]);
  await expect.poll(() => memories.indexStatus().state, { timeout: 60_000 }).toBe('ready');
  const even = await memories.recall(scopeOf('dot'), query);
  expect([even.method, even.results.map(({ agentId }) => agentId)]).toEqual(['keyword', ['dot']]);
  expect((await memories.recall(scopeOf('rose'), query)).results).toHaveLength(50);
});

test('search by meaning keeps to the circle as well', async () => {
  const { memories, vectors } = open(CLOSED);
  for (const [agentId, scope] of [
    ['rose', 'global'],
    ['rose', 'private'],
    ['dot', 'global'],
    ['dot', 'private'],
  ] as const)
    await memories.remember(draft(`${agentId} ${scope}`, { agentId, scope }));
  const missing = await vectors.missing(MODEL, 10);
  await vectors.keep(
    MODEL,
    missing.map(({ seq, contentHash }) => ({ seq, contentHash, vector: [1, 0, 0, 0] })),
  );
  const near = async (agentId: string | null) => {
    const query = { text: 'nothing of this kind', limit: 10, vector: { ...MODEL, vector: [1, 0, 0, 0] } };
    return (await memories.recall(scopeOf(agentId), query)).results.map(({ content }) => content).sort();
  };
  expect(await near('dot')).toEqual(['dot global', 'dot private']);
  expect(await near('rose')).toEqual(['dot global', 'rose global', 'rose private']);
  expect(await near(null)).toEqual(['dot global', 'rose global']);
  const counted = async (agentId: string) => (await memories.list(scopeOf(agentId), { filter: {}, limit: 1, offset: 0 })).embedded;
  expect([await counted('dot'), await counted('rose')]).toEqual([2, 3]);
});

describe('what others remember moves nothing', () => {
  const words = 'anchor harbour lantern kettle compass rope tide sail chart oar'.split(' ');
  const text = (n: number): string => `${words[n % 10]} ${words[(n * 7 + 3) % 10]} ${words[(n * 3 + 1) % 9]} number${n}`;
  const queries = ['anchor harbour', 'which lantern hangs by the kettle', 'compass and chart', 'number7'];

  test.each([
    ['private memories of other agents', [], 'private'],
    ['global memories outside of its circle', [{ name: 'agent-0', read_policy: 'isolated' }], 'global'],
  ] as const)('%s', async (_name, roster, scope) => {
    const { memories } = open(roster);
    for (let n = 0; n < 60; n += 1) await memories.remember(draft(text(n), { agentId: 'agent-0', scope: n % 2 ? 'private' : 'global' }));
    const reader = scopeOf('agent-0');
    const answers = async (): Promise<string> => {
      const recalled = await Promise.all(queries.map((query) => memories.recall(reader, { text: query, limit: 20, explain: true })));
      const page = await memories.list(reader, { filter: {}, limit: 5, offset: 0 });
      const ranked = await memories.ranked(reader, { limit: 10, recencyBias: 0.5 });
      return JSON.stringify([recalled, page, ranked, await memories.authors(reader, {})]);
    };
    const before = await answers();
    expect(before).toContain('"relevance"');
    const others: string[] = [];
    for (let agent = 1; agent <= 10; agent += 1) {
      for (let n = 0; n < 20; n += 1) {
        const more = { agentId: `agent-${agent}`, scope, who: 'anchor', importance: 1, pinned: true };
        others.push((await memories.remember(draft(text(n * agent), more))).memory.id);
      }
    }
    expect(await answers()).toBe(before);
    const note = { reason: 'test', changedBy: 'test' };
    for (const [n, id] of others.slice(0, 40).entries())
      await memories
        .change(scopeOf(`agent-${1 + Math.floor(n / 20)}`), id, { content: `harbour ${n} anchor` }, note)
        .catch(() => undefined);
    expect(await answers()).toBe(before);
  });
});

verifies('agents.schema.fts-unchanged', async () => {
  const path = join(tempFolder(), 'memory.db');
  const old = openDatabase(path, { synchronous: 'NORMAL', migrations: memoryMigrations.slice(0, 1) });
  const columns = `INSERT INTO memories (id, content, content_hash, normalized, type, importance, pinned, who, agent_id, scope, source_type, created_at, updated_at)
    VALUES (?, ?, ?, ?, 'fact', 0.5, 0, 'x', 'default', 'global', 'manual', 1, 1)`;
  for (let n = 0; n < 50; n += 1) old.prepare(columns).run(`m${n}`, `anchor number${n}`, `h${n}`, `n${n}`);
  const segments = (db: DatabaseSync) => db.prepare('SELECT id, hex(block) AS block FROM memories_fts_data ORDER BY id').all();
  const before = segments(old);
  closeDatabase(old);
  openMemoryStores(path, { now: () => START_MS }).close();
  const upgraded = new DatabaseSync(path, { readOnly: true });
  expect(segments(upgraded)).toEqual(before);
  expect(upgraded.prepare('SELECT name FROM pragma_table_info(?)').all('memories_fts')).toEqual([{ name: 'content' }]);
  upgraded.close();
});
