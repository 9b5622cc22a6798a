import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compilePatterns } from '../../src/core/signal-pattern.ts';

const NAMES = ['a', 'a:b', 'a:c', 'a:b:c', 'b:b', 'agent:failed', 'session:fail:late', 'text:delta'];
const RUNS = 20_000;

test.each([
  ['a:b', ['a:b']],
  ['a:*', ['a:b', 'a:c']],
  ['*:b', ['a:b', 'b:b']],
  ['*:fail*', ['agent:failed']],
  ['**', NAMES],
  ['a:**', ['a:b', 'a:c', 'a:b:c']],
  ['**:c', ['a:c', 'a:b:c']],
  ['a:**,!a:c', ['a:b', 'a:b:c']],
  ['!a:**,**', ['a', 'b:b', 'agent:failed', 'session:fail:late', 'text:delta']],
  ['text:*,b:b', ['b:b', 'text:delta']],
])('T7: %s matches what its line of the table says', (list, matched) => {
  expect(NAMES.filter(compilePatterns(list.split(',')))).toEqual(matched);
});

test(`T7: the matcher agrees with a plain reference on ${RUNS} patterns and names`, () => {
  const word = fc.stringMatching(/^[ab]{1,3}$/);
  const segment = fc.oneof(word, fc.constant('*'), fc.constant('**'), fc.stringMatching(/^\*?[ab]{1,2}(\*[ab]?)?$/));
  const pattern = fc.array(segment, { minLength: 2, maxLength: 6 });
  const name = fc.array(word, { minLength: 1, maxLength: 7 });
  fc.assert(
    fc.property(pattern, name, (segments, names) => {
      expect(compilePatterns([segments.join(':')])(names.join(':'))).toBe(matches(segments, names));
    }),
    { numRuns: RUNS },
  );
});

test('T7: a pattern of 64 stars is answered', () => {
  expect(compilePatterns(['*a'.repeat(64)])(`${'a'.repeat(127)}b`)).toBe(false);
});

/** What segment and star mean, in the words of the table: slow, and easy to see to be right. */
function matches([segment, ...segments]: readonly string[], names: readonly string[]): boolean {
  if (segment === undefined) return names.length === 0;
  if (names.length === 0) return false;
  if (segment === '**') return names.some((_, taken) => matches(segments, names.slice(taken + 1)));
  return (segment === '*' || fits(segment, names[0]!)) && matches(segments, names.slice(1));
}

function fits(glob: string, word: string): boolean {
  if (glob === '') return word === '';
  if (glob.startsWith('*')) return fits(glob.slice(1), word) || (word !== '' && fits(glob, word.slice(1)));
  return word.startsWith(glob[0]!) && fits(glob.slice(1), word.slice(1));
}
