import type { Caller } from '../core/caller.ts';
import { isNarrow } from '../core/caller-scope.ts';
import { ownerOf, type Reader, type SessionLine, type TranscriptTurn } from '../core/memory-store.ts';
import type { NodeHit } from '../core/temporal.ts';
import type { TurnHit } from '../core/transcript.ts';
import { redactSecrets } from '../core/transcript-redact.ts';
import { cutText, oneLine } from './inject-text.ts';
import type { JobDeps } from './job-deps.ts';
import { readTranscriptFile } from './transcript-file.ts';

/** Of one prompt in a checkpoint; unit: characters. */
const PROMPT_CHARS_MAX = 200;
/** Roles whose turns may answer a prompt: what tools printed is no memory. */
const SPOKEN = ['user', 'assistant'];

/** What a session brings with it when it ends or is compacted. */
export interface Spoken {
  readonly harness: string;
  readonly project?: string | undefined;
  readonly transcript?: readonly TranscriptTurn[] | undefined;
  readonly transcriptPath?: string | undefined;
  /** Whose token it is, if anybody's: files of the user are read for the user alone. */
  readonly caller?: Caller | undefined;
}

export interface KeptTranscript {
  readonly turns: readonly TranscriptTurn[];
  /** New ones among them, and all of the line. */
  readonly stored: number;
  readonly total: number;
  /** Why a transcript file was not read, or not all of it. */
  readonly problem?: string;
}

/** What hooks leave behind of a session, and what they find again of earlier ones. */
export interface Lineage {
  /** Keep the raw turns, before any model sees them. */
  keep(line: SessionLine, spoken: Spoken): Promise<KeptTranscript>;
  /** Queue what is to be done with an ended session: facts and summary, and its rating. */
  queue(line: SessionLine): Promise<{ queued: boolean; jobId?: string; problem?: string }>;
  /** The session was compacted: its summary is a node of the temporal graph. */
  compacted(
    agentId: string,
    summary: { sessionKey?: string | undefined; content: string; memoryId: string; harness: string; project?: string | null },
  ): Promise<void>;
  /** A prompt of a running session: every tenth leaves a checkpoint. */
  prompted(line: SessionLine, prompt: string): Promise<void>;
  /** The prompts a session that broke off had come to. */
  checkpoint(line: SessionLine): Promise<string | undefined>;
  /** The session has ended: with turns, its last words are kept as such; without, its prompts so far become the checkpoint. */
  settled(line: SessionLine, hasTurns?: boolean): Promise<void>;
  temporalHeads(reader: Reader, query: LineageQuery): Promise<NodeHit[]>;
  transcriptHits(reader: Reader, query: LineageQuery): Promise<TurnHit[]>;
}

export interface LineageQuery {
  readonly text: string;
  readonly project?: string | undefined;
  /** The session that asks: it need not be told what it has said itself. */
  readonly sessionKey?: string | undefined;
  readonly limit: number;
}

export function createLineage(deps: JobDeps, wake: () => void): Lineage {
  return {
    keep: (line, spoken) => keep(deps, line, spoken),
    queue: (line) => queue(deps, line, wake),
    compacted: async (agentId, summary) => {
      const nowMs = deps.clock.now();
      // Sent again it is the same node, as it is the same memory.
      const source = `compaction:${summary.memoryId}:${summary.sessionKey ?? ''}`;
      await deps.temporal.add({ ...summary, agentId, kind: 'compaction', source, earliestMs: nowMs, latestMs: nowMs });
      if (summary.sessionKey !== undefined) await deps.continuity.settled({ agentId, sessionKey: summary.sessionKey });
    },
    prompted: async (line, prompt) => {
      await deps.continuity.prompted(line, cutText(oneLine(redactSecrets(prompt)), PROMPT_CHARS_MAX));
    },
    checkpoint: async (line) => (await deps.continuity.checkpoint(line))?.text,
    settled: (line, hasTurns = false) => (hasTurns ? deps.continuity.settled(line) : deps.continuity.conclude(line)),
    temporalHeads: (reader, { text, project, sessionKey, limit }) =>
      deps.temporal.heads(ownerOf(reader), { text, project, notSessionKey: sessionKey, limit }),
    transcriptHits: (reader, { text, project, sessionKey, limit }) =>
      deps.transcripts.search(ownerOf(reader), { text, project, notSessionKey: sessionKey, roles: SPOKEN, limit }),
  };
}

async function keep(
  deps: JobDeps,
  line: SessionLine,
  { harness, project, transcript, transcriptPath, caller }: Spoken,
): Promise<KeptTranscript> {
  const roots = deps.config.memory.transcripts.roots;
  const file =
    transcript === undefined && transcriptPath !== undefined
      ? await readTranscriptFile(transcriptPath, { folder: deps.folder, roots, isForeign: isNarrow(caller) })
      : undefined;
  if (file?.problem)
    deps.log.warn(
      { category: 'session', harness, sessionKey: line.sessionKey, problem: file.problem },
      'a transcript file was not read whole',
    );
  const turns = transcript ?? file?.turns ?? [];
  const problem = file?.problem === undefined ? {} : { problem: file.problem };
  if (turns.length === 0) return { turns, stored: 0, total: (await deps.transcripts.line(line))?.turns ?? 0, ...problem };
  return { turns, ...(await deps.transcripts.keep(line, { harness, project }, turns)), ...problem };
}

async function queue(deps: JobDeps, line: SessionLine, wake: () => void): Promise<{ queued: boolean; jobId?: string; problem?: string }> {
  const { enabled, delayMs } = deps.config.memory.extraction;
  if (!enabled) return { queued: false };
  const job = await deps.jobs.addForLine({ ...line, kind: 'extraction', payload: {}, delayMs });
  if (!job) return { queued: false };
  const rating = job.full ? undefined : await deps.jobs.add({ ...line, kind: 'continuity', payload: {}, delayMs });
  wake();
  // The turns are kept: the next end of this session, or a later one under its key, queues them again.
  if (job.full || !rating) return { queued: !job.full, problem: 'the queue of background work is full; see /api/jobs' };
  return { queued: true, jobId: job.id };
}
