import { describe, expect, test } from 'vitest';
import { createRedactor } from '../../src/core/redact.ts';

const VALUE = 'Tr0ub4dor&3 "käse"/+~';
const redact = (text: string, value = VALUE, isCut = false) => createRedactor([value]).redact(Buffer.from(text), isCut);
const base64 = (text: string) => Buffer.from(text).toString('base64');

describe('a secret is not readable in', () => {
  const ascii = JSON.stringify(VALUE).replace(/[^\0-~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const utf16 = Buffer.from(VALUE, 'utf16le');
  const separated = (between: string, each = '$&') =>
    Buffer.from(VALUE)
      .toString('hex')
      .match(/../g)!
      .map((byte) => byte.replace(/../, each))
      .join(between);
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
    ['base64 of the reverse', base64([...VALUE].reverse().join('')), base64([...VALUE].reverse().join('')).slice(0, 12)],
    ['escapes of a shell', Buffer.from(VALUE).toString('hex').replace(/../g, '\\x$&'), '\\x54\\x72'],
    ['an array of C', Buffer.from(VALUE).toString('hex').replace(/../g, '0x$&, '), '0x54, 0x72'],
    ['hex with colons', separated(':'), '54:72:30'],
    ['hex with hyphens', separated('-'), '54-72-30'],
    ['hex with commas', separated(', '), '54, 72, 30'],
    ['hex with dots', separated('.'), '54.72.30'],
    ['hex with semicolons', separated(';'), '54;72;30'],
    ['an array with semicolons', separated(';', '0x$&'), '0x54;0x72'],
    ['numbered escapes of HTML', separated(';', '&#x$&'), '&#x54;&#x72'],
    ['reversed hex with colons', [...separated(':')].reverse().join(''), '03:27:45'],
    ['hex of UTF-16', utf16.toString('hex'), '540072003000'],
    ['hex of UTF-16 with colons', utf16.toString('hex').replace(/..(?=.)/g, '$&:'), '54:00:72'],
    ['hex of UTF-16, big end first', Buffer.from(utf16).swap16().toString('hex'), '005400720030'],
    ['its characters with dots', `${[...VALUE].join('.')}.`, 'T.r.0.u'],
    ['escape() of JavaScript', escape(VALUE), 'Tr0ub4dor'],
    ['base32', 'KRZDA5LCGRSG64RGGMQCE26DURZWKIRPFN7A====', 'KRZDA5LC'],
    ['base32 behind three bytes', 'PB4HUVDSGB2WENDEN5ZCMMZAEJV4HJDTMURC6K36', 'GB2WENDEN5'],
    ['HTML', VALUE.replaceAll('&', '&amp;').replaceAll('"', '&quot;'), 'Tr0ub4dor'],
    ['characters of two bytes', [...VALUE].map((char) => `${char}\0`).join(''), 'T\0r\0'],
    ['lines of one character', [...VALUE].join('\n'), 'T\nr\n0'],
  ])('%s', (_name, text, trace) => {
    const shown = redact(`before ${text} after`);
    expect(shown).toContain('[REDACTED]');
    expect(shown).not.toContain(trace);
    expect(shown).toMatch(/^before .*after$/s);
  });
});

