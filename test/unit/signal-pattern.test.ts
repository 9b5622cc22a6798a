import fc from 'fast-check';
import { expect, test } from 'vitest';
import { AppError } from '../../src/core/errors.ts';
import { compilePatterns, parsePatternList } from '../../src/core/signal-pattern.ts';

const matching: [pattern: string, names: string[], others: string[]][] = [
  ['text:delta', ['text:delta'], ['text:complete', 'Text:delta', 'text:delta:x', 'text', 'xtext:delta']],
  ['text:*', ['text:delta', 'text:complete'], ['text:a:b', 'tool:call', 'text']],
  ['*:end', ['turn:end', 'hook:end'], ['tool:approval:end', 'end', 'turn:ended']],
  ['**', ['turn:end', 'tool:approval:requested', 'a:b:c:d:e:f'], []],
  ['tool:**', ['tool:call', 'tool:approval:requested'], ['tool', 'tools:call']],
  ['**:error', ['hook:error', 'a:b:error'], ['error', 'hook:error:x']],
  ['state:**:changed', ['state:review:changed', 'state:a:b:changed'], ['state:changed']],
  ['**:b:**', ['a:b:c', 'a:b:b:c', 'b:b:b'], ['a:b', 'b:c', 'a:c:d']],
  ['**:*', ['a:b', 'a:b:c'], ['a']],
  ['*:fail*', ['agent:failed', 'session:fail'], ['agent:afail', 'a:b:failed']],
  ['a:*b*c', ['a:bc', 'a:xbyc', 'a:bbcc'], ['a:cb', 'a:bcx', 'a:b']],
  ['a:ab*ba', ['a:abba', 'a:abxba'], ['a:aba', 'a:ab']],
  ['a.*:x', ['a.:x', 'a.b:x'], ['a:x', 'ab:x']],
];

test.each(matching)('%s matches whole names only, case-sensitively', (pattern, names, others) => {
  const matches = compilePatterns([pattern]);
  expect(names.filter((name) => !matches(name))).toEqual([]);
  expect(others.filter(matches)).toEqual([]);
  expect(names.filter((name) => !matches(name))).toEqual([]); // from the cache now
});

test('any pattern of a list is enough, and any exclusion wins wherever it stands', () => {
  const matches = compilePatterns(['!tool:progress', 'tool:**', 'turn:end']);
  const names = ['tool:call', 'tool:progress', 'turn:end', 'turn:start'];
  expect(names.filter(matches)).toEqual(['tool:call', 'turn:end']);
  expect(names.filter(compilePatterns(['tool:progress', '!**:progress']))).toEqual([]);
});

test('a list of exclusions only means everything else', () => {
  expect(['text:delta', 'turn:end'].filter(compilePatterns(['!text:*']))).toEqual(['turn:end']);
});

test('code may use regular expressions, but not ones that keep a position', () => {
  expect(['turn:end', 'turn:start'].filter(compilePatterns([/^turn:e/]))).toEqual(['turn:end']);
  expect(() => compilePatterns([/turn/g])).toThrow(expect.objectContaining({ code: 'invalid_pattern' }));
  expect(() => compilePatterns([/turn/y])).toThrow(expect.objectContaining({ code: 'invalid_pattern' }));
});

test.each([
  ['*', 'did you mean `**`?'],
  ['!*', 'did you mean `**`?'],
  ['', 'empty segment'],
  ['!', 'empty segment'],
  ['a::b', 'empty segment'],
  [':a', 'empty segment'],
  ['a:', 'empty segment'],
  ['***', 'three stars'],
  ['a:***', 'three stars'],
  ['a:b**', 'inside a segment'],
  ['a:**b', 'inside a segment'],
  ['a:b:c:d:e:f:g:h:i', '9 segments'],
  ['a:b c', '" "'],
  ['a:{b,c}', '"{"'],
  ['a:!b', '"!"'],
  [`a:${'b'.repeat(127)}`, '129 characters'],
])('%j is refused with a hint and a pointer', (pattern, hint) => {
  const refusal = thrownBy(() => compilePatterns(['text:*', pattern], '/signals'));
  expect(refusal).toMatchObject({ code: 'invalid_pattern', detail: expect.stringContaining(hint) });
  expect(refusal.errors).toEqual([{ pointer: '/signals/1', detail: refusal.detail }]);
});

test('an empty list and more than 64 patterns are refused, the limits themselves are not', () => {
  expect(thrownBy(() => compilePatterns([]))).toMatchObject({ code: 'invalid_pattern' });
  expect(thrownBy(() => compilePatterns(Array(65).fill('a:b')))).toMatchObject({ code: 'invalid_pattern', errors: [{ pointer: '' }] });
  expect(compilePatterns([...Array(63).fill('a:b'), 'x:y'])('x:y')).toBe(true);
  expect(compilePatterns(['a:b:c:d:e:f:g:*'])('a:b:c:d:e:f:g:h')).toBe(true);
  expect(compilePatterns([`a:${'b'.repeat(126)}`])(`a:${'b'.repeat(126)}`)).toBe(true);
});

test('a list in text is split at commas', () => {
  expect(parsePatternList('text:*,tool:**')).toEqual(['text:*', 'tool:**']);
  expect(parsePatternList(' text:* , !text:delta')).toEqual(['text:*', '!text:delta']);
  expect(thrownBy(() => compilePatterns(parsePatternList('')))).toMatchObject({ code: 'invalid_pattern' });
  expect(thrownBy(() => compilePatterns(parsePatternList('a:b,,c:d')))).toMatchObject({ errors: [{ pointer: '/1' }] });
  expect(parsePatternList(','.repeat(1_000_000))).toHaveLength(65);
});

test('the matcher agrees with an equivalent regular expression', () => {
  const word = fc.stringMatching(/^[ab]{1,3}$/);
  const segment = fc.oneof(word, fc.constant('*'), fc.constant('**'), fc.stringMatching(/^(\*|\*?[ab]{1,2})([ab]\*|[ab]){0,2}$/));
  const pattern = fc.array(segment, { minLength: 2, maxLength: 6 }).map((segments) => segments.join(':'));
  const name = fc.array(word, { minLength: 1, maxLength: 7 }).map((segments) => segments.join(':'));
  fc.assert(
    fc.property(pattern, name, (text, of) => {
      expect(compilePatterns([text])(of)).toBe(reference(text).test(of));
    }),
    { numRuns: 20_000 },
  );
});

test('patterns made of stars answer rightly on names made to mislead them', () => {
  const stars = compilePatterns(['*a'.repeat(64)]);
  expect(stars('a'.repeat(64))).toBe(true);
  expect(stars('a'.repeat(63))).toBe(false);
  expect(stars(`${'a'.repeat(127)}b`)).toBe(false);
  const segments = compilePatterns(['**:a:**:a:**:a:**:b']);
  expect(segments(`${'a:'.repeat(60)}b`)).toBe(true);
  expect(segments(`${'a:'.repeat(60)}a`)).toBe(false);
});

function reference(pattern: string): RegExp {
  const segments = pattern.split(':').map((segment) => {
    if (segment === '**') return '[^:]+(?::[^:]+)*';
    return segment === '*' ? '[^:]+' : segment.replaceAll('*', '[^:]*');
  });
  return new RegExp(`^${segments.join(':')}$`);
}

function thrownBy(act: () => unknown): AppError {
  try {
    act();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}
