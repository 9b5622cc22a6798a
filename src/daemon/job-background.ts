import type { jobOperations } from '../contract/jobs.ts';
import type { synthesisOperations } from '../contract/synthesis.ts';
import type { transcriptOperations } from '../contract/transcript.ts';
import type { Handlers } from '../core/operation-call.ts';
import { createJobHandlers } from './job-handlers.ts';
import { createJobWorker } from './job-worker.ts';
import { createSynthesisHandlers } from './synthesis-handlers.ts';
import { createTranscriptHandlers, type TranscriptDeps } from './transcript-handlers.ts';
import { createLineage, type Lineage } from './transcript-lineage.ts';

type Operations = typeof jobOperations & typeof synthesisOperations & typeof transcriptOperations;

/** Everything that goes on after a session has ended: what hooks hand over, the routes that show it, and the worker. */
export interface Background {
  readonly lineage: Lineage;
  readonly handlers: Handlers<Operations>;
  start(): void;
  stop(): Promise<void>;
}

export function createBackground(deps: TranscriptDeps): Background {
  const worker = createJobWorker(deps);
  return {
    lineage: createLineage(deps, worker.wake),
    handlers: {
      ...createTranscriptHandlers(deps), //             /api/sessions/:key/transcript, continuity, summaries, search
      ...createJobHandlers(deps, worker.wake), //       /api/jobs
      ...createSynthesisHandlers(deps, worker.wake), // /api/hooks/synthesis, /api/synthesis
    },
    start: worker.start,
    stop: worker.stop,
  };
}
