import { expect, test } from 'vitest';
import { researchInput } from '../../machines/session-context.ts';
import { planResearchInput } from '../../src/tools/research-input.ts';

const text = { type: 'string' };

test.each([
  ['query alone', { properties: { query: text }, required: ['query'] }, { query: 'tea' }],
  ['nothing at all', {}, { query: 'tea' }],
  ['the one text it requires', { properties: { q: text, limit: { type: 'integer' } }, required: ['q'] }, { q: 'tea' }],
  ['the one text it has', { properties: { topic: text }, additionalProperties: false }, { topic: 'tea' }],
  [
    'fields with values of their own',
    { properties: { q: text, limit: { type: 'integer', default: 5 }, kind: { const: 'web' } }, required: ['q', 'limit', 'kind'] },
    { q: 'tea', limit: 5, kind: 'web' },
  ],
  ['at most so many characters', { properties: { query: { ...text, maxLength: 2 } }, required: ['query'] }, { query: 'te' }],
])('a tool that takes %s is given the prompt so', (_what, schema, input) => {
  const plan = planResearchInput({ type: 'object', ...schema });
  if (plan !== null && 'fault' in plan) throw new Error(plan.fault);
  const tool = { name: 'scout', class: 'pure', origin: 'custom', tokens: 1, ...(plan ? { research: plan } : {}) } as const;
  expect(researchInput(tool, 'tea')).toEqual(input);
});

test.each([
  [{ properties: { query: text, city: text }, required: ['query', 'city'] }, 'also requires city'],
  [{ properties: { query: { type: 'integer' } } }, 'takes no text'],
  [{ properties: { count: { type: 'integer' } }, required: ['count'] }, 'takes no text'],
])('a tool that wants more than the prompt is told what', (schema, fault) => {
  expect(planResearchInput({ type: 'object', ...schema })).toMatchObject({ fault: expect.stringContaining(fault) });
});
