import { hash } from 'node:crypto';
import type { CauseRef, SealedSignal, SignalSource } from '../contract/signal.ts';
import { AppError } from './errors.ts';

/** Deepest nesting a payload may have; protects the stack. */
export const PAYLOAD_DEPTH_MAX = 200;
/** Streams whose token is remembered; hashing one again costs a microsecond. */
const TOKENS_CACHED_MAX = 10_000;
/** Longest chain of parents that is counted; a longer one stays at it. */
const DEPTH_MAX = 10_000;
/** Characters of an id that come from the stream's hash: 100 bits. */
const TOKEN_CHARS = 20;
const TOKEN_BITS_PER_CHAR = 5;
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
/** Up to here a test for characters that need escaping is cheaper than the native serialiser; unit: characters. */
const PLAIN_TEXT_CHARS_MAX = 64;
/** Printable ASCII without quote and backslash: stands in JSON as it is. */
const PLAIN_TEXT = /^[ !#-[\]-~]*$/;

/** A signal before its digest is known. */
export type SignalDraft = Omit<SealedSignal, 'digest'>;

const tokens = new Map<string, string>();

/** 20 lower-case base32 characters of sha256(stream); the same for ever. */
export function streamToken(stream: string): string {
  const known = tokens.get(stream);
  if (known) return known;
  const bytes = Buffer.from(hash('sha256', stream, 'hex'), 'hex');
  let token = '';
  for (let char = 0; char < TOKEN_CHARS; char += 1) token += BASE32[bitsAt(bytes, char * TOKEN_BITS_PER_CHAR)];
  if (tokens.size >= TOKENS_CACHED_MAX) tokens.clear();
  tokens.set(stream, token);
  return token;
}

/** Five bits, most significant first (RFC 4648, section 6). */
function bitsAt(bytes: Buffer, bit: number): number {
  const pair = (bytes[bit >> 3]! << 8) | (bytes[(bit >> 3) + 1] ?? 0);
  return (pair >> (11 - (bit & 7))) & 31;
}

/** `sig_<token>_<seq>`: known before the append, the same in every replay. */
export function signalId(stream: string, seq: number): string {
  return `sig_${streamToken(stream)}_${seq}`;
}

/**
 * The signal with its digest: base64url sha256 of the previous digest followed by the canonical JSON of the signal without `digest` and `gseq`.
 * The payload is taken as it is at this moment and must not change afterwards.
 *
 * @param prevDigest  digest of the stream's previous signal, '' for the first
 */
export function sealSignal(draft: SignalDraft, prevDigest: string): SealedSignal {
  return { ...draft, digest: signalDigest(draft, prevDigest) };
}

/** What the signal after the last one of a stream says. */
export interface NextSignal {
  readonly name: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly timestamp: string;
  readonly source: Omit<SignalSource, 'parent' | 'root' | 'depth'>;
  /** Null for a root. */
  readonly cause: CauseRef | null;
}

/** The next signal of a stream whose last one has this number and digest. */
export function sealNext(place: { stream: string; seq: number; digest: string }, next: NextSignal): SealedSignal {
  const { name, payload, timestamp, cause } = next;
  const { stream } = place;
  const seq = place.seq + 1;
  const id = signalId(stream, seq);
  const causality = cause
    ? { parent: cause.signal, root: cause.root, depth: Math.min(cause.depth + 1, DEPTH_MAX) }
    : { root: id, depth: 0 };
  return sealSignal({ v: 1, id, seq, stream, name, payload, timestamp, source: { ...next.source, ...causality } }, place.digest);
}

/** The digest a signal must carry when it follows `prevDigest`; what it carries now, and its `gseq`, play no part. */
export function signalDigest(signal: SignalDraft, prevDigest: string): string {
  return hash('sha256', prevDigest + canonicalSignal(signal), 'base64url');
}

/** The eight members in their canonical order; anything added to the envelope must be added here. */
function canonicalSignal(signal: SignalDraft): string {
  const { id, name, payload, seq, source, stream, timestamp, v } = signal;
  return (
    `{"id":${quote(id)},"name":${quote(name)},"payload":${canonicalJson(payload)},"seq":${seq},` +
    `"source":${canonicalJson(source)},"stream":${quote(stream)},"timestamp":${quote(timestamp)},"v":${v}}`
  );
}

/**
 * JSON text that is the same for equal values: members sorted by UTF-16 code units, no white space, numbers and strings as ECMAScript
 * writes them (RFC 8785). What JSON cannot say is treated as JSON.stringify does: undefined members are left out, NaN becomes null.
 *
 * @throws AppError `invalid_request` when nested deeper than PAYLOAD_DEPTH_MAX (also when it contains itself)
 */
export function canonicalJson(value: unknown): string {
  return write(value, 0) ?? 'null';
}

function write(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : 'null';
  if (typeof value !== 'object') return JSON.stringify(value);
  if (value === null) return 'null';
  if (depth >= PAYLOAD_DEPTH_MAX) {
    throw new AppError('invalid_request', { detail: `a payload may be nested at most ${PAYLOAD_DEPTH_MAX} levels deep; flatten it` });
  }
  if (Array.isArray(value)) return writeArray(value, depth);
  if ('toJSON' in value && typeof value.toJSON === 'function') return write(value.toJSON(), depth + 1);
  return writeObject(value as Record<string, unknown>, depth);
}

function writeArray(value: readonly unknown[], depth: number): string {
  let text = '[';
  for (let index = 0; index < value.length; index += 1) {
    if (index > 0) text += ',';
    text += write(value[index], depth + 1) ?? 'null';
  }
  return `${text}]`;
}

function writeObject(value: Record<string, unknown>, depth: number): string {
  const keys = Object.keys(value);
  if (keys.length > 1) keys.sort();
  let text = '';
  for (const key of keys) {
    const member = write(value[key], depth + 1);
    if (member === undefined) continue;
    text += `${text === '' ? '{' : ','}${quote(key)}:${member}`;
  }
  return text === '' ? '{}' : `${text}}`;
}

function quote(text: string): string {
  return text.length <= PLAIN_TEXT_CHARS_MAX && PLAIN_TEXT.test(text) ? `"${text}"` : JSON.stringify(text);
}
