import type { Checkpoint, SessionLine } from './memory-store.ts';

/** Prompts between two checkpoints of a running session. */
export const PROMPTS_PER_CHECKPOINT = 10;

export interface ContinuityScore {
  readonly score: number;
  readonly confidence: number;
  readonly reasoning: string;
  readonly memoriesUsed: number;
}

/** What keeps the thread of a line: prompts since its last checkpoint, the checkpoint, and how well its memories served it. */
export interface ContinuityStore {
  /** Note one prompt. Every PROMPTS_PER_CHECKPOINT of them become the line's checkpoint; answers whether this one did. */
  prompted(line: SessionLine, prompt: string): Promise<boolean>;
  /** The last prompts of the line, whether a checkpoint was due or not. */
  checkpoint(line: SessionLine): Promise<{ text: string; atMs: number } | undefined>;
  /** What the line's last compaction and its end left, and when it ended or was last heard of; undefined for a line that left neither. */
  lastWords(line: SessionLine): Promise<(Checkpoint & { atMs: number }) | undefined>;
  /** The line has ended without a transcript: the prompts so far are all there is to go on from. */
  conclude(line: SessionLine): Promise<void>;
  /** What the line said last is kept elsewhere, and takes the place of the checkpoint. */
  settled(line: SessionLine): Promise<void>;
  /** Memories that were injected into the line's sessions, newest first. */
  shownMemories(line: SessionLine, limit: number): Promise<string[]>;
  /** The same job twice is one score. */
  rate(line: SessionLine, jobId: string, score: ContinuityScore, relevance: ReadonlyMap<string, number>): Promise<void>;
  scores(line: SessionLine, limit: number): Promise<(ContinuityScore & { atMs: number })[]>;
  relevance(line: SessionLine, limit: number): Promise<{ memoryId: string; relevance: number; atMs: number }[]>;
}
