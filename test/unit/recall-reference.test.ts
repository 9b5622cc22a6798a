import { expect, test } from 'vitest';
import type { IndexedMemory } from '../../src/core/recall/index-view.ts';
import { readQuery } from '../../src/core/recall/query.ts';
import { RecallIndex } from '../../src/core/recall/recall-index.ts';
import { rankByReading } from '../helpers/reference-ranking.ts';
import { createRandom } from '../helpers/seeded-random.ts';

const START_MS = Date.parse('2026-01-01T00:00:00Z');
const HOUR_MS = 3_600_000;
const MEMORIES = 900;
const QUERIES = 60;
/** Common words first: they are drawn more often. */
const WORDS = (
  'kettle cache server Berlin tea deploy port heron uploader gateway profile pricing garden bicycle colour spring copper Lisbon spout report ' +
  'quokka pipeline office cellar attic drawer clock safe window violin concert train ticket invoice budget salary meeting Tuesday yesterday 42 300 ' +
  'src/db.ts KA-6 foo.bar node:sqlite went bought running studies children better postgres PostgreSQL login password picture image basket cart money cents'
).split(' ');
const AUTHORS = ['Ada', 'Ben', 'Cleo', 'codex'];
const QUESTIONS = [
  'when did',
  'how many',
  'what about',
  'who said',
  'which',
  'where is',
  'on 3 January',
  'in January 2026',
  'Ada',
  'Ben and Cleo',
];

for (const seed of [1, 2, 3]) {
  test(`the index answers what a plain reading of all memories answers, to the last bit (seed ${seed})`, () => {
    const random = createRandom(seed);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random() ** 2 * from.length)]!;
    const text = (count: number): string => Array.from({ length: count }, () => pick(WORDS)).join(' ');
    const known = new Map<number, { view: string; memory: IndexedMemory }>();
    const index = new RecallIndex();
    const put = (seq: number): void => {
      const isPrivate = random() < 0.2;
      const agentId = random() < 0.5 ? 'rose' : 'miles';
      const memory: IndexedMemory = {
        ...{ seq, id: `m${Math.floor(random() * 1e9)}`, content: `${text(2 + Math.floor(random() * 20))}${random() < 0.1 ? '?' : '.'}` },
        ...{ who: pick(AUTHORS), type: 'fact', agentId, scope: isPrivate ? 'private' : 'global', sourceType: 'manual', project: null },
        ...{ tags: null, pinned: false, importance: 0.5, supersededBy: null },
        sessionKey: random() < 0.7 ? `s${Math.floor(random() * 60)}` : null,
        // Several in one moment, and not in the order in which they come.
        createdAtMs: START_MS + Math.floor(random() * 400) * HOUR_MS,
      };
      const view = isPrivate ? `private:${agentId}` : 'global';
      index.put(view, memory);
      known.set(seq, { view, memory });
    };
    for (let seq = 1; seq <= MEMORIES; seq += 1) put(seq);
    for (let change = 0; change < MEMORIES / 3; change += 1) {
      const seq = 1 + Math.floor(random() * MEMORIES);
      if (random() < 0.5) put(seq);
      else {
        index.drop(seq);
        known.delete(seq);
      }
    }
    for (let number = 0; number < QUERIES; number += 1) {
      const query = `${random() < 0.5 ? `${pick(QUESTIONS)} ` : ''}${text(1 + Math.floor(random() * 8))} unheardof`;
      const views = random() < 0.3 ? ['global'] : ['global', 'private:rose'];
      const expected = rankByReading([...known.values()], views, query);
      const told = index
        .rank(views, readQuery(query), {})
        .map(({ entry, relevance, coverage, around }) => ({ id: entry.id, relevance, coverage, around }));
      expect(told, query).toEqual(expected);
      const few = index.rank(views, readQuery(query), {}, 20).map(({ entry }) => entry.id);
      expect(few, query).toEqual(expected.slice(0, 20).map(({ id }) => id));
    }
  });
}
