import { describe, expect, test } from 'vitest';
import { canonicalText } from '../../src/core/memory-hash.ts';
import { bestSentences, saysTheSame } from '../../src/core/recall/excerpt.ts';
import { frameOf } from '../../src/core/recall/frame.ts';
import { readQuery } from '../../src/core/recall/query.ts';
import { askedDates, dateMatch } from '../../src/core/recall/time-words.ts';
import { cosine, toBytes } from '../../src/core/recall/vector.ts';
import { wordsIn } from '../../src/core/recall/words.ts';
import { wordsOf } from '../../src/core/recall-query.ts';

const stems = (text: string): string[] => wordsIn(text).map((word) => word.stem);

describe('words', () => {
  test('forms of one word meet: endings, irregular verbs and plurals, possessives, accents, width', () => {
    expect(stems("Caroline's running")).toEqual(['carolin', 'run']);
    expect(stems('went gone go')).toEqual(['go', 'go', 'go']);
    expect(stems('children Child')).toEqual(['child', 'child']);
    expect(stems('café CAFE ｃａｆｅ')).toEqual(['cafe', 'cafe', 'cafe']);
    expect(stems("don't")).toEqual(['don', 't']);
  });

  test('an identifier stands whole beside its parts', () => {
    expect(stems('node:sqlite')).toEqual(['node', 'sqlite', 'node:sqlite']);
    expect(stems('see a/b.ts')).toEqual(['see', 'a', 'b', 'ts', 'a/b.ts']);
    expect(stems('KA-6')).toEqual(['ka', '6', 'ka-6']);
    expect(stems('C++20')).toEqual(['c', '20', 'c++20']);
    expect(stems('run --shard')).toEqual(['run', 'shard', '--shard']);
  });

  test('scripts without spaces are looked up by pairs of signs', () => {
    expect(stems('緑茶が好き')).toEqual(['緑茶', '茶が', 'が好', '好き']);
  });

  test('marks in a row count up to thirty, however many there are', () => {
    const marks = '\u0315\u0300\u05ae\u0316'.repeat(250_000);
    const hebrew = (text: string) => text.replace(/[^\u05ae]/g, '').length;
    expect(stems(`x a${marks} b`).map((stem) => stem.replace(/\u05ae/g, ''))).toEqual(['x', 'a', 'b']);
    expect(wordsOf(`x a${marks} b`).map(hebrew)).toEqual([0, 7, 0]);
    expect(hebrew(canonicalText(`x a${marks} b`))).toBe(7);
    const halfWidth = `\uff76${`\uff9e${'\u0315\u0316'.repeat(15)}`.repeat(30_000)}`;
    expect(canonicalText(halfWidth).length).toBeLessThan(40);
    expect(canonicalText(`a${'\u0316\u0315'.repeat(15)}`)).toBe(`a${'\u0316'.repeat(15)}${'\u0315'.repeat(15)}`);
  });

  test('signs within a word belong to it, however many there are', () => {
    const word = `a${','.repeat(1_000_000)}b`;
    expect(canonicalText(`"...${word}!".`)).toBe(`...${word}`);
  });

  test('a sign that stands for many words is looked up by all of them, a long text of such signs by the first', () => {
    expect(stems('\ufdfa'.repeat(10))).toEqual(stems('\ufdfa'.normalize('NFKD').repeat(10)));
    const text = '\ufdfa'.repeat(99_000);
    const written = wordsIn(text).reduce((chars, word) => chars + word.text.length, 0);
    expect(written).toBeGreaterThan(text.length / 2);
    expect(written).toBeLessThanOrEqual(2 * text.length);
    expect(stems('한국어 '.repeat(1_000))).toHaveLength(1_000);
  });

  test('any text has words or none, never a fault', () => {
    for (const text of ['', '   ', '🙂🙂', '"', 'NEAR(x', '\ud800', '-', '* : ^', 'a'.repeat(10_000), '\0'])
      expect(Array.isArray(stems(text))).toBe(true);
    expect(stems('x'.repeat(10_000))[0]).toHaveLength(64);
  });

  test('a query leaves out how it is asked', () => {
    const asked = readQuery('Please tell me: when did Alice buy the green tea?');
    expect(asked.terms.map((term) => term.word)).toEqual(['alice', 'buy', 'green', 'tea']);
    expect(asked).toMatchObject({ when: true, howMany: false });
    expect(readQuery('how many cups does she drink?')).toMatchObject({ when: false, howMany: true });
    expect(readQuery('what is it?').terms).toEqual([]);
    expect(readQuery('one two three four', 2).terms.map((term) => term.word)).toEqual(['one', 'two']);
  });
});

