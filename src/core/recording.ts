import { hash } from 'node:crypto';
import { RecordedEffect, RecordingHeader } from '../contract/recording.ts';
import { AppError } from './errors.ts';
import { canonicalJson } from './signal-seal.ts';

export interface Recording {
  readonly header: RecordingHeader;
  /** In the order in which they took effect. */
  readonly effects: readonly RecordedEffect[];
}

/** The name of a call by what it asks: sha256 of kind and canonical request. */
export function effectKey(kind: RecordedEffect['kind'], request: unknown): string {
  return hash('sha256', canonicalJson([kind, request]), 'hex');
}

/** A line of a recording with its end: members sorted, nothing that depends on the clock, so that two recordings of the same run differ in nothing. */
export function recordingLine(line: RecordingHeader | RecordedEffect): string {
  return `${canonicalJson(line)}\n`;
}

/**
 * Reads a recording. A last line without its end is left out: the process that wrote it died.
 *
 * @param name  of the file, for errors
 * @throws AppError `recording_invalid` with the number of the line
 */
export function readRecording(text: string, name: string): Recording {
  const lines = text.split('\n').slice(0, -1);
  const refuse = (index: number, reason: string) =>
    new AppError('recording_invalid', { detail: `${name}, line ${index + 1}: ${reason}; record it anew` });
  const values = lines.map((line, index): unknown => {
    try {
      return JSON.parse(line);
    } catch {
      throw refuse(index, 'it is not JSON');
    }
  });
  const header = RecordingHeader.safeParse(values[0]);
  if (!header.success) throw refuse(0, 'it is not the header of a signet-recording of version 1');
  const effects = values.slice(1).map((value, index) => {
    const effect = RecordedEffect.safeParse(value);
    const issue = effect.error?.issues[0];
    if (!effect.success)
      throw refuse(index + 1, `it is not the outcome of a call (${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''})`);
    const right = effectKey(effect.data.kind, effect.data.request);
    if (effect.data.key !== right) throw refuse(index + 1, `the key of its request is ${right}; the line was changed`);
    return effect.data;
  });
  return { header: header.data, effects };
}
