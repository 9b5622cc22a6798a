import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { RecalledMemory } from '../../src/contract/memory.ts';
import { type MemoryDraft, type Recalled, scopeOf } from '../../src/core/memory-store.ts';
import { packRecalled } from '../../src/daemon/inject-memories.ts';
import { type OpenedMemoryStores, openMemoryStores } from '../../src/store/memory-store.ts';
import { START_MS, tempFolder } from '../helpers/daemon-fixture.ts';

/** More than are taken in at open: the index is behind for a moment. */
const MANY = 2_500;
const DEADLINE_MS = 30_000;
const DAY_MS = 86_400_000;
const note = { reason: 'because', changedBy: 'test' };

function open(folder = tempFolder()): OpenedMemoryStores & { clock: { ms: number } } {
  const clock = { ms: START_MS, now: () => clock.ms };
  const stores = openMemoryStores(join(folder, 'memory.db'), clock);
  onTestFinished(() => stores.close());
  return { ...stores, clock };
}

function draft(content: string, more: Partial<MemoryDraft> = {}): MemoryDraft {
  const base = { type: 'fact', importance: 0.5, tags: [], pinned: false, who: 'test', sourceType: 'manual' };
  return { ...base, content, agentId: 'default', scope: 'global', ...more };
}

function recalled(id: string, content: string, score: number): RecalledMemory {
  const told = { tags: null, pinned: false, importance: 0.5, type: 'fact', who: 'test', agentId: 'default', scope: 'global' as const };
  const from = { project: null, source_type: 'manual', source_id: null, session_id: null, supersedes: null, superseded_by: null };
  const at = '2025-03-03T10:00:00.000Z';
  const kept = { version: 1, created_at: at, updated_at: at, access_count: 0 };
  return {
    ...told,
    ...from,
    ...kept,
    id,
    content,
    score,
    source: 'fts',
    content_length: content.length,
    match: 'strong',
    truncated: false,
  };
}

