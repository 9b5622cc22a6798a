import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type MemoryDraft, type MemoryStore, scopeOf } from '../../src/core/memory-store.ts';
import { stem } from '../../src/core/recall-query-stem.ts';
import { type OpenedMemoryStores, openMemoryStores } from '../../src/store/memory-store.ts';
import { START_MS, tempFolder } from '../helpers/daemon-fixture.ts';

const DAY_MS = 86_400_000;

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

const contentsFor = async (memories: MemoryStore, text: string, agentId?: string) =>
  (await memories.recall(scopeOf(agentId), { text, limit: 10 })).results.map((memory) => memory.content);

describe('writing', () => {
  test('case, white space and final punctuation do not make another memory', async () => {
    const { memories } = open();
    const first = await memories.remember(draft('Nicholai prefers bun over npm'));
    const again = await memories.remember(draft('  nicholai prefers\n BUN over npm!! '));
    expect(again).toMatchObject({ deduped: true, memory: { id: first.memory.id, content: 'Nicholai prefers bun over npm', version: 1 } });
    expect(await memories.count()).toBe(1);
  });

  test('a number, a negation or another scope does', async () => {
    const { memories } = open();
    await memories.remember(draft('the port is 80'));
    for (const other of [
      draft('the port is 81'),
      draft('the port is not 80'),
      draft('the port is 80', { agentId: 'dot' }),
      draft('the port is 80', { agentId: 'dot', scope: 'private' }),
    ]) {
      expect((await memories.remember(other)).deduped).toBe(false);
    }
  });

  test('an idempotency key answers with what was written first', async () => {
    const { memories } = open();
    const first = await memories.remember(draft('one', { idempotencyKey: 'k' }));
    const second = await memories.remember(draft('two', { idempotencyKey: 'k' }));
    expect(second).toMatchObject({ deduped: true, memory: { id: first.memory.id, content: 'one' } });
    expect((await memories.remember(draft('two', { idempotencyKey: 'k', agentId: 'dot' }))).deduped).toBe(false);
  });

  test('remembering again as pinned pins what is there', async () => {
    const { memories } = open();
    const { memory } = await memories.remember(draft('backups run at night'));
    const again = await memories.remember(draft('backups run at night', { pinned: true, importance: 1 }));
    expect(again).toMatchObject({ deduped: true, memory: { id: memory.id, pinned: true, importance: 1, version: 2 } });
  });

  test('of memories written at once one that cannot be kept fails alone', async () => {
    const { memories } = open();
    const drafts = [draft('likes tea'), draft('broken', { importance: Number.NaN }), draft('likes milk')];
    const settled = await Promise.allSettled([...drafts, draft('Likes tea.')].map((each) => memories.remember(each)));
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
    expect(settled[3]).toMatchObject({ value: { deduped: true, memory: { content: 'likes tea' } } });
    expect(await memories.count()).toBe(2);
    const [first] = settled as { value: { memory: { id: string } } }[];
    // The answer is told from the draft: it is what reading would tell.
    expect(await memories.get(scopeOf(null), first!.value.memory.id)).toEqual(first!.value.memory);
  });

  test('what was forgotten may be remembered anew', async () => {
    const { memories } = open();
    const { memory } = await memories.remember(draft('tea'));
    await memories.forget(scopeOf(null), memory.id, { reason: 'wrong', changedBy: 'test' });
    const again = await memories.remember(draft('tea'));
    expect(again.deduped).toBe(false);
    expect(again.memory.id).not.toBe(memory.id);
  });

  test('memories, history and the search survive a reopened file', async () => {
    const folder = tempFolder();
    const before = open(folder);
    const { memory } = await before.memories.remember(draft('the staging server is called heron', { createdAtMs: START_MS - DAY_MS }));
    before.close();
    const { memories } = open(folder);
    expect(await memories.get(scopeOf(null), memory.id)).toEqual({ ...memory, created_at: '2025-03-02T12:00:00.000Z' });
    expect(await contentsFor(memories, 'heron')).toEqual(['the staging server is called heron']);
  });

  test('a damaged file is refused', () => {
    const folder = tempFolder();
    writeFileSync(
      join(folder, 'memory.db'),
      'this is no database at all, but it is long enough to have a header of one hundred bytes, is it not? yes',
    );
    expect(() => openMemoryStores(join(folder, 'memory.db'), { now: () => START_MS })).toThrow(
      expect.objectContaining({ code: 'storage_corrupt' }),
    );
  });
});