describe('dates', () => {
  test('days, months and years are read in the ways people write them', () => {
    expect(askedDates('what happened on 23 February?')).toEqual([{ day: 23, month: 2, year: undefined }]);
    expect(askedDates('on May 7th, 2023')).toEqual([{ day: 7, month: 5, year: 2023 }]);
    expect(askedDates('since 2026-01-05')).toEqual([{ year: 2026, month: 1, day: 5 }]);
    expect(askedDates('in March 2024')).toEqual([{ month: 3, year: 2024 }]);
    expect(askedDates('they may march')).toEqual([]);
  });

  test('the day asked matches most, another day of its month a little, another year not at all', () => {
    const day = [{ day: 23, month: 2, year: 2026 }];
    const at = (text: string): number => Date.parse(text);
    expect(dateMatch(day, at('2026-02-23T23:59:00Z'))).toBe(1.5);
    expect(dateMatch(day, at('2026-02-01T00:00:00Z'))).toBe(0.3);
    expect(dateMatch(day, at('2025-02-23T00:00:00Z'))).toBe(0);
    expect(dateMatch([{ month: 2 }], at('2020-02-10T00:00:00Z'))).toBe(1);
    expect(dateMatch([], at('2026-02-23T00:00:00Z'))).toBe(0);
  });
});

