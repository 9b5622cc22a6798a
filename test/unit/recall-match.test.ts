import { describe, expect, test } from 'vitest';
import { isLight } from '../../src/core/recall/light-words.ts';
import { matchOf } from '../../src/core/recall/match.ts';
import { readQuery } from '../../src/core/recall/query.ts';
import { RecallIndex } from '../../src/core/recall/recall-index.ts';
import { relatedTo } from '../../src/core/recall/related-words.ts';
import { wordsIn } from '../../src/core/recall/words.ts';

const START_MS = Date.parse('2026-01-01T00:00:00Z');

function indexOf(...contents: readonly string[]): RecallIndex {
  const index = new RecallIndex();
  for (const [n, content] of contents.entries()) {
    const told = { who: 'ada', type: 'fact', sourceType: 'manual', tags: null, pinned: false, importance: 0.5, supersededBy: null };
    const place = { agentId: 'a', scope: 'global', project: null, sessionKey: null, createdAtMs: START_MS + n };
    index.put('global', { ...told, ...place, seq: n + 1, id: `m${n}`, content });
  }
  return index;
}

const NOTES = [
  'The lease of the studio ends on 30 June and Ada must give notice in March.',
  'Ada keeps her accounts with PostgreSQL on the small server in the cellar.',
  'Ada lives in Ghent with her husband Piet.',
  'The kiln of the workshop is fired on Saturdays at 1,040 degrees.',
  'Ada is allergic to walnuts.',
  'Invoices are paid within 14 days, never in cash.',
  'Orders are shipped with the courier every Wednesday.',
];

function best(index: RecallIndex, question: string): { content: string | undefined; match: string } {
  const [first] = index.rank(['global'], readQuery(question), {});
  return { content: first && NOTES[Number(first.entry.id.slice(1))], match: first ? matchOf(first) : 'none' };
}

describe('words', () => {
  test.each([
    ['which postgres do I run?', 'PostgreSQL'],
    ['where do I live?', 'Ghent'],
    ['who is my spouse?', 'Piet'],
    ['when do the parcels go out?', 'courier'],
    ['is there a snack without nuts for me? I have an allergy', 'walnuts'],
  ])('%s finds %s', (question, answer) => {
    expect(best(indexOf(...NOTES), question).content).toContain(answer);
  });

  test('a related word counts less than the word itself', () => {
    const index = indexOf('The picture hangs in the hall.', 'The photo hangs in the hall.');
    expect(index.rank(['global'], readQuery('picture'), {})[0]!.entry.id).toBe('m0');
    expect(index.rank(['global'], readQuery('photo'), {})[0]!.entry.id).toBe('m1');
  });

  test('the table relates words in both directions, none to itself, and is small', () => {
    for (const word of ['login', 'invoice', 'recipe', 'deploy', 'wife']) {
      const { stem } = wordsIn(word)[0]!;
      expect(relatedTo(stem).length, word).toBeGreaterThan(0);
      expect(relatedTo(stem), word).not.toContain(stem);
      for (const other of relatedTo(stem)) expect(relatedTo(other), `${other} of ${word}`).toContain(stem);
    }
    expect(relatedTo('quokka')).toEqual([]);
    expect(isLight('us')).toBe(true);
    expect(isLight('kiln')).toBe(false);
  });
});

describe('match', () => {
  test('is strong or possible for what the notes answer, and not for what they do not', () => {
    const index = indexOf(...NOTES);
    for (const question of ['how hot is the kiln?', 'when does the lease end?', 'what is my husband called?'])
      expect(best(index, question).match, question).toMatch(/^(?:strong|possible)$/);
    for (const question of ['who won the world cup in 1998?', 'how do I sort a list in Haskell?', 'translate good morning into Japanese'])
      expect(best(index, question).match, question).toMatch(/^(?:faint|none)$/);
  });

  test.each([
    ['one character', 'a'],
    ['10,000 characters', 'walnut kiln '.repeat(834)],
    ['German', 'wo wohne ich eigentlich?'],
    ['Chinese', '我住在哪里？'],
    ['emoji', '🏺🔥'],
    ['nothing', ''],
  ])('a query of %s is answered without a fault, the same every time', (_, question) => {
    for (const index of [indexOf(...NOTES), indexOf('Ada is allergic to walnuts.'), new RecallIndex()]) {
      const told = () =>
        index.rank(['global'], readQuery(question), {}).map(({ entry, relevance, certainty }) => [entry.id, relevance, certainty]);
      expect(told()).toEqual(told());
      for (const [, relevance] of told()) expect(Number.isFinite(relevance)).toBe(true);
    }
  });

  test('ten thousand equal memories are ranked, newest first', () => {
    const index = indexOf(...Array.from({ length: 10_000 }, () => 'The kiln is fired on Saturdays.'));
    const found = index.rank(['global'], readQuery('when is the kiln fired?'), {}, 5).map(({ entry }) => entry.id);
    expect(found).toEqual(['m9999', 'm9998', 'm9997', 'm9996', 'm9995']);
  });
});
