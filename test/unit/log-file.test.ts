import { describe, expect, test } from 'vitest';
import type { LogHeader } from '../../src/contract/log-operations.ts';
import type { SealedSignal, Signal } from '../../src/contract/signal.ts';
import { checkHeader, createLogCheck, headerOf, logLine, readLogFile } from '../../src/core/log-file.ts';
import { type SignalDraft, sealSignal, signalId } from '../../src/core/signal-seal.ts';

const SESSION = 'ses_abcdefghijklmnopqrst';
const STREAM = `session:${SESSION}`;

/** Sealed anew, so that only what is changed is wrong. */
function chain(...changes: ((draft: SignalDraft) => SignalDraft)[]): SealedSignal[] {
  const names = ['session:idle', 'prompt:cancelled', 'session:idle'] as const;
  let digest = '';
  return names.map((name, index) => {
    const id = signalId(STREAM, index + 1);
    const draft: SignalDraft = {
      v: 1,
      id,
      seq: index + 1,
      stream: STREAM,
      name,
      payload: name === 'prompt:cancelled' ? { promptId: 'p', by: 'me' } : {},
      timestamp: `2026-01-01T00:00:0${index}.000Z`,
      source: { kind: name === 'prompt:cancelled' ? 'input' : 'machine', session: SESSION, root: id, depth: 0 },
    };
    const sealed = sealSignal(changes[index]?.(draft) ?? draft, digest);
    digest = sealed.digest!;
    return sealed;
  });
}

const same = (draft: SignalDraft) => draft;
const header = (signals: readonly SealedSignal[]): LogHeader => ({
  format: 'signet-log',
  version: 1,
  session: SESSION,
  machine: { id: 'session', version: '1', digest: 'x' },
  signals: signals.length,
  digest: signals.at(-1)!.digest!,
});

function check(signals: readonly unknown[], announced: LogHeader): number {
  const log = createLogCheck(announced);
  for (const signal of signals) log.take(signal);
  log.finish();
  return signals.length;
}

describe('a log file', () => {
  test('that is whole passes', () => {
    expect(check(chain(), header(chain()))).toBe(3);
  });

  const second = (change: (draft: SignalDraft) => Partial<SignalDraft>) => chain(same, (draft) => ({ ...draft, ...change(draft) }));
  test.each([
    ['a gap', chain().toSpliced(1, 1), 'line 3: signal 2 is expected here, not 3'],
    [
      'a changed payload',
      chain().map((signal) => (signal.seq === 2 ? { ...signal, payload: { promptId: 'q', by: 'me' } } : signal)),
      'line 3: the digest must be',
    ],
    [
      'a signal of another stream',
      second(() => ({ stream: 'session:ses_other_one' })),
      'line 3: the signal belongs to session:ses_other_one',
    ],
    [
      'a signal that another session sent',
      second(({ source }) => ({ source: { ...source, session: 'ses_other' } })),
      'line 3: the signal comes from session ses_other',
    ],
    ['an id that is not that of its place', second(() => ({ id: signalId(STREAM, 9) })), 'line 3: the id must be'],
    ['a cause that comes later', second(({ source }) => ({ source: { ...source, parent: signalId(STREAM, 3) } })), 'line 3: the cause'],
    ['a signal that causes itself', second(({ source, id }) => ({ source: { ...source, parent: id } })), 'line 3: the cause'],
    ['a cause in another stream', second(({ source }) => ({ source: { ...source, root: signalId('daemon', 1) } })), 'line 3: the cause'],
    ['time that runs back', second(() => ({ timestamp: '2025-01-01T00:00:00.000Z' })), 'line 3: 2025-01-01T00:00:00.000Z is earlier'],
    ['a name nobody knows', second(() => ({ name: 'prompt:invented' })), 'line 3: this version knows no signal prompt:invented'],
    ['a name every object has', second(() => ({ name: 'constructor:x' })), 'line 3: this version knows no signal constructor:x'],
    [
      'a kind that is not that of the name',
      second(({ source }) => ({ source: { ...source, kind: 'system' } })),
      'line 3: prompt:cancelled is a signal of kind input, not system',
    ],
    [
      'a signal that is never stored',
      second(({ source }) => ({ name: 'text:delta', source: { ...source, kind: 'stream' } })),
      'line 3: text:delta is',
    ],
    [
      'a payload that does not fit',
      second(() => ({ payload: { promptId: 7 } })),
      'line 3: the payload does not fit prompt:cancelled (promptId:',
    ],
    ['a member nobody knows', second(() => ({ extra: 1 }) as never), 'line 3: it is not a signal'],
    ['something else', [chain()[0], null], 'line 3: it is not a signal'],
    ['a missing end', chain().slice(0, 2), 'line 1: the header announces 3 signals, there are 2'],
  ])('with %s is refused at its line', (_what, signals, reason) => {
    expect(() => check(signals, header(chain()))).toThrow(reason);
  });

  test('whose header has another digest is refused', () => {
    expect(() => check(chain(), { ...header(chain()), digest: 'other' })).toThrow(
      "line 1: the header's digest is not that of the last signal",
    );
    expect(() => checkHeader({ ...header(chain()), version: 2 })).toThrow('line 1: it is not the header of a signet-log of version 1');
  });

  test('is written in the order it was stored, without the log-wide number, and read back the same', () => {
    const created = {
      ...chain()[0]!,
      payload: { session: SESSION, machine: { id: 'session', version: '1', digest: 'x' } },
      gseq: 70,
    } as Signal;
    const text = logLine(headerOf(created, created)) + logLine(created);
    expect(text).not.toContain('gseq');
    const { header: first, signals } = readLogFile(text);
    expect(checkHeader(first)).toMatchObject({ session: SESSION, signals: 1, digest: created.digest });
    expect(logLine(signals[0] as Signal)).toBe(`${text.split('\n')[1]}\n`);
    expect(() => readLogFile(`${text}{"cut`)).toThrow('line 3: it is not JSON');
  });
});
