import { expect, test } from 'vitest';
import { isSmallTalk, searchText, withoutEnvelopes } from '../../src/core/prompt-text.ts';

const said = 'which kettle did we buy?';

test.each([
  ['a fenced block', `Conversation info (untrusted metadata):\n\`\`\`json\n{\n  "channel": "kitchen"\n}\n\`\`\`\n\n${said}`],
  ['a bare object over several lines', `Sender (untrusted metadata):\n{\n  "name": "x"\n}\n${said}`],
  ['an object on one line', `Sender (untrusted metadata): \n{"name":"x"}\n${said}`],
  ['two of them', `A (untrusted metadata):\n{"a":1}\nB (untrusted metadata):\n{"b":2}\n${said}`],
  ['mentions', `<@!123456789> ${said} <#987654321>`],
])('%s around a prompt is left out', (_name, text) => {
  expect(withoutEnvelopes(text)).toBe(said);
});

test.each([
  ['a label without a block', 'notes (untrusted metadata):\nthis is my own text'],
  ['a block without a label', '{"kettle": "green"}'],
  ['a block that never ends', `Sender (untrusted metadata):\n\`\`\`json\n${'x\n'.repeat(100)}`],
])('%s stays: it is what the user said', (_name, text) => {
  expect(withoutEnvelopes(text)).toBe(text.trim());
});

test('a prompt that is nothing but envelope stays as it is, and a hostile one costs no time', () => {
  expect(withoutEnvelopes('A (untrusted metadata):\n{"a":1}')).toBe('A (untrusted metadata):\n{"a":1}');
  const hostile = 'A (untrusted metadata):\n{\n'.repeat(20_000);
  expect(withoutEnvelopes(hostile)).toBe(hostile.trim());
});

test('a prompt of a word or two borrows terms of the answer before it; one of none, and one of enough, does not', () => {
  const answer = 'The staging server is called heron.';
  expect(searchText('and the port?', answer)).toBe('and the port? staging server');
  expect(searchText('thanks!', answer)).toBe('');
  expect(searchText('which port does production listen on', answer)).toBe('which port does production listen on');
  expect(searchText('and the port?', undefined)).toBe('and the port?');
});

test.each([
  'ok thanks',
  'yes please continue',
  'looks good to me',
  'no, the other one',
  'great, commit it',
  'run the tests again',
  'can you fix that?',
  '👍',
  '',
])('small talk is not searched for: %s', (prompt) => {
  expect(isSmallTalk(prompt)).toBe(true);
  expect(searchText(prompt, 'The staging server is called heron.')).toBe('');
});

test.each([
  'run the tests',
  'how do I run the tests again?',
  'fix the deadlock',
  'continue with the uploader',
  'which one is good?',
  'commit KA-6',
  '好的，继续部署',
])('what names something is searched for: %s', (prompt) => {
  expect(isSmallTalk(prompt)).toBe(false);
  expect(searchText(prompt, undefined)).toBe(prompt);
});
