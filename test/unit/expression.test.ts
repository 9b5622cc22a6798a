import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AppError } from '../../src/core/errors.ts';
import { compileExpression, EXPRESSION_CHARS_MAX, EXPRESSION_DEPTH_MAX } from '../../src/core/expression.ts';
import { compileTemplate } from '../../src/core/template.ts';

const SCOPE = {
  signal: { name: 'analysis:complete', payload: { confidence: 0.9, summary: 'fine', tags: ['a', 'b'], deep: { list: [{ id: 7 }] } } },
  state: { review: null, count: 3, 'my-key': 'dashed', names: { tea: 1 } },
  input: 'Tea',
};

function refusalOf(work: () => unknown): AppError {
  try {
    work();
  } catch (error) {
    if (error instanceof AppError) return error;
  }
  throw new Error('it was not refused');
}

describe('an expression', () => {
  test.each([
    ['signal.payload.confidence >= 0.8 && state.review == null', true],
    ['signal.payload.confidence > 0.9', false],
    ["signal.name == 'analysis:complete'", true],
    ['signal.payload.deep.list[0].id', 7],
    ['state["my-key"]', 'dashed'],
    ['state[input] || "none"', 'none'],
    ['signal.payload.tags.length', 2],
    ['signal.payload.tags[1 - 1]', 'a'],
    ['"b" in signal.payload.tags', true],
    ['signal.payload.tags contains "c"', false],
    ['signal.payload.tags == signal.payload.tags', true],
    ['state.names contains "tea" && "ea" in input', true],
    ['1 + 2 * 3 - 4 / 2 % 3', 5],
    ['-(2 - 5) * --2', 6],
    ['!(true && false) || null', true],
    ['state.count + 1', 4],
    ['input + "!"', 'Tea!'],
    ['"\\u0054\\"\\n"', 'T"\n'],
    ['1.5e3', 1500],
    ['state.missing.deeper[0].still', null],
    ['null < 1 || "a" < 1', false],
    ['"a" < "b"', true],
    ['0 == "0"', false],
  ])('%s', (text, value) => {
    expect(compileExpression(text)(SCOPE)).toEqual(value);
  });

  test.each(['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty'])('does not reach %s', (name) => {
    const scope = { state: { list: [], text: 'x', shown: () => 'called' } };
    for (const path of [`state.${name}`, `state["${name}"]`, `state.list.${name}`, `state.text.${name}`, name]) {
      expect(compileExpression(path)(scope)).toBe(null);
    }
    expect(compileExpression('state.shown')(scope)).toBe(null);
  });

  test.each([
    ['a = 1', 3, 'compare with `==`'],
    ['a === 1', 5, 'compare with `==`'],
    ['a and b', 3, 'write `&&`'],
    ['not a', 1, 'write `!`'],
    ['a.b(1)', 4, 'nothing can be called'],
    ['1 < 2 < 3', 7, 'join them with `&&`'],
    ['(1 + 2', 7, '`)` is missing'],
    ['1 +', 4, 'a value is missing'],
    ['', 1, 'a value is missing'],
    ['a.1', 3, 'state["my-key"]'],
    ['"abc', 1, 'the text does not end'],
    ['"\\q"', 2, 'is no escape'],
    ['a ? 1 : 2', 3, 'no choice'],
    ['{a: 1}', 1, 'no objects'],
    ['1 2', 3, 'not expected'],
  ])('%s is refused with its position and a hint', (text, position, words) => {
    const error = refusalOf(() => compileExpression(text, { pointer: '/agents/0/when' }));
    expect(error.code).toBe('invalid_expression');
    expect(error.extra?.position).toBe(position);
    expect(error.detail).toContain(words);
    expect(error.errors?.[0]?.pointer).toBe('/agents/0/when');
  });

  test('names that the scope does not have are refused with those it has', () => {
    const error = refusalOf(() => compileExpression('stat.review', { names: ['signal', 'state'] }));
    expect(error.detail).toBe('at character 1: there is no `stat`; the names are signal, state; a text stands in quotes');
  });

  test('calculating with what is no number is refused when it happens', () => {
    expect(refusalOf(() => compileExpression('1 + state.review')(SCOPE)).detail).toContain('it got a number and null');
    expect(refusalOf(() => compileExpression('1 / 0')(SCOPE)).detail).toContain('1 / 0 is no number');
  });

  test('length and nesting have bounds, and the longest chains within them are calculated', () => {
    expect(refusalOf(() => compileExpression(`${'('.repeat(EXPRESSION_DEPTH_MAX + 1)}1`)).detail).toContain('nested deeper');
    expect(refusalOf(() => compileExpression('1'.repeat(EXPRESSION_CHARS_MAX + 1))).detail).toContain(`${EXPRESSION_CHARS_MAX} characters`);
    expect(
      compileExpression(
        Array(EXPRESSION_CHARS_MAX / 2)
          .fill('1')
          .join('+'),
      )({}),
    ).toBe(EXPRESSION_CHARS_MAX / 2);
    expect(compileExpression(`a${'.b'.repeat(2_000)}`)({ a: {} })).toBe(null);
  });

  test('a text that would grow without end is refused', () => {
    const doubled = Array(20).fill('input').join(' + ');
    expect(refusalOf(() => compileExpression(doubled)({ input: 'x'.repeat(100_000) })).detail).toContain('longer than');
  });
});