describe('changing and forgetting', () => {
  const note = { reason: 'because', changedBy: 'test' };

  test('history tells every change with its reason', async () => {
    const { memories, clock } = open();
    const { memory } = await memories.remember(draft('the deploy runs on Monday'));
    clock.ms += 1_000;
    const changed = await memories.change(scopeOf(null), memory.id, { content: 'the deploy runs on Tuesday', tags: ['ops'] }, note);
    expect(changed).toEqual({ id: memory.id, status: 'updated', currentVersion: 2, newVersion: 2, contentChanged: true });
    expect(await memories.history(scopeOf(null), memory.id)).toEqual([
      {
        event: 'created',
        version: 1,
        reason: null,
        changedBy: 'test',
        actorType: null,
        sessionId: null,
        requestId: null,
        changedFields: null,
        oldContent: null,
        newContent: 'the deploy runs on Monday',
        createdAt: '2025-03-03T12:00:00.000Z',
      },
      {
        event: 'updated',
        version: 2,
        reason: 'because',
        changedBy: 'test',
        actorType: null,
        sessionId: null,
        requestId: null,
        changedFields: ['content', 'tags'],
        oldContent: 'the deploy runs on Monday',
        newContent: 'the deploy runs on Tuesday',
        createdAt: '2025-03-03T12:00:01.000Z',
      },
    ]);
    expect(await contentsFor(memories, 'Monday')).toEqual([]);
    expect(await contentsFor(memories, 'Tuesday')).toEqual(['the deploy runs on Tuesday']);
  });

  test('no change is no new version', async () => {
    const { memories } = open();
    const { memory } = await memories.remember(draft('tea'));
    expect(await memories.change(scopeOf(null), memory.id, { content: 'tea' }, note)).toMatchObject({
      status: 'no_changes',
      newVersion: 1,
    });
  });

  test('refusals are told apart', async () => {
    const { memories } = open();
    const global = scopeOf(null);
    const { memory } = await memories.remember(draft('tea'));
    const twin = await memories.remember(draft('coffee', { pinned: true }));
    const code = async (work: Promise<unknown>) =>
      work.then(
        () => 'none',
        (error) => error.code,
      );
    expect(await code(memories.change(global, 'nobody', { type: 'x' }, note))).toBe('memory_not_found');
    expect(await code(memories.change(global, memory.id, { type: 'x' }, { ...note, ifVersion: 7 }))).toBe('version_conflict');
    expect(await code(memories.change(global, memory.id, { content: 'Coffee.' }, note))).toBe('duplicate_content_hash');
    expect(await code(memories.forget(global, twin.memory.id, note))).toBe('memory_pinned');
    expect(await code(memories.forget(global, twin.memory.id, { ...note, force: true }))).toBe('none');
    expect(await code(memories.forget(global, twin.memory.id, note))).toBe('memory_deleted');
    expect(await code(memories.change(global, twin.memory.id, { type: 'x' }, note))).toBe('memory_deleted');
  });

  test("another agent's private memory does not exist", async () => {
    const { memories } = open();
    const { memory } = await memories.remember(draft('the diary', { agentId: 'dot', scope: 'private' }));
    for (const reader of [scopeOf(null), scopeOf('rose')]) {
      expect(await memories.get(reader, memory.id)).toBeUndefined();
      expect(await memories.history(reader, memory.id)).toEqual([]);
      await expect(memories.forget(reader, memory.id, note)).rejects.toMatchObject({ code: 'memory_not_found' });
      await expect(memories.change(reader, memory.id, { type: 'x' }, note)).rejects.toMatchObject({ code: 'memory_not_found' });
    }
    expect(await memories.get(scopeOf('dot'), memory.id)).toMatchObject({ content: 'the diary' });
  });
});

