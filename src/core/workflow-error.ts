import type { Signal } from '../contract/signal.ts';

/** A run that failed, with all that happened until then. */
export class WorkflowError extends Error {
  readonly code: string;
  readonly signals: readonly Signal[];
  readonly state: Readonly<Record<string, unknown>>;
  /** Null when nothing was recorded or replayed. */
  readonly recordingId: string | null;

  constructor(fault: { code: string; message: string }, trace: Pick<WorkflowError, 'signals' | 'state' | 'recordingId'>, cause?: unknown) {
    super(`${fault.code}: ${fault.message}`, cause === undefined ? undefined : { cause });
    this.name = 'WorkflowError';
    this.code = fault.code;
    this.signals = trace.signals;
    this.state = trace.state;
    this.recordingId = trace.recordingId;
  }
}