describe('a secret is not readable with', () => {
  const within = (between: string, text = VALUE) => [...text].join(between);
  const wide = [...VALUE].map((char) => (/[!-~]/.test(char) ? String.fromCodePoint(char.charCodeAt(0) + 0xfee0) : char)).join('');
  test.each([
    ['zero-width spaces', within('\u200b')],
    ['zero-width joiners', within('\u200d')],
    ['byte order marks', within('\ufeff')],
    ['soft hyphens', within('\u00ad')],
    ['tags', within('\u{e0041}')],
    ['variation selectors', within('\ufe0f')],
    ['bidirectional marks', within('\u202e')],
    ['combining marks', within('\u0301')],
    ['several marks', within('\u0301\u0327\u200b')],
    ['capitals beyond ASCII', VALUE.toUpperCase()],
    ['decomposed letters', VALUE.normalize('NFD')],
    ['full-width letters', wide],
    ['no-break spaces', within('\u00a0')],
    ['hex with zero-width spaces', within('\u200b', Buffer.from(VALUE).toString('hex'))],
  ])('%s in it', (_name, text) => {
    expect(redact(`é before ${text} after é`)).toBe('é before [REDACTED] after é');
  });

  test('characters that a broken output holds', () => {
    const output = Buffer.concat([Buffer.from([0xff, 0xc3, 0x28, 0xe2, 0x82]), Buffer.from(within('\u200b')), Buffer.from([0xf0, 0x9f])]);
    expect(createRedactor([VALUE]).redact(output)).not.toMatch(/T.?r.?0/u);
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

test('what has a few letters of a secret with something between them stays', () => {
  expect(redact('10:15 and 10-15', '1015')).toBe('10:15 and 10-15');
});

describe('a secret of several lines of a dump is not readable in', () => {
  const secret = 'canary-0123456789-Zq8Wv7Ut6Sr5-end';
  const rows = (bytes: number) => Array.from({ length: Math.ceil((secret.length + 4) / bytes) }, (_, row) => row * bytes);
  const dump = (line: (offset: number, part: string) => string) =>
    rows(16)
      .map((offset) => line(offset, `say ${secret}`.slice(offset, offset + 16)))
      .join('\n');
  const hex = (text: string) => Buffer.from(text).toString('hex');
  test.each([
    [
      'xxd',
      dump(
        (at, part) =>
          `${at.toString(16).padStart(8, '0')}: ${hex(part)
            .replace(/.{1,4}/g, '$& ')
            .padEnd(40)} ${part}`,
      ),
      ['3031 3233', 'canary', 'Zq8W', 'r5-end'],
    ],
    [
      'hexdump -C',
      dump((at, part) => `${at.toString(16).padStart(8, '0')}  ${hex(part).replace(/../g, '$& ').padEnd(49)} |${part}|`),
      ['30 31 32', 'canary', 'Zq8W', 'r5-end'],
    ],
    [
      'xxd of UTF-16',
      rows(8)
        .map((offset) => [offset * 2, `say ${secret}`.slice(offset, offset + 8)] as const)
        .map(([at, part]) => {
          const bytes = Buffer.from(part, 'utf16le')
            .toString('hex')
            .replace(/.{1,4}/g, '$& ');
          return `${at.toString(16).padStart(8, '0')}: ${bytes.padEnd(40)} ${part.replace(/./g, '$&.')}`;
        })
        .join('\n'),
      ['3000 3100 3200', 'c.a.n.a', 'Z.q.8.W', 'r.5.-.e.n.d'],
    ],
    ['od -t x1', dump((at, part) => `${at.toString(8).padStart(7, '0')} ${hex(part).replace(/../g, '$& ').trim()}`), ['30 31 32']],
    [
      'od -c',
      dump((at, part) => `${at.toString(8).padStart(7, '0')}${part.replace(/./g, '   $&')}`),
      ['n   a   r   y', '5   -   e   n   d'],
    ],
  ])('%s', (_name, text, traces) => {
    const shown = redact(`before\n${text}\nafter 00: 63\n`, secret);
    expect(shown).toMatch(/^before\n0{7,8}.*\[REDACTED\]\nafter 00: 63\n$/s);
    for (const trace of traces) expect(shown).not.toContain(trace);
  });
  test('a dump of something else stays as it is', () => {
    const text = '00000000: 6361 6e61 7279 2d78  canary-x\n00000008: 6162 6364            abcd\n';
    expect(redact(text, secret)).toBe(text);
  });
});

describe('work grows with output and secret, not with their product', () => {
  const SECRET_CHARS = 32_768;
  const OUTPUT_BYTES = 262_144;
  /** Of all forms of a secret together, each looked at a few times. */
  const STEPS_MAX = 8 * OUTPUT_BYTES + 720 * SECRET_CHARS;
  const output = Buffer.alloc(OUTPUT_BYTES, 'a');
  const line = (at: number) => `a${String(at).padStart(7, '0')}`;
  const lines = Array.from({ length: 3_600 }, (_, at) => line(at)).join('\n');
  test.each([
    ['a secret of one letter', 'a'.repeat(SECRET_CHARS), output, true],
    ['one that fails at its end', `${'a'.repeat(SECRET_CHARS - 1)}b`, Buffer.concat([Buffer.from('aaab'), output]), false],
    ['one that fails at its beginning', `b${'a'.repeat(SECRET_CHARS - 1)}`, Buffer.concat([Buffer.from('baaa'), output]), false],
    ['one of many lines', lines, output, false],
    ['one of many lines that are all there', lines, Buffer.from(`${lines}\n`.repeat(8)), true],
  ])('%s', async (_name, secret, bytes, isFound) => {
    let steps = 0;
    let slices = 0;
    const shown = await createRedactor([secret]).redactInSlices(bytes, true, async (made) => {
      steps += made;
      slices += 1;
    });
    expect(steps).toBeLessThan(STEPS_MAX);
    expect(slices).toBeGreaterThan(1);
    if (isFound) expect(shown).not.toMatch(/a{4}|a0/);
  });
});
