import type { AgentYaml } from '../contract/config.ts';
import type { SynthesisSettings } from '../contract/synthesis.ts';
import type { ModelFor } from '../core/job.ts';
import { JOB_CALL_TIMEOUT_MS } from './job-deps.ts';

/** The harness that stands for the daemon's own worker. */
export const OWN_HARNESS = 'signet';
/** Model that is named when nothing names one. */
const MODEL_UNNAMED = 'default';

/**
 * The synthesis in force: `memory.synthesis`, and for what it leaves out the older `memory.pipelineV2.synthesis`.
 * A model that is named for another harness is that harness's own word and of no use to our providers.
 */
export function synthesisSettings(config: AgentYaml, modelFor: ModelFor): SynthesisSettings {
  const own = config.memory.synthesis;
  const older = olderSettings(config.memory.pipelineV2);
  const model = own.model ?? older.model;
  const chosen = modelFor('synthesis', own.harness === OWN_HARNESS ? model : undefined);
  const maxTokens = own.max_tokens;
  return {
    enabled: own.enabled && older.enabled,
    harness: own.harness,
    provider: chosen?.provider.id ?? null,
    model: own.harness === OWN_HARNESS ? (chosen?.model ?? model ?? MODEL_UNNAMED) : (model ?? MODEL_UNNAMED),
    schedule: own.schedule,
    max_tokens: maxTokens,
    maxTokens,
    timeout: JOB_CALL_TIMEOUT_MS,
  };
}

/** The section of another generation of this software; whatever does not fit is not there. */
function olderSettings(pipeline: unknown): { enabled: boolean; model?: string } {
  const section = isFields(pipeline) && isFields(pipeline.synthesis) ? pipeline.synthesis : {};
  return {
    enabled: section.enabled !== false,
    ...(typeof section.model === 'string' && section.model !== '' ? { model: section.model } : {}),
  };
}

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
