import { expect, test } from 'vitest';
import { weighFeedback } from '../../src/core/recall/feedback.ts';
import { freshFirst } from '../../src/core/recall/fresh.ts';
import { fuse } from '../../src/core/recall/fuse.ts';
import type { IndexedMemory } from '../../src/core/recall/index-view.ts';
import { readQuery } from '../../src/core/recall/query.ts';
import { RecallIndex } from '../../src/core/recall/recall-index.ts';
import { createRandom } from '../helpers/seeded-random.ts';

const DAY_MS = 86_400_000;
const START_MS = Date.parse('2026-01-01T00:00:00Z');

function memory(seq: number, content: string, more: Partial<IndexedMemory> = {}): IndexedMemory {
  const place = { agentId: 'a', scope: 'global', project: null, sessionKey: null, supersededBy: null };
  const told = { who: 'daemon', type: 'fact', sourceType: 'manual', tags: null, pinned: false, importance: 0.5 };
  return { ...place, ...told, seq, id: `m${seq}`, content, createdAtMs: START_MS + seq * DAY_MS, ...more };
}

function indexOf(...memories: readonly IndexedMemory[]): RecallIndex {
  const index = new RecallIndex();
  for (const each of memories) index.put(each.scope === 'private' ? `private:${each.agentId}` : 'global', each);
  return index;
}

const ranked = (index: RecallIndex, query: string, views = ['global']) => freshFirst(index.rank(views, readQuery(query), {}));
const ids = (index: RecallIndex, query: string, views?: string[]): string[] => ranked(index, query, views).map(({ entry }) => entry.id);

test('what answers best comes first: all words before some, the date asked before another', () => {
  const index = indexOf(
    memory(1, 'Alice went to Berlin'),
    memory(2, 'Alice bought green tea in Berlin'),
    memory(3, 'the nightly job failed', { createdAtMs: Date.parse('2026-02-23T10:00:00Z') }),
    memory(4, 'the nightly job failed again', { createdAtMs: Date.parse('2026-03-01T10:00:00Z') }),
  );
  expect(ids(index, 'where did Alice buy green tea?')[0]).toBe('m2');
  expect(ids(index, 'which nightly job failed on 23 February?')[0]).toBe('m3');
  expect(ids(index, 'zebra')).toEqual([]);
});

test('what was said right after the question is found without a word of it', () => {
  const said = (seq: number, content: string) => memory(seq, content, { sessionKey: 's', createdAtMs: START_MS + seq });
  const index = indexOf(said(1, 'Which colour has your bicycle?'), said(2, 'Blue, since last spring.'), memory(3, 'Blue whales sing.'));
  expect(ids(index, 'colour of the bicycle').slice(0, 2).sort()).toEqual(['m1', 'm2']);
});

test('the same session key of two agents is two sessions', () => {
  const index = indexOf(
    memory(1, 'Which colour has your bicycle?', { sessionKey: 's', agentId: 'a' }),
    memory(2, 'Blue, since last spring.', { sessionKey: 's', agentId: 'b' }),
  );
  expect(ids(index, 'colour of the bicycle')).toEqual(['m1']);
});

test('the newer value stands before the older, but a look-alike about something else does not', () => {
  const index = indexOf(
    memory(1, 'The pricing staging host is db-61.internal'),
    memory(2, 'The pricing staging host changed to db-151.internal'),
    memory(3, 'The billing staging host is db-70.internal'),
    memory(4, 'Jonas is on call for profile'),
    memory(5, 'Oleg is on call for profile, replacing Jonas'),
  );
  expect(ids(index, 'what is the staging host of pricing?').slice(0, 2)).toEqual(['m2', 'm1']);
  expect(ids(index, 'who is on call for profile?').slice(0, 2)).toEqual(['m5', 'm4']);
});

test('a value that took the place of another names it; an event and a look-alike take nobody’s', () => {
  const index = indexOf(memory(1, 'The cache TTL for profiles is 300 seconds'), memory(2, 'Ran 5 kilometres through the park'));
  const place = { who: 'daemon', agentId: 'a', project: null, sessionKey: null, createdAtMs: START_MS + 9 * DAY_MS };
  expect(index.predecessor('global', { ...place, content: 'The cache TTL for profiles is 600 seconds' })?.id).toBe('m1');
  expect(index.predecessor('global', { ...place, content: 'The cache TTL for sessions is 300 seconds' })).toBeUndefined();
  expect(index.predecessor('global', { ...place, content: 'Ran 7 kilometres through the park' })).toBeUndefined();
  expect(index.predecessor('global', { ...place, agentId: 'b', content: 'The cache TTL for profiles is 600 seconds' })).toBeUndefined();
  expect(index.predecessor('private:a', { ...place, content: 'The cache TTL for profiles is 600 seconds' })).toBeUndefined();
});

