import { SIGNALS, type SignalName } from '../contract/catalog.ts';
import { LogHeader, LogSignal } from '../contract/log-operations.ts';
import type { CauseRef, SealedSignal, Signal } from '../contract/signal.ts';
import type { SignalSpec } from '../contract/signal-spec.ts';
import { AppError } from './errors.ts';
import { signalDigest, signalId } from './signal-seal.ts';

/** The line of a log file in which the first signal stands. */
const FIRST_SIGNAL_LINE = 2;

/** First line of a log file. @param created  the session's first signal @param last  its newest */
export function headerOf(created: Signal, last: Signal): LogHeader {
  const { session, machine } = created.payload as { session: string; machine: LogHeader['machine'] };
  return { format: 'signet-log', version: 1, session, machine, signals: last.seq, digest: last.digest ?? '' };
}

/**
 * Any line of a log file, with its end. A signal goes without its log-wide number, which is another one in every workspace; members keep
 * the order they were stored in, because digests of states depend on it.
 */
export function logLine(content: LogHeader | Signal | SealedSignal): string {
  const { gseq: _ofThisWorkspace, ...rest } = content as Signal;
  return `${JSON.stringify(rest)}\n`;
}

/** The lines of a log file as values, unchecked. @throws AppError `invalid_request` with the number of a line that is not JSON */
export function readLogFile(text: string): { header: unknown; signals: unknown[] } {
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  const [header, ...signals] = lines.map((line, index) => {
    try {
      return JSON.parse(line) as unknown;
    } catch (error) {
      throw refused(index + 1, 'it is not JSON', error);
    }
  });
  return { header, signals };
}

export interface LogCheck {
  /** The next signal, checked. @throws AppError `invalid_request` with line number and reason */
  take(value: unknown): SealedSignal;
  /** After the last signal. @throws AppError `invalid_request` when the header says another number or digest */
  finish(): void;
}

/**
 * Checks a log file signal by signal, without trusting anything it says of itself: envelope and payload fit their schemas, all belong to
 * the one session, numbers are dense from 1, ids and digests are computed anew, causes come before what they caused, time never runs back.
 */
export function createLogCheck(header: LogHeader): LogCheck {
  const stream = `session:${header.session}`;
  let digest = '';
  let seq = 0;
  let at = 0;
  const outside = new Set<string>();
  return {
    take(value) {
      const line = FIRST_SIGNAL_LINE + seq;
      const signal = checkShape(value, line);
      seq += 1;
      if (signal.stream !== stream) throw refused(line, `the signal belongs to ${signal.stream}, not to ${stream}`);
      const { session = header.session } = signal.source;
      if (session !== header.session) throw refused(line, `the signal comes from session ${session}, not from ${header.session}`);
      if (signal.seq !== seq) throw refused(line, `signal ${seq} is expected here, not ${signal.seq}`);
      const brought = (signal.payload as { cause?: CauseRef }).cause;
      if (signal.name === 'session:created' || signal.name === 'prompt:received')
        for (const cause of brought ? [brought.signal, brought.root] : []) outside.add(cause);
      checkIds(signal, line, outside);
      const right = signalDigest(signal, digest);
      if (signal.digest !== right) throw refused(line, `the digest must be ${right}; the signal or one before it was changed`);
      const time = Date.parse(signal.timestamp);
      if (time < at) throw refused(line, `${signal.timestamp} is earlier than the signal before`);
      at = time;
      digest = right;
      return signal;
    },
    finish() {
      if (header.signals !== seq) throw refused(1, `the header announces ${header.signals} signals, there are ${seq}`);
      if (header.digest !== digest) throw refused(1, `the header's digest is not that of the last signal, ${digest}`);
    },
  };
}

/** @throws AppError `invalid_request` naming line 1 */
export function checkHeader(value: unknown): LogHeader {
  const parsed = LogHeader.safeParse(value);
  if (!parsed.success) throw refused(1, `it is not the header of a signet-log of version 1 (${firstIssue(parsed.error.issues)})`);
  return parsed.data;
}

/** The value itself, not a copy: the order of its members is part of what is stored. */
function checkShape(value: unknown, line: number): SealedSignal {
  const envelope = LogSignal.safeParse(value);
  if (!envelope.success) throw refused(line, `it is not a signal (${firstIssue(envelope.error.issues)})`);
  const { name, source, payload } = envelope.data;
  const spec: SignalSpec | undefined = Object.hasOwn(SIGNALS, name) ? SIGNALS[name as SignalName] : undefined;
  if (!spec) throw refused(line, `this version knows no signal ${name}`);
  if (spec.kind !== source.kind || spec.kind === 'stream')
    throw refused(line, `${name} is a signal of kind ${spec.kind}, not ${source.kind}`);
  const checked = spec.payload.safeParse(payload);
  if (!checked.success) throw refused(line, `the payload does not fit ${name} (${firstIssue(checked.error.issues)})`);
  return value as SealedSignal;
}

/** @param outside  signals of other streams that brought the session or a prompt about */
function checkIds({ id, seq, stream, source }: SealedSignal, line: number, outside: ReadonlySet<string>): void {
  if (id !== signalId(stream, seq)) throw refused(line, `the id must be ${signalId(stream, seq)}, not ${id}`);
  for (const cause of [source.parent ?? id, source.root]) {
    if (outside.has(cause)) continue;
    const number = Number(cause.slice(cause.lastIndexOf('_') + 1));
    const isKnown =
      number >= 1 && number <= seq && cause === signalId(stream, number) && (cause === id ? source.parent === undefined : true);
    if (!isKnown) throw refused(line, `the cause ${cause} is not an earlier signal of this log`);
  }
}

function firstIssue(issues: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[]): string {
  const { path = [], message = 'unreadable' } = issues[0] ?? {};
  return path.length === 0 ? message : `${path.map(String).join('.')}: ${message}`;
}

/** A refusal that names the line. */
export function refused(line: number, reason: string, cause?: unknown): AppError {
  const pointer = line < FIRST_SIGNAL_LINE ? '/header' : `/signals/${line - FIRST_SIGNAL_LINE}`;
  const detail = `line ${line}: ${reason}`;
  return new AppError('invalid_request', { detail, errors: [{ pointer, detail }], cause });
}
