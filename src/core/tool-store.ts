import type { ToolRegistration } from '../contract/tool.ts';

/**
 * Where tool registrations outlive the process. There is one writer: the tool service of the daemon that holds the workspace.
 *
 * @throws AppError of both: `storage_corrupt` when what is stored cannot be read (it stays as it is), `storage_failed` when the disk refuses
 */
export interface ToolRegistrationStore {
  /** In the order they were registered; empty when nothing was ever saved. */
  load(): Promise<ToolRegistration[]>;
  /** Replaces the whole list, durably and in one step: after a crash a reader finds the old list or the new one. */
  save(registrations: readonly ToolRegistration[]): Promise<void>;
}
