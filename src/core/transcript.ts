import { createHash } from 'node:crypto';
import type { SessionLine, TranscriptTurn } from './memory-store.ts';

/** A turn in the store. */
export interface KeptTurn extends TranscriptTurn {
  readonly number: number;
}

export interface TranscriptLine {
  readonly harness: string;
  readonly project: string | null;
  /** Turns kept so far. */
  readonly turns: number;
}

export interface TurnHit extends KeptTurn {
  readonly sessionKey: string;
  readonly project: string | null;
  /** Share of the query's distinct words the turn holds, 0..1. */
  readonly score: number;
}

export interface TurnQuery {
  readonly text: string;
  readonly limit: number;
  readonly project?: string;
  readonly sessionKey?: string;
  /** Leaves this line out: a session need not be told what it has just said. */
  readonly notSessionKey?: string;
  /** Only turns of these roles. */
  readonly roles?: readonly string[];
}

/** Raw turns of all lines. A line belongs to one agent: every method names it, and none sees another agent's turns. */
export interface TranscriptStore {
  /**
   * Keep what is new of a transcript; turns that stand there already are recognised, so the same transcript twice is kept once. Durable.
   *
   * @returns how many were new, and how many there are now
   */
  keep(
    line: SessionLine,
    source: { harness: string; project?: string | null },
    turns: readonly TranscriptTurn[],
  ): Promise<{ stored: number; total: number }>;
  line(line: SessionLine): Promise<TranscriptLine | undefined>;
  /** Oldest first. */
  turns(line: SessionLine, page: { after: number; limit: number }): Promise<KeptTurn[]>;
  /** Best first, then newest. */
  search(agentId: string, query: TurnQuery): Promise<TurnHit[]>;
  /** Which turns of the agent's own lines a memory was taken from. */
  sources(agentId: string, memoryId: string): Promise<{ sessionKey: string; from: number; to: number }[]>;
  linkMemory(line: SessionLine, memoryId: string, from: number, to: number, jobId: string): Promise<void>;
}

/** What makes two turns the same turn. A time tells repeated words apart; without one the words have to do. */
export function turnFingerprint({ role, content, at }: TranscriptTurn): string {
  return createHash('sha256')
    .update(JSON.stringify([role, content, at ?? null]))
    .digest('base64url')
    .slice(0, 22);
}

/**
 * How many of `incoming` are kept already: harnesses send a whole session again when it goes on, or only its new part.
 * The longest end of `kept` that `incoming` begins with counts; when all of `incoming` stands in `kept`, all of it does.
 */
export function knownTurns(kept: readonly string[], incoming: readonly string[]): number {
  if (incoming.length === 0) return 0;
  // Knuth, Morris and Pratt: how much of `incoming` ends at each place of `kept`.
  const fallback = [0];
  for (let index = 1, length = 0; index < incoming.length; index += 1) {
    while (length > 0 && incoming[index] !== incoming[length]) length = fallback[length - 1]!;
    if (incoming[index] === incoming[length]) length += 1;
    fallback[index] = length;
  }
  let matched = 0;
  for (const print of kept) {
    while (matched > 0 && print !== incoming[matched]) matched = fallback[matched - 1]!;
    if (print === incoming[matched]) matched += 1;
    if (matched === incoming.length) return matched;
  }
  return matched;
}
