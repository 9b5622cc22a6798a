import { type RecordedProvider, type RecordingConfig, RecordingHeader } from './contract/recording.ts';
import { newId } from './core/clock.ts';
import { AppError } from './core/errors.ts';
import type { Logger } from './core/logger.ts';
import type { Provider } from './core/provider.ts';
import { type Recording, readRecording, recordingLine } from './core/recording.ts';
import type { ProviderRegistry } from './providers/registry.ts';
import { EffectRecorder } from './runtime/recording/effect-recorder.ts';
import { openRecordingFile, readRecordingFile } from './store/recording-file.ts';

export interface RecordingOptions extends RecordingConfig {
  /** Outcomes take effect one at a time, in the recorded order; for a process that does nothing else. */
  readonly ordered?: boolean;
  /** `record` begins a new file; otherwise it goes on with the one there is. */
  readonly anew?: boolean;
}

export interface OpenRecorder {
  readonly recorder: EffectRecorder;
  close(): void;
}

/**
 * What stands between the runtime and its providers, tools and hooks; null in mode live. In a replay the recorded providers take the place of
 * those that are configured, so that it needs no keys.
 *
 * @throws AppError `recording_invalid`, `workspace_unwritable`
 */
export function openRecorder(options: RecordingOptions, providers: ProviderRegistry, log: Logger): OpenRecorder | null {
  const { mode, path, mismatch, ordered = false, anew = false } = options;
  if (mode === 'live' || path === undefined) return null;
  const text = mode === 'record' && anew ? null : readRecordingFile(path);
  // A file without a whole line is one whose process died at its start.
  const kept = text?.slice(0, text.lastIndexOf('\n') + 1) || null;
  if (kept === null && mode === 'replay') {
    throw new AppError('recording_invalid', { detail: `there is no recording ${path}; make it with the mode record` });
  }
  const recording = kept === null ? newRecording(providers) : readRecording(kept, path);
  const file = mode === 'replay' ? null : openRecordingFile(path, Buffer.byteLength(kept ?? ''));
  if (kept === null) file?.write(recordingLine(recording.header));
  if (mode !== 'record') standIn(recording.header.providers, providers, mode === 'replay' && mismatch !== 'passthrough');
  const recorder = new EffectRecorder({ mode, mismatch, recording, write: file && ((line) => file.write(line)), ordered, log });
  return { recorder, close: () => file?.close() };
}

function newRecording(providers: ProviderRegistry): Recording {
  const recorded = providers.list().map(({ id, kind, defaultModel, isDefault }) => ({ id, kind, model: defaultModel, default: isDefault }));
  const header = RecordingHeader.safeParse({ format: 'signet-recording', version: 1, id: newId('rec'), providers: recorded });
  if (header.success) return { header: header.data, effects: [] };
  // What could not be read again is not begun.
  const faults = header.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join('; ');
  throw new AppError('recording_invalid', {
    detail: `a recording of these providers could not be read again: ${faults}; mend the provider`,
  });
}

function standIn(recorded: readonly RecordedProvider[], providers: ProviderRegistry, all: boolean): void {
  const configured = providers.list().map(({ id }) => id);
  for (const one of recorded) {
    const provider = all || !configured.includes(one.id) ? recordedProvider(one) : providers.get(one.id);
    providers.register(provider, { origin: 'recording', default: one.default });
  }
}

/** A provider that was there when it was recorded; it answers nothing of its own. */
function recordedProvider({ id, kind, model }: RecordedProvider): Provider {
  const refuse = (): never => {
    throw new AppError('provider_refused', { detail: `provider ${id} is known from a recording only, and cannot be called; configure it` });
  };
  return {
    id,
    kind,
    defaultModel: model,
    complete: async () => refuse(),
    // biome-ignore lint/correctness/useYield: it never comes to that.
    stream: async function* () {
      refuse();
    },
    available: async () => false,
    models: async () => [],
  };
}
