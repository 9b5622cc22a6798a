import type { JobStore } from '../core/job.ts';
import type { HeadStore } from '../core/synthesis-head.ts';
import type { TemporalStore } from '../core/temporal.ts';
import type { TranscriptStore } from '../core/transcript.ts';
import type { ContinuityStore } from '../core/transcript-continuity.ts';
import { createJobStore } from './job-store.ts';
import type { Access } from './memory-store-access.ts';
import { createHeadStore } from './temporal-head-store.ts';
import { createTemporalStore } from './temporal-store.ts';
import { createContinuityStore } from './transcript-continuity-store.ts';
import { createTranscriptStore } from './transcript-store.ts';

/** What sessions leave behind in memory.db beside memories, and the work that is still to be done with it. */
export interface TranscriptStores {
  readonly transcripts: TranscriptStore;
  readonly jobs: JobStore;
  readonly temporal: TemporalStore;
  readonly continuity: ContinuityStore;
  readonly heads: HeadStore;
}

export function createTranscriptStores(access: Access): TranscriptStores {
  return {
    transcripts: createTranscriptStore(access),
    jobs: createJobStore(access),
    temporal: createTemporalStore(access),
    continuity: createContinuityStore(access),
    heads: createHeadStore(access),
  };
}
