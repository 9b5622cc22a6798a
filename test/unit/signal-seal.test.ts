import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Signal } from '../../src/contract/signal.ts';
import { canonicalJson, type SignalDraft, sealSignal, signalDigest, signalId, streamToken } from '../../src/core/signal-seal.ts';

const draft: SignalDraft = {
  v: 1,
  id: signalId('daemon', 1),
  seq: 1,
  stream: 'daemon',
  name: 'daemon:start',
  payload: { version: '1', pid: 7 },
  timestamp: '2026-01-01T00:00:00.000Z',
  source: { kind: 'system', root: signalId('daemon', 1), depth: 0 },
};

test('a stream token is the first 20 base32 characters of its sha256, in lower case, and ids carry it', () => {
  // printf daemon | sha256sum | xxd -r -p | base32 | cut -c1-20 | tr A-Z a-z
  expect(streamToken('daemon')).toBe('655rfjj6zzpww4cqqaf3');
  expect(signalId('daemon', 42)).toBe('sig_655rfjj6zzpww4cqqaf3_42');
  expect(streamToken('session:aaaaaa')).not.toBe(streamToken('session:aaaaab'));
});

test('a digest is base64url sha256 of the previous digest and the canonical text without digest and gseq', () => {
  const text =
    '{"id":"sig_655rfjj6zzpww4cqqaf3_1","name":"daemon:start","payload":{"pid":7,"version":"1"},"seq":1,' +
    '"source":{"depth":0,"kind":"system","root":"sig_655rfjj6zzpww4cqqaf3_1"},"stream":"daemon","timestamp":"2026-01-01T00:00:00.000Z","v":1}';
  const sha256 = (of: string): string => createHash('sha256').update(of).digest('base64url');

  expect(sealSignal(draft, '').digest).toBe(sha256(text));
  expect(sealSignal(draft, 'before').digest).toBe(sha256(`before${text}`));
  expect(signalDigest({ ...sealSignal(draft, ''), gseq: 9 } as SignalDraft, '')).toBe(sha256(text));
});

test('a sealed signal with a log-wide number fits the contract', () => {
  const sealed = sealSignal(draft, '');
  expect(Signal.parse({ ...sealed, gseq: 1 })).toEqual({ ...sealed, gseq: 1 });
});

test('changing any member changes the digest', () => {
  const whole = signalDigest(draft, '');
  const changes: Partial<SignalDraft>[] = [
    { id: 'sig_655rfjj6zzpww4cqqaf3_2' },
    { seq: 2 },
    { stream: 'daemon2' },
    { name: 'daemon:stop' },
    { payload: { version: '1', pid: 8 } },
    { timestamp: '2026-01-01T00:00:00.001Z' },
    { source: { ...draft.source, depth: 1 } },
  ];
  const digests = changes.map((change) => signalDigest({ ...draft, ...change }, ''));
  expect(new Set([whole, ...digests]).size).toBe(8);
});

test('canonical text sorts members, keeps list order and says values as JSON.stringify does', () => {
  expect(canonicalJson({ b: 1, a: [3, 1, { d: null, c: true }], 10: 'x', 9: 'y' })).toBe(
    '{"10":"x","9":"y","a":[3,1,{"c":true,"d":null}],"b":1}',
  );
  expect(canonicalJson({ a: undefined, b: [undefined], c: Number.NaN, d: -0, e: 1e21 })).toBe('{"b":[null],"c":null,"d":0,"e":1e+21}');
  expect(canonicalJson('tab\t"é\u2028\ud800')).toBe('"tab\\t\\"é\u2028\\ud800"');
  expect(canonicalJson({ at: new Date(0) })).toBe('{"at":"1970-01-01T00:00:00.000Z"}');
  expect(canonicalJson({})).toBe('{}');
});

test('canonical text of any JSON value parses back to it and does not depend on the order of members', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const plain = JSON.parse(JSON.stringify(value));
      expect(JSON.parse(canonicalJson(plain))).toEqual(plain);
      expect(canonicalJson(reversed(plain))).toBe(canonicalJson(plain));
    }),
  );
});

test('a payload nested too deep, or within itself, is refused instead of breaking the stack', () => {
  const loop: Record<string, unknown> = {};
  loop.self = loop;
  expect(() => canonicalJson(loop)).toThrow(expect.objectContaining({ code: 'invalid_request' }));
  expect(() => sealSignal({ ...draft, payload: JSON.parse(`{"a":${'['.repeat(5_000)}${']'.repeat(5_000)}}`) }, '')).toThrow('200 levels');
  expect(canonicalJson(JSON.parse(`${'['.repeat(200)}${']'.repeat(200)}`))).toHaveLength(400);
});

/** The same value with the members of every object added in the opposite order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, reversed(member)]),
  );
}
