/** What is kept of one agent as a whole: for its removal, and for telling how much there is. Never a way to read a memory. */
export interface AgentMemories {
  /** Living memories by scope. */
  counts(agentId: string): Promise<{ readonly global: number; readonly private: number; readonly archived: number }>;
  /** Also forgotten and archived ones count. */
  hasAny(agentId: string): Promise<boolean>;
  /** Nobody finds them any more; nothing is deleted. Answers how many living ones there were. @source spec/multi-agent */
  archive(agentId: string, note: { readonly reason: string; readonly changedBy: string }): Promise<number>;
  /** Delete, for good, memories with their history, transcripts, summaries and jobs. Answers how many memories there were. */
  purge(agentId: string): Promise<number>;
}