describe('sameness', () => {
  test('introductions, articles, quotes and punctuation make no other memory', () => {
    const plain = canonicalText('The parser accepts `CRLF`');
    for (const other of [
      'parser accepts CRLF.',
      'Remember that the parser accepts CRLF',
      'Note: the PARSER  accepts "CRLF"! (noted again)',
    ])
      expect(canonicalText(other)).toBe(plain);
    for (const introduction of [
      '- ',
      '* ',
      '• ',
      '1. ',
      'Just so you know, ',
      'So you know: ',
      'User said: ',
      'the user mentioned that ',
      'By the way, ',
      'For the record: ',
      '- Just so you know, remember that ',
      'Heads-up: ',
    ]) {
      expect(canonicalText(`${introduction}The parser accepts \`CRLF\``), introduction).toBe(plain);
    }
    for (const other of ['> 30 days', '-5 degrees', 'User stories are short', 'Just tea', 'User said nothing', '- 5 degrees']) {
      expect(canonicalText(other), other).not.toBe(canonicalText(other.split(' ').slice(1).join(' ')));
    }
    const articles = canonicalText('Use linter. Linter helps');
    expect(canonicalText('Use a linter. A linter helps')).toBe(articles);
    expect(canonicalText('USE A LINTER. A LINTER HELPS')).toBe(articles);
    expect(canonicalText('Remember that A linter helps')).toBe(canonicalText('linter helps'));
  });

  test('negations, numbers, order and file endings do', () => {
    const texts = [
      'tabs, not spaces',
      'spaces, not tabs',
      'tabs spaces',
      'port 80',
      'port -80',
      'port 81',
      'read flags.yaml',
      'read flags.json',
      'exit when code != 0',
      'exit when code = 0',
      'use !flag',
      'use flag',
      'retry unless `!(ready)`',
      'retry unless `(ready)`',
      'Plan A',
      'Plan',
      'vitamin A is fine',
      'vitamin is fine',
    ];
    expect(new Set(texts.map(canonicalText)).size).toBe(texts.length);
    expect(canonicalText('The')).toBe('the');
    expect(canonicalText('?!')).toBe('?!');
  });

  test('one frame with two values, and none without a value', () => {
    expect(frameOf('The cache TTL is 300 seconds')).toEqual({ text: 'cach ttl # second', changes: false, state: true });
    expect(frameOf('The cache TTL was raised to 600 seconds')).toMatchObject({ text: 'cach ttl # second', changes: true });
    expect(frameOf('Rose owns the flow').text).toBe('');
    expect(frameOf('it is 5').text).toBe('');
  });

  test.each([
    ['user 17 is an admin', 'user 18 is an admin'],
    ['Ticket KA-6 is assigned to Bob', 'Ticket KA-7 is assigned to Bob'],
    ['node-1 has 16 GB RAM', 'node-2 has 16 GB RAM'],
    ['Room 5 is on floor 2', 'Room 6 is on floor 2'],
    ['Q1 revenue is 5 million', 'Q2 revenue is 5 million'],
    ['Port 8080 is used by nginx', 'Port 9090 is used by nginx'],
    ['Step 1 is to run npm install', 'Step 2 is to run npm install'],
    ['Run 5 is green after 3 retries', 'Run 6 is green after 3 retries'],
    ['Host 5 timeout = 30 seconds', 'Host 6 timeout = 30 seconds'],
  ])('a number of the subject is no value: %s, %s', (one, other) => {
    const frames = [frameOf(one).text, frameOf(other).text];
    expect(frames[0] === frames[1] && frames[0] !== '').toBe(false);
  });

  test.each([
    ['Room 5 has 2 large windows', 'Room 5 has 3 large windows'],
    ['Server port: 8080', 'Server port: 8081'],
    ['The staging host is db-61.internal', 'The staging host changed to db-151.internal'],
    ['Logs older than 30 days are deleted', 'Logs older than 90 days are deleted'],
    ['Use port 80 for the proxy', 'Use port 81 for the proxy'],
    ['The upload limit is 5 MB', 'Upload limit now 6 MB'],
  ])('a number of what is said is a value: %s, %s', (one, other) => {
    expect(frameOf(one).text).not.toBe('');
    expect(frameOf(other).text).toBe(frameOf(one).text);
  });

  test('nearly the same words say the same, unless a number or a negation differs', () => {
    const long = 'the staging database of the billing service lives on the host heron in the second rack';
    expect(saysTheSame(long, `${long} indeed`)).toBe(true);
    expect(saysTheSame(`${long} 4`, `${long} 5`)).toBe(false);
    expect(saysTheSame(long, `${long} not`)).toBe(false);
    expect(saysTheSame(`${long}: use flag`, `${long}: use !flag`)).toBe(false);
    expect(saysTheSame(long, `${long}!`)).toBe(true);
    expect(saysTheSame(long, 'something else')).toBe(false);
  });
});

describe('excerpts', () => {
  test('the sentences that answer the query are kept, in their order', () => {
    const text = `Wombats sleep all day. ${'Nothing to see here at all. '.repeat(20)}Feed the wombats before sunrise. The end.`;
    const cut = bestSentences(text, new Set(['feed', 'wombat', 'sunris']), 90);
    expect(cut).toBe('Wombats sleep all day. … Feed the wombats before sunrise.');
    expect(bestSentences('word '.repeat(50), new Set(['word']), 40)).toBe('');
  });
});

describe('vectors', () => {
  test('the cosine survives a byte a number', () => {
    const bytes = (numbers: number[]): Int8Array => toBytes(numbers)!;
    expect(cosine(bytes([1, 2, 3]), bytes([2, 4, 6]))).toBeCloseTo(1, 3);
    expect(cosine(bytes([1, 0]), bytes([0, 1]))).toBe(0);
    expect(cosine(bytes([0.1, -0.2]), bytes([-0.1, 0.2]))).toBeCloseTo(-1, 2);
    expect(cosine(bytes([1, 1]), bytes([1, 1, 1]))).toBe(0);
    expect(toBytes([0, 0])).toBeUndefined();
    expect(toBytes([Number.NaN])).toBeUndefined();
  });
});