test("other agents' private memories move no score and are never found", () => {
  const shared = [memory(1, 'the quokka pipeline is blue'), memory(2, 'the quokka pipeline is green')];
  const secrets = Array.from({ length: 50 }, (_, n) => memory(10 + n, `quokka secret ${n}`, { scope: 'private', agentId: 'rose' }));
  const alone = ranked(indexOf(...shared), 'quokka pipeline', ['global', 'private:miles']);
  expect(ranked(indexOf(...shared, ...secrets), 'quokka pipeline', ['global', 'private:miles'])).toEqual(alone);
  expect(ids(indexOf(...shared, ...secrets), 'quokka secret', ['global', 'private:rose']).length).toBe(52);
});

test('after any order of adding, changing and dropping, answers are those of an index made anew', () => {
  const words = 'tea coffee milk bread port host red blue green seven'.split(' ');
  for (let seed = 1; seed <= 20; seed += 1) {
    const random = createRandom(seed);
    const below = (count: number): number => Math.floor(random() * count);
    const pick = (): string => words[below(words.length)]!;
    const living = new Map<number, IndexedMemory>();
    const grown = new RecallIndex();
    for (let step = 0; step < 120; step += 1) {
      const seq = 1 + below(40);
      if (below(3) === 0) {
        living.delete(seq);
        grown.drop(seq);
        continue;
      }
      const made = memory(seq, `${pick()} ${pick()} ${pick()} ${below(5)}`, { sessionKey: below(2) ? `s${below(4)}` : null });
      living.set(seq, made);
      grown.put('global', made);
    }
    const anew = indexOf(...living.values());
    const tell = (index: RecallIndex, query: string) =>
      ranked(index, query).map(({ entry, relevance, coverage, around }) => [entry.id, relevance, coverage, around]);
    for (const query of ['tea host', 'blue', 'red green 3', 'coffee milk bread'])
      expect(tell(grown, query), `seed ${seed}`).toEqual(tell(anew, query));
    expect(grown.size).toBe(living.size);
  }
});

test('ratings move a memory by a tenth of the best at most, less with time, and only for words like those they were given for', () => {
  const index = indexOf(memory(1, 'the quokka build uses the blue pipeline'), memory(2, 'the quokka build uses the green pipeline'));
  const found = ranked(index, 'quokka build pipeline');
  const { terms } = readQuery('quokka build pipeline');
  const [first, second] = found.map(({ entry }) => entry.id) as [string, string];
  const best = found[0]!.relevance;
  const rated = (rating: number, ageDays: number, stems?: string[]) =>
    weighFeedback(
      found,
      [{ memoryId: second, rating, terms: stems && new Set(stems), ratedAtMs: START_MS - ageDays * DAY_MS }],
      terms,
      START_MS,
    );
  const gain = (answer: typeof found): number => answer.find(({ entry }) => entry.id === second)!.relevance - found[1]!.relevance;

  expect(rated(1, 0, ['quokka', 'build', 'pipelin'])[0]!.entry.id).toBe(second);
  expect(gain(rated(1, 0, ['quokka', 'build', 'pipelin']))).toBeCloseTo(best * 0.1);
  expect(gain(rated(1, 30, ['quokka', 'build', 'pipelin']))).toBeCloseTo(best * 0.05);
  expect(gain(rated(1, 0, ['elephant']))).toBe(0);
  expect(gain(rated(-1, 0))).toBeLessThan(0);
  expect(rated(-1, 0)[0]!.entry.id).toBe(first);
  const many = Array.from({ length: 100 }, () => ({ memoryId: second, rating: 1, terms: undefined, ratedAtMs: START_MS }));
  expect(gain(weighFeedback(found, many, terms, START_MS))).toBeCloseTo(best * 0.1);
});

test('the two best by meaning are among the first ten, however well others fit by words', () => {
  const index = indexOf(
    ...Array.from({ length: 30 }, (_, n) => memory(n + 1, `tea number ${n + 1}`)),
    memory(90, 'oolong'),
    memory(91, 'matcha'),
  );
  const found = ranked(index, 'tea');
  const entry = (seq: number) => index.finder(['global'], {})(seq)!;
  const likeness = [90, 91, 1, 2].map((seq, place) => ({ entry: entry(seq), likeness: 0.9 - place / 10 }));
  const fused = fuse(found, likeness).map((each) => each.entry.id);
  expect(fused.slice(0, 10)).toEqual(expect.arrayContaining(['m90', 'm91', found[0]!.entry.id, found[1]!.entry.id]));
  expect(fused).toHaveLength(32);
});
