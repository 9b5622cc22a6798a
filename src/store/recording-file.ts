import { closeSync, ftruncateSync, mkdirSync, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { AppError } from '../core/errors.ts';

/** Largest recording that is read; unit: bytes. */
const RECORDING_BYTES_MAX = 268_435_456;

/** A recording that is being written. */
export interface RecordingFile {
  /** One line, with its end; in the file when it returns, also when the process dies after it. */
  write(line: string): void;
  close(): void;
}

/** The text of a recording, null when there is no such file. @throws AppError `recording_invalid` */
export function readRecordingFile(path: string): string | null {
  try {
    const { size } = statSync(path);
    if (size > RECORDING_BYTES_MAX) {
      throw new AppError('recording_invalid', {
        detail: `${path} has ${size} bytes, more than ${RECORDING_BYTES_MAX}; record less at once`,
      });
    }
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    if (error instanceof AppError) throw error;
    throw new AppError('recording_invalid', { detail: `cannot read ${path}: ${(error as Error).message}`, cause: error });
  }
}

/**
 * @param kept  what of the file stays: its first bytes, up to the end of a line
 * @throws AppError `workspace_unwritable`
 */
export function openRecordingFile(path: string, kept: number): RecordingFile {
  let file: number;
  try {
    mkdirSync(dirname(path), { recursive: true });
    // Prompts and answers are nobody else's business.
    file = openSync(path, 'a', 0o600);
    ftruncateSync(file, kept);
  } catch (error) {
    throw new AppError('workspace_unwritable', { detail: `cannot write the recording ${path}: ${(error as Error).message}`, cause: error });
  }
  let isOpen = true;
  return {
    write: (line) => {
      // What ends after the recording was closed has taken no effect.
      if (isOpen) writeSync(file, line);
    },
    close: () => {
      isOpen = false;
      closeSync(file);
    },
  };
}