async function ready({ memories }: OpenedMemoryStores): Promise<void> {
  for (const end = performance.now() + DEADLINE_MS; memories.indexStatus().state !== 'ready'; ) {
    if (performance.now() > end) throw new Error('the index did not become ready');
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const contents = ({ results }: Recalled): string[] => results.map((memory) => memory.content);

describe('the index', () => {
  test('full text answers while it is built, in scope as well; then the index does, the same as before the restart', async () => {
    const folder = tempFolder();
    const before = open(folder);
    const words = 'tea coffee milk bread port host red blue green seven'.split(' ');
    const drafts = Array.from({ length: MANY }, (_, n) =>
      draft(`${words[n % 10]} ${words[(n * 7) % 9]} ${n}`, { sessionKey: `s${n % 90}` }),
    );
    await Promise.all(drafts.map((each) => before.memories.remember(each)));
    await before.memories.remember(draft('rose drinks tea in secret', { agentId: 'rose', scope: 'private' }));
    const gone = await before.memories.remember(draft('tea that was forgotten'));
    await before.memories.forget(scopeOf(null), gone.memory.id, note);
    const moved = await before.memories.remember(draft('the host is called heron'));
    await before.memories.change(scopeOf(null), moved.memory.id, { content: 'the host is called osprey' }, note);
    await ready(before);
    const queries = ['which tea is seven?', 'what is the host called', 'red bread', 'rose secret', 'tea that was forgotten'];
    const ask = (stores: OpenedMemoryStores) =>
      Promise.all(queries.map((text) => stores.memories.recall(scopeOf('miles'), { text, limit: 50, explain: true })));
    const told = await ask(before);
    expect(JSON.stringify(await ask(before))).toBe(JSON.stringify(told));
    before.close();

    const after = open(folder);
    expect(after.memories.indexStatus().state).toBe('building');
    const meanwhile = await ask(after);
    expect(meanwhile.every((answer) => answer.method === 'fts' && answer.degraded === 'the index is being built')).toBe(true);
    expect(contents(meanwhile[1]!)).toContain('the host is called osprey');
    expect(meanwhile.flatMap(contents).filter((content) => /secret|forgotten|heron/.test(content))).toEqual([]);
    expect(await after.memories.count()).toBe(MANY + 2);
    await after.memories.remember(draft('the walrus was remembered in between'));
    await ready(after);
    expect(contents(await after.memories.recall(scopeOf(null), { text: 'walrus', limit: 5 }))).toEqual([
      'the walrus was remembered in between',
    ]);
    const walrus = (await after.memories.recall(scopeOf(null), { text: 'walrus', limit: 5 })).results[0]!;
    await after.memories.forget(scopeOf(null), walrus.id, note);
    expect(JSON.stringify(await ask(after))).toBe(JSON.stringify(told));
  });

  test('a write is found at once, whoever made it, and one that failed is not', async () => {
    const { memories, transfer } = open();
    await memories.remember(draft('the heron server', { idempotencyKey: 'k' }));
    const [kept, failed] = await Promise.allSettled([
      memories.remember(draft('the osprey server')),
      memories.change(scopeOf(null), 'nobody', { content: 'the stork server' }, note),
    ]);
    expect([kept.status, failed.status]).toEqual(['fulfilled', 'rejected']);
    expect(contents(await memories.recall(scopeOf(null), { text: 'server', limit: 5 })).sort()).toEqual([
      'the heron server',
      'the osprey server',
    ]);
    const { records } = await transfer.exportPage(null, 0, 10);
    expect(records).toHaveLength(2);
  });
});

describe('answers', () => {
  test('nothing in a query is an operator', async () => {
    const { memories } = open();
    await memories.remember(draft('use C++20 and node:sqlite (not "better-sqlite3") in src/db/*.ts'));
    await memories.remember(draft('an egg a day'));
    const asked = async (text: string) => contents(await memories.recall(scopeOf(null), { text, limit: 5 }));
    for (const text of [
      'node:sqlite',
      '"better-sqlite3"',
      'src/db/*.ts',
      'C++20 AND',
      'NEAR(sqlite, 3)',
      'content:sqlite',
      '-sqlite',
      'sqlite*',
    ]) {
      expect((await asked(text))[0], text).toMatch(/^use C/);
    }
    for (const text of ['', '-', '*', ':', '"', '(', "it's", '🙂', '\ud83d', '\0', 'NOT', '^']) expect(await asked(text), text).toEqual([]);
    expect((await asked(`sqlite ${'lorem ipsum '.repeat(800)}`))[0]).toMatch(/^use C/);
  });

  test('explain tells the signs of relevance, and is silent when not asked', async () => {
    const { memories } = open();
    await memories.remember(draft('Alice buys green tea'));
    const asked = { text: 'does Alice buy green tea?', limit: 5 };
    expect((await memories.recall(scopeOf(null), asked)).results[0]).not.toHaveProperty('explain');
    const [told] = (await memories.recall(scopeOf(null), { ...asked, explain: true })).results;
    expect(told).toMatchObject({ score: 1, source: 'keyword', explain: { coverage: 1, around: 1, feedback: 0, likeness: null } });
    expect(told!.explain!.features).toMatchObject({ words: 1, coordination: 1, pairs: 2, author: 0, personal: 0 });
  });

  test('only memories with a word of the query, when that is asked', async () => {
    const { memories } = open();
    await memories.remember(draft('Which colour has your bicycle?', { sessionKey: 's', createdAtMs: 1 }));
    await memories.remember(draft('Blue, since spring.', { sessionKey: 's', createdAtMs: 2 }));
    const ask = { text: 'colour of the bicycle', limit: 5 };
    expect((await memories.recall(scopeOf(null), ask)).results).toHaveLength(2);
    expect(contents(await memories.recall(scopeOf(null), { ...ask, wordsOnly: true }))).toEqual(['Which colour has your bicycle?']);
  });

  test('a new value is linked to the old one, which stays', async () => {
    const { memories, clock } = open();
    const old = await memories.remember(draft('The cache TTL is 300 seconds'));
    clock.ms += DAY_MS;
    const fresh = await memories.remember(draft('The cache TTL is 600 seconds'));
    expect(fresh.memory.supersedes).toBe(old.memory.id);
    expect(await memories.get(scopeOf(null), old.memory.id)).toMatchObject({ superseded_by: fresh.memory.id });
    expect(contents(await memories.recall(scopeOf(null), { text: 'what is the cache TTL?', limit: 5 }))).toEqual([
      'The cache TTL is 600 seconds',
      'The cache TTL is 300 seconds',
    ]);
  });

  test('a look-alike with another number in its subject takes nobody’s place', async () => {
    const { memories, clock } = open();
    await memories.remember(draft('user 17 is an admin'));
    clock.ms += DAY_MS;
    const other = await memories.remember(draft('user 18 is an admin'));
    expect(other.memory.supersedes).toBeNull();
    expect(contents(await memories.recall(scopeOf(null), { text: 'is user 17 an admin?', limit: 5 }))[0]).toBe('user 17 is an admin');
  });

  test('what was superseded is left out of a prompt, unless it answers what its successor does not', () => {
    const newer = recalled('new', 'The lamp by the door is blue', 0.8);
    const older = { ...recalled('old', 'Paint of the shed and the lamp: green', 0.95), superseded_by: 'new' };
    const shown = (query: string) => packRecalled([older, newer], query, 500, 200).shown.map(({ id }) => id);
    expect(shown('lamp')).toEqual(['new']);
    expect(shown('paint')).toEqual(['new', 'old']);
  });

  test('of memories whose links lead in a circle, the one stored last is told in a prompt', () => {
    const linked = (id: string, by: string, day: number) => ({
      ...recalled(id, `Lamp ${id} is ${id}-coloured`, 0.8),
      superseded_by: by,
      created_at: new Date(START_MS + day * DAY_MS).toISOString(),
    });
    const shown = (...memories: ReturnType<typeof linked>[]) => packRecalled(memories, 'lamp', 500, 200).shown.map(({ id }) => id);
    expect(shown(linked('a', 'b', 0), linked('b', 'a', 1))).toEqual(['b']);
    expect(shown(linked('b', 'a', 1), linked('a', 'b', 0))).toEqual(['b']);
    expect(shown(linked('a', 'b', 2), linked('b', 'c', 1), linked('c', 'a', 0), linked('d', 'c', 3))).toEqual(['a']);
    expect(shown(linked('a', 'a', 0))).toEqual(['a']);
    expect(shown(linked('a', 'b', 0), linked('b', 'c', 1), linked('c', 'gone', 2))).toEqual(['c']);
  });

  test('a link that leads nowhere, to what is forgotten or to itself hides nothing and is not told', async () => {
    const folder = tempFolder();
    const { memories, clock } = open(folder);
    const { memory } = await memories.remember(draft('The copper kettle is in the pantry'));
    const { memory: gone } = await memories.remember(draft('The blue lamp is by the door'));
    await memories.forget(scopeOf(null), gone.id, note);
    const database = new DatabaseSync(join(folder, 'memory.db'));
    onTestFinished(() => database.close());
    for (const wrong of ['no-such-memory', gone.id, memory.id]) {
      database.prepare('UPDATE memories SET superseded_by = ? WHERE id = ?').run(wrong, memory.id);
      const stores = openMemoryStores(join(folder, 'memory.db'), { now: () => clock.ms });
      const found = await stores.memories.recall(scopeOf(null), { text: 'where is the copper kettle?', limit: 5 });
      const ranked = await stores.memories.ranked(scopeOf(null), { limit: 5, recencyBias: 0.5 });
      stores.close();
      expect(found.results.map(({ id, superseded_by }) => [id, superseded_by])).toEqual([[memory.id, null]]);
      expect(ranked.map(({ id }) => id)).toEqual([memory.id]);
      expect(packRecalled(found.results, 'copper kettle', 500, 200).shown).toHaveLength(1);
    }
  });
});

describe('feedback', () => {
  const line = { agentId: 'default', sessionKey: 's' };
  const blue = 'the quokka build uses the blue pipeline';
  const green = 'the quokka build uses the green pipeline';

  test('a rating is kept with the query it was given for, acts for its own agent, and fades', async () => {
    const { memories, sessions, clock } = open();
    const rated = await memories.remember(draft(blue));
    await memories.remember(draft(green, { createdAtMs: START_MS + 1 }));
    const query = { text: 'quokka build pipeline', limit: 5, explain: true };
    const ask = (agent: string | null) => memories.recall(scopeOf(agent), query);
    expect(contents(await ask(null))).toEqual([green, blue]);

    const { stems } = await ask(null);
    await sessions.recordHits(line, [{ memoryId: rated.memory.id, score: 1, injected: true }], stems);
    await sessions.feedback(scopeOf(null), line, { [rated.memory.id]: 1 });
    expect(contents(await ask(null))).toEqual([blue, green]);
    expect((await ask(null)).results[0]!.explain!.feedback).toBe(1);
    expect(contents(await ask('miles'))).toEqual([green, blue]);
    expect(
      (await memories.recall(scopeOf(null), { ...query, text: 'blue or green' })).results.map((each) => each.explain!.feedback),
    ).toEqual([0, 0]);
    clock.ms += 60 * DAY_MS;
    expect((await ask(null)).results[0]!.explain!.feedback).toBe(0.25);
  });
});
