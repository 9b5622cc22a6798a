import { describe, expect, test } from 'vitest';
import { createRedactor } from '../../src/core/redact.ts';

const VALUE = 'Tr0ub4dor&3 "käse"/+~';
const redact = (text: string, value = VALUE, isCut = false) => createRedactor([value]).redact(Buffer.from(text), isCut);
const base64 = (text: string) => Buffer.from(text).toString('base64');

describe('a secret is not readable in', () => {
  const ascii = JSON.stringify(VALUE).replace(/[^\0-~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
  test.each([
    ['its own words', VALUE, 'Tr0ub4dor'],
    ['base64', base64(VALUE), base64(VALUE).slice(0, 12)],
    ['base64 behind one byte', base64(`x${VALUE}`), base64(`x${VALUE}`).slice(4, 16)],
    ['base64 behind two bytes', base64(`xy${VALUE}`), base64(`xy${VALUE}`).slice(4, 16)],
    ['base64 within a longer text', base64(`user:${VALUE}@host`), base64(`user:${VALUE}`).slice(8, 20)],
    ['base64url', Buffer.from(VALUE).toString('base64url'), Buffer.from(VALUE).toString('base64url').slice(0, 12)],
    ['wrapped base64', base64(VALUE).replace(/.{7}/g, '$&\n'), base64(VALUE).slice(7, 14)],
    ['hex', Buffer.from(VALUE).toString('hex'), '5472307562'],
    ['hex in capitals with spaces', Buffer.from(VALUE).toString('hex').toUpperCase().replace(/../g, '$& '), '54 72 30 75'],
    ['a URL', encodeURIComponent(VALUE), 'Tr0ub4dor'],
    ['a form', new URLSearchParams({ q: VALUE }).toString(), 'Tr0ub4dor'],
    ['a URL with every byte', Buffer.from(VALUE).toString('hex').replace(/../g, '%$&'), '%54%72'],
    ['JSON', JSON.stringify({ key: VALUE }), 'Tr0ub4dor'],
    ['JSON in JSON', JSON.stringify(JSON.stringify(VALUE)), 'Tr0ub4dor'],
    ['ASCII JSON', ascii, 'Tr0ub4dor'],
    ['reverse', [...VALUE].reverse().join(''), 'rod4bu0rT'],
    ['reversed base64', [...base64(VALUE)].reverse().join(''), [...base64(VALUE)].reverse().join('').slice(4, 16)],
    ['other case', VALUE.toUpperCase().replace('Ä', 'ä'), 'TR0UB4DOR'],
    ['lines of one character', [...VALUE].join('\n'), 'T\nr\n0'],
  ])('%s', (_name, text, trace) => {
    const shown = redact(`before ${text} after`);
    expect(shown).toContain('[REDACTED]');
    expect(shown).not.toContain(trace);
    expect(shown).toMatch(/^before .*after$/s);
  });
});

test('what is no secret stays as it is, byte for byte', () => {
  const text = 'päck 日本 \t{"a": [1, 2]}\r\n'.repeat(500);
  expect(redact(text)).toBe(text);
  expect(redact('')).toBe('');
});

test('several secrets, next to and across each other', () => {
  const redactor = createRedactor(['alpha-beta-gamma', 'gamma-delta']);
  expect(redactor.redact(Buffer.from('alpha-beta-gamma-delta alpha-beta-gamma gamma-delta gamma'))).toBe(
    '[REDACTED] [REDACTED] [REDACTED] gamma',
  );
});

test('each line of a secret of many lines', () => {
  const pem = '-----BEGIN KEY-----\nMIIEvQIBADANBgkqh\nkiG9w0BAQEFAASCBK\n-----END KEY-----\n';
  expect(redact('line 2: kiG9w0BAQEFAASCBK.', pem)).toBe('line 2: [REDACTED].');
  expect(redact(pem.replaceAll('\n', ' '), pem)).not.toContain('MIIE');
});

test('the beginning of a secret at the end of what was cut', () => {
  const value = 'abcabcabcd-0123456789';
  expect(redact('say abcabcabcabcd-01', value, true)).toBe('say abc[REDACTED]');
  expect(redact('say abcabcabcabcd-01', value)).toBe('say abcabcabcabcd-01');
  expect(redact('say a b c a', value, true)).toBe('say [REDACTED]');
});

test('a cut within a character leaves no broken one', () => {
  const bytes = Buffer.from('käse 日本');
  expect(createRedactor(['nothing']).redact(bytes.subarray(0, bytes.length - 1), true)).toBe('käse 日');
  expect(createRedactor(['nothing']).redact(bytes, true)).toBe('käse 日本');
  expect(createRedactor(['nothing']).redact(bytes.subarray(0, 2), true)).toBe('k');
});

test('every alignment and neighbourhood, for many values', () => {
  let state = 7;
  const random = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state % below;
  };
  for (let round = 0; round < 300; round += 1) {
    const value = Array.from({ length: 8 + random(60) }, () => String.fromCharCode(33 + random(94))).join('');
    const before = 'q'.repeat(random(7));
    const after = 'z'.repeat(random(7));
    const encoded = base64(before + value + after);
    // The six bits at each end are shared with a neighbour: they alone may be left.
    const shown = redact(encoded, value);
    const core = encoded.slice(Math.ceil((before.length * 8) / 6), Math.floor(((before.length + value.length) * 8) / 6));
    expect([value, shown.includes(core), shown.includes('[REDACTED]')]).toEqual([value, false, true]);
  }
});
