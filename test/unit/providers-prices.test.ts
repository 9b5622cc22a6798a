import { describe, expect, it } from 'vitest';
import { redact, retryAfterMs } from '../../src/providers/errors.ts';
import { estimateCost, knownModel, modelInfo, priceFor } from '../../src/providers/prices.ts';

describe('prices', () => {
  it('knows a model and its dated snapshots, and guesses nothing else', () => {
    expect(knownModel('gpt-5')?.price).toEqual({ input: 1.25, output: 10, cacheRead: 0.125 });
    expect(knownModel('gpt-5-2025-08-07')).toBe(knownModel('gpt-5'));
    expect(knownModel('claude-haiku-4-5-20251001')).toBe(knownModel('claude-haiku-4-5'));
    expect(knownModel('gpt-5-pro')).toBeUndefined();
    expect(knownModel('gpt-5-mini')).not.toBe(knownModel('gpt-5'));
    expect(knownModel('toString')).toBeUndefined();
  });

  it('charges long requests of some models more', () => {
    expect(priceFor('gpt-6-sol', 272_000)?.input).toBe(2);
    expect(priceFor('gpt-6-sol', 272_001)?.input).toBe(4);
    expect(priceFor('nobody', 10)).toBeNull();
  });

  it('estimates a call in dollars, cached input at its own price', () => {
    const usage = { inputTokens: 1_000_000, outputTokens: 100_000, cacheReadTokens: 500_000, cacheWriteTokens: 100_000 };
    expect(estimateCost(usage, { input: 2, output: 10, cacheRead: 0.2, cacheWrite: 2.5 })).toBeCloseTo(0.8 + 0.1 + 0.25 + 1, 10);
    expect(estimateCost(usage, { input: 2, output: 10 })).toBeCloseTo(2 + 1, 10);
    expect(estimateCost(usage, null)).toBeNull();
  });

  it('trusts the configuration before the list and the list before the table', () => {
    const listed = { id: 'gpt-4.1', contextTokens: 900_000 };
    expect(modelInfo('p', listed, { outputTokensMax: 5, images: false })).toEqual({
      id: 'gpt-4.1',
      provider: 'p',
      contextTokens: 900_000,
      outputTokensMax: 5,
      price: { input: 2, output: 8, cacheRead: 0.5 },
      thinking: false,
      images: false,
    });
    expect(modelInfo('p', { id: 'nobody' })).toMatchObject({ contextTokens: null, outputTokensMax: null, price: null });
  });
});

describe('retry-after', () => {
  const now = Date.parse('2026-11-21T10:00:00Z');
  it.each<[string, Record<string, string>, number | undefined]>([
    ['seconds', { 'retry-after': '2' }, 2_000],
    ['part of a second', { 'retry-after': '0.5' }, 500],
    ['an HTTP date', { 'retry-after': 'Sat, 21 Nov 2026 10:00:30 GMT' }, 30_000],
    ['a date in the past', { 'retry-after': 'Sat, 21 Nov 2026 09:00:00 GMT' }, 0],
    ['a date far away', { 'retry-after': 'Sun, 22 Nov 2026 10:00:00 GMT' }, 600_000],
    ['milliseconds', { 'retry-after-ms': '1500' }, 1_500],
    ['a negative number', { 'retry-after': '-5' }, undefined],
    ['words', { 'retry-after': 'soon' }, undefined],
    ['nothing', {}, undefined],
  ])('reads %s', (_name, headers, expected) => {
    expect(retryAfterMs(new Headers(headers), now)).toBe(expected);
  });
});

it('takes keys out of texts, however they are written', () => {
  expect(redact('key my-secret-1, sk-ant-api03-AbC_d-1, authorization: Bearer abc.def', ['my-secret-1', 'x'])).toBe(
    'key [redacted], [redacted], authorization: Bearer [redacted]',
  );
});