describe('for any expression', () => {
  const number = fc.integer({ min: 0, max: 99 }).map(String);
  const sum: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      number,
      fc.constantFrom('a', 'b'),
      fc.tuple(tie('value'), fc.constantFrom(' + ', '-', ' * '), tie('value')).map((parts) => parts.join('')),
      tie('value').map((inner) => `(${inner})`),
      tie('value').map((inner) => `- (${inner})`),
    ),
  })).value;
  const condition = fc
    .tuple(sum, fc.constantFrom('<', '<=', '>', '>=', '==', '!='), sum, fc.constantFrom('&&', '||'), sum, fc.constantFrom('<', '=='), sum)
    .map(([a, first, b, join, c, second, d]) => `!(${a} ${first} ${b}) ${join} ${c} ${second} ${d}`);

  test('the value is the one JavaScript gives', () => {
    fc.assert(
      fc.property(fc.oneof(sum, condition), fc.integer(), fc.integer(), (text, a, b) => {
        fc.pre(text.length <= EXPRESSION_CHARS_MAX && !text.includes('--'));
        const expected: unknown = runInNewContext(text, { a, b });
        const actual = compileExpression(text)({ a, b });
        expect(actual === expected || (actual === 0 && expected === 0)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  test('whatever the text, it is compiled or refused with a position, and nothing else', () => {
    const piece = fc.constantFrom('a', '.', '[', ']', '(', ')', '"', "'", '1', '==', '&&', '!', ' ', '\\', '{{', '}}', 'é', '-', 'in');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        for (const compile of [compileExpression, compileTemplate]) {
          try {
            compile(pieces.join(''));
          } catch (error) {
            expect((error as AppError).code).toBe('invalid_expression');
            expect((error as AppError).extra?.position).toBeGreaterThan(0);
          }
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe('a template', () => {
  test.each([
    ['Review {{ signal.payload.summary }}.', 'Review fine.'],
    ['{{state.count}}{{ state.review }}', '3null'],
    ['{{ signal.payload.tags }}', '["a","b"]'],
    ['{{ state.nobody || "nobody" }}', 'nobody'],
    ['{{ "{{" }} and {{ "}}" }}', '{{ and }}'],
    ['no braces } { here', 'no braces } { here'],
    ['', ''],
  ])('%s', (text, result) => {
    expect(compileTemplate(text)(SCOPE)).toBe(result);
  });

  test('an error names the place in the whole text', () => {
    expect(refusalOf(() => compileTemplate('Hello {{ state. }}')).extra?.position).toBe(17);
    expect(refusalOf(() => compileTemplate('Hello {{ state')).detail).toContain('`{{` has no `}}`');
  });

  test('what becomes longer than a prompt may be is refused', () => {
    const template = compileTemplate('{{ input }}'.repeat(20));
    expect(refusalOf(() => template({ input: 'x'.repeat(200_000) })).detail).toContain('longer than');
  });

  test('what is put in is not looked at again', () => {
    expect(compileTemplate('{{ input }}')({ input: '{{ state.secret }}', state: { secret: 1 } })).toBe('{{ state.secret }}');
  });
});