describe('recall', () => {
  test('words are joined by OR, stemmed, and rank by how well they fit', async () => {
    const { memories } = open();
    await memories.remember(draft('Alice is running the marathon in Berlin'));
    await memories.remember(draft('Berlin has many museums'));
    await memories.remember(draft('tea is made with water'));
    expect(await contentsFor(memories, 'When does Alice run her Berlin marathons?')).toEqual([
      'Alice is running the marathon in Berlin',
      'Berlin has many museums',
    ]);
  });

  test('the score is absolute: a question that memory cannot answer has no strong match', async () => {
    const { memories } = open();
    await memories.remember(draft('Alice uses vim for editing'));
    const asked = (text: string) => memories.recall(scopeOf(null), { text, limit: 5 });
    expect(await asked('what does Alice use for editing')).toMatchObject({ strong: true, results: [{ score: 1 }] });
    const weak = await asked('which restaurant did Alice book for the anniversary dinner');
    expect(weak.strong).toBe(false);
    expect(weak.results[0]!.score).toBeLessThan(0.5);
    expect(await asked('purple elephants')).toMatchObject({ results: [], method: 'none', strong: false, terms: ['purple', 'elephants'] });
  });

  test('the least score is honoured and does not eat up the limit', async () => {
    const { memories } = open();
    for (let index = 0; index < 20; index += 1) await memories.remember(draft(`tea ${'tea '.repeat(index % 3)}number ${index}`));
    await memories.remember(draft(`green tea ceremony ${'with a long tail of other words '.repeat(5)}`));
    const { results } = await memories.recall(scopeOf(null), { text: 'green tea ceremony', limit: 1, scoreMin: 0.9 });
    expect(results.map((memory) => memory.score)).toEqual([1]);
  });

  test('filters act before the limit', async () => {
    const { memories } = open();
    for (let index = 0; index < 10; index += 1) await memories.remember(draft(`tea tea tea ${index}`));
    await memories.remember(
      draft('a note on tea', { type: 'rule', tags: ['Ops', 'x'], who: 'ann', project: '/p', pinned: true, importance: 0.9 }),
    );
    for (const filter of [
      { type: 'rule' },
      { tags: ['ops'] },
      { who: 'ann' },
      { project: '/p' },
      { pinned: true },
      { importanceMin: 0.9 },
      { type: 'rule', tags: ['x', 'ops'], sinceMs: START_MS, untilMs: START_MS },
    ]) {
      const { results } = await memories.recall(scopeOf(null), { text: 'tea', limit: 1, filter });
      expect(results.map((memory) => memory.content)).toEqual(['a note on tea']);
    }
    expect((await memories.recall(scopeOf(null), { text: 'tea', limit: 5, filter: { tags: ['op'] } })).results).toEqual([]);
  });

  test('around a project: its own memories, those of none, and preferences of any', async () => {
    const { memories } = open();
    await memories.remember(draft('tea here', { project: '/here' }));
    await memories.remember(draft('tea there', { project: '/there' }));
    await memories.remember(draft('prefers tea', { project: '/there', type: 'preference' }));
    await memories.remember(draft('tea anywhere'));
    const { results } = await memories.recall(scopeOf(null), { text: 'tea', limit: 9, filter: { aroundProject: '/here' } });
    expect(results.map((memory) => memory.content).sort()).toEqual(['prefers tea', 'tea anywhere', 'tea here']);
  });

  test('equal hits: newest first', async () => {
    const { memories } = open();
    await memories.remember(draft('green tea', { createdAtMs: START_MS - 3 * DAY_MS }));
    await memories.remember(draft('black tea', { createdAtMs: START_MS - DAY_MS }));
    await memories.remember(draft('white tea', { createdAtMs: START_MS - 2 * DAY_MS }));
    expect(await contentsFor(memories, 'tea')).toEqual(['black tea', 'white tea', 'green tea']);
  });

  test("private words of others do not move a reader's scores", async () => {
    const alone = open();
    const beside = open();
    for (const { memories } of [alone, beside]) await memories.remember(draft('the zanzibar plan costs money'));
    for (let index = 0; index < 30; index += 1) {
      await beside.memories.remember(draft(`zanzibar secret ${index}`, { agentId: 'dot', scope: 'private' }));
    }
    const ask = ({ memories }: OpenedMemoryStores) => memories.recall(scopeOf('rose'), { text: 'zanzibar hotel money', limit: 5 });
    expect((await ask(beside)).results[0]!.score).toBe((await ask(alone)).results[0]!.score);
  });

  test.each([
    ['a quote', '"', 0],
    ['an open quote', 'tea " OR "', 1],
    ['NEAR', 'NEAR(tea coffee, 2)', 1],
    ['a column name', 'content : tea', 1],
    ['a prefix star', 'tea*', 1],
    ['a minus', '-tea', 1],
    ['a caret', '^tea', 1],
    ['operators', 'tea AND NOT coffee', 1],
    ['brackets', '((( {tea}', 1],
    ['SQL', `tea'; DROP TABLE memories; --`, 1],
    ['an emoji', '\u{1F375}', 0],
    ['an emoji and a word', '\u{1F375}\u{1F375} tea', 1],
    ['a null character', '\0tea', 1],
    ['accents left out', 'te', 1],
    ['accents put in', 'näïve', 1],
    ['Chinese', '茶', 1],
    ['Hindi', 'चाय', 1],
    ['Korean', '한국어', 1],
    ['a mark alone', '\u0301', 0],
    ['10 kB in one word', 'x'.repeat(10_000), 0],
    ['10 kB of words', 'tea '.repeat(2_500), 1],
    ['nothing', '', 0],
    ['white space', '   \n', 0],
    ['stop words', 'the of and', 0],
  ])('%s in a query is text, not syntax', async (_, text, hits) => {
    const { memories } = open();
    await memories.remember(draft('green tea, 茶, हिन्दी चाय, 한국어, naive coffee, té'));
    const { results } = await memories.recall(scopeOf(null), { text, limit: 5 });
    expect(results).toHaveLength(hits);
  });

  test('any text can be asked', async () => {
    const { memories } = open();
    await memories.remember(draft('green tea near content and or not'));
    const token = fc.constantFrom('"', '*', '-', ':', '^', '(', ')', 'NEAR', 'AND', 'OR', 'NOT', 'tea', '\u{1F375}', '+', '{', '}', ' ');
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.string({ unit: 'grapheme' }),
          fc.array(token).map((parts) => parts.join('')),
        ),
        async (text) => {
          const { results } = await memories.recall(scopeOf(null), { text, limit: 5 });
          for (const { score } of results) expect(score).toSatisfy((value: number) => value >= 0 && value <= 1);
        },
      ),
      { numRuns: 300 },
    );
  });

  test('no read returns what is out of scope or deleted, whatever happened before', async () => {
    const agents = [null, 'dot', 'rose'] as const;
    const write = fc.record({
      agent: fc.constantFrom(...agents),
      isPrivate: fc.boolean(),
      word: fc.constantFrom('tea', 'rum', 'cake'),
      dies: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(write, { maxLength: 12 }), async (writes) => {
        const folder = tempFolder();
        const stores = openMemoryStores(join(folder, 'memory.db'), { now: () => START_MS });
        const live = new Map<string, { agent: string | null; isPrivate: boolean }>();
        for (const [index, { agent, isPrivate, word, dies }] of writes.entries()) {
          const scope = isPrivate && agent !== null ? 'private' : 'global';
          const { memory } = await stores.memories.remember(draft(`${word} ${index}`, { agentId: agent ?? 'default', scope }));
          live.set(memory.id, { agent, isPrivate: scope === 'private' });
          if (!dies) continue;
          await stores.memories.forget(scopeOf(agent), memory.id, { reason: 'x', changedBy: 'x' });
          live.delete(memory.id);
        }
        for (const agent of agents) {
          const reader = scopeOf(agent);
          const allowed = [...live].filter(([, memory]) => !memory.isPrivate || memory.agent === agent).map(([id]) => id);
          const recalled = await stores.memories.recall(reader, { text: 'tea rum cake', limit: 100 });
          const ranked = await stores.memories.ranked(reader, { limit: 100, recencyBias: 0.7 });
          expect(recalled.results.map((memory) => memory.id).sort()).toEqual([...allowed].sort());
          expect(ranked.map((memory) => memory.id).sort()).toEqual([...allowed].sort());
          for (const id of live.keys()) expect((await stores.memories.get(reader, id)) !== undefined).toBe(allowed.includes(id));
        }
        expect(await stores.memories.count()).toBe(live.size);
        stores.close();
      }),
      { numRuns: 25 },
    );
  });
});

describe('ranking for session start', () => {
  test('importance × (1 − bias) + bias / (1 + age in days)', async () => {
    const { memories } = open();
    await memories.remember(draft('old and important', { importance: 1, createdAtMs: START_MS - 30 * DAY_MS }));
    await memories.remember(draft('new and small', { importance: 0.1 }));
    await memories.remember(draft('yesterday', { importance: 0.5, createdAtMs: START_MS - DAY_MS }));
    const order = async (recencyBias: number) =>
      (await memories.ranked(scopeOf(null), { limit: 3, recencyBias })).map((memory) => memory.content);
    expect(await order(0)).toEqual(['old and important', 'yesterday', 'new and small']);
    expect(await order(1)).toEqual(['new and small', 'yesterday', 'old and important']);
    expect(await order(0.5)).toEqual(['new and small', 'old and important', 'yesterday']);
  });
});

test.each(
  Object.entries({
    ponies: 'poni',
    running: 'run',
    prefers: 'prefer',
    preferences: 'prefer',
    relational: 'relat',
    hopping: 'hop',
    filing: 'file',
    sky: 'sky',
  }),
)('the stem of %s is %s', (word, expected) => expect(stem(word)).toBe(expected));
