import { expect, test } from 'vitest';
import { parseJsonAnswer } from '../../src/core/json-answer.ts';

test('JSON stands alone or inside a fence', () => {
  const written = ['{"a":1}', ' {"a":1}\n', '```json\n{"a":1}\n```', '\n```\n{"a":1}```\n ', '```json \n\n {"a":1} \n\n```'];
  for (const text of written) expect(parseJsonAnswer(text)).toEqual({ a: 1 });
  expect(parseJsonAnswer('```\n"a ``` b"\n```')).toBe('a ``` b');
});

test('anything else is refused', () => {
  const written = [
    '',
    '```',
    '```\n```',
    '``````',
    '```json{}```',
    '```js\n{}\n```',
    '````\n{}\n````',
    '```json\n{}',
    'Here:\n```json\n{}\n```',
  ];
  for (const text of written) expect(() => parseJsonAnswer(text), text).toThrow(SyntaxError);
});

test('a fence that is never closed is read in one pass', () => {
  expect(() => parseJsonAnswer(` \`\`\`json\n ${'\n'.repeat(2_000_000)}x`)).toThrow(SyntaxError);
  expect(parseJsonAnswer(`\`\`\`json\n1${'\n'.repeat(2_000_000)}\`\`\``)).toBe(1);
});
