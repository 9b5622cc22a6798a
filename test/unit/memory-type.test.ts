import { expect, test } from 'vitest';
import { inferType } from '../../src/core/memory-type.ts';

test.each([
  'Lena prefers pnpm over npm and yarn for every JavaScript project.',
  'user wants dark mode',
  'likes tea',
  'Sam likes jazz',
  'I do not like surprise parties',
  'My favourite colour is green',
  'Lena is vegetarian and is allergic to hazelnuts.',
])('%j is a preference', (content) => expect(inferType(content)).toBe('preference'));

test.each([
  'Answer in German when Lena writes German, otherwise in English.',
  'Never run migrations by hand on production',
  'Tests that touch the database must use withTransaction',
  'do not deploy on Fridays',
  'When in doubt, ask Jonas',
  'Use tabs, not spaces, in Go files',
  'Keep answers short, no emojis.',
])('%j is a rule', (content) => expect(inferType(content)).toBe('rule'));

test.each([
  'I want to finish this today',
  'We want the garden app to show frost warnings',
  'The customer wants a refund',
  'The parser is like a tree',
  'It looks like rain',
  'I love your painting! Where did you learn that?',
  'Would you like to see it?',
  "I don't know why",
  'a dislike of tall buildings',
  'The likelihood of rain is small',
  'We never met in the end yesterday',
])('%j is neither', (content) => expect(['preference', 'rule']).not.toContain(inferType(content)));
