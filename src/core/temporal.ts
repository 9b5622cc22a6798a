import type { TemporalNode } from '../contract/transcript.ts';

/** Summaries of sessions that make one arc, and arcs that make one epoch. */
export const SESSIONS_PER_ARC = 8;
export const ARCS_PER_EPOCH = 4;

export interface NodeDraft {
  readonly kind: TemporalNode['kind'];
  readonly agentId: string;
  readonly project?: string | null;
  readonly sessionKey?: string | null;
  readonly harness?: string | null;
  readonly content: string;
  readonly memoryId?: string | null;
  /** The same source again is the same node: a job that runs twice leaves one. */
  readonly source?: string;
  readonly earliestMs: number;
  readonly latestMs: number;
  /** Nodes this one stands for from now on. */
  readonly children?: readonly string[];
}

export interface NodeHit extends TemporalNode {
  /** Share of the query's distinct words the summary holds, 0..1. */
  readonly score: number;
}

export interface NodeFilter {
  readonly project?: string;
  readonly sessionKey?: string;
  readonly depth?: number;
  readonly parentId?: string;
}

/** Nodes of one project that wait to become one of the next depth, oldest first. */
export interface Condensable {
  readonly project: string | null;
  readonly depth: number;
  readonly nodes: readonly TemporalNode[];
}

/**
 * The temporal graph: what sessions came to, what arcs of sessions came to, what epochs of arcs came to. Each node has at most one parent, which
 * is younger than it, so there is no way round in a circle. Every method names the agent; nothing of another agent is ever seen.
 */
export interface TemporalStore {
  add(draft: NodeDraft): Promise<TemporalNode>;
  /**
   * The newest word of each thread: a thread is what one session key, or else one project, has said; what was condensed is not in it any more.
   * With a text those that fit it, best first; without one the newest first.
   */
  heads(agentId: string, query: { text?: string; project?: string; notSessionKey?: string; limit: number }): Promise<NodeHit[]>;
  list(
    agentId: string,
    filter: NodeFilter & { limit: number; offset: number },
  ): Promise<{ nodes: (TemporalNode & { childCount: number })[]; total: number }>;
  condensable(agentId: string): Promise<Condensable | undefined>;
  /** When the agent's newest node was written, ms since 1970. */
  newestMs(agentId: string): Promise<number | undefined>;
}
