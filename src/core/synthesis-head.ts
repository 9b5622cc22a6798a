/** How long a writer of MEMORY.md keeps others away; longer than a model call may take. Unit: milliseconds. */
export const HEAD_LEASE_MS = 6 * 60_000;

export interface Head {
  /** Counts the versions of MEMORY.md that Signet wrote. */
  readonly generation: number;
  readonly writtenAtMs: number | null;
  /** Somebody is writing. */
  readonly busy: boolean;
}

/** Who may write an agent's MEMORY.md: one writer at a time, kept in the database so that a killed one is outlived by no more than its lease. */
export interface HeadStore {
  get(agentId: string): Promise<Head>;
  /** Undefined when the lease was given, else how many ms the present one still runs. */
  lease(agentId: string, owner: string): Promise<number | undefined>;
  /** One more generation, by the holder of the lease, which ends with it. Undefined when the lease was lost. */
  written(agentId: string, owner: string): Promise<number | undefined>;
  release(agentId: string, owner: string): Promise<void>;
}
