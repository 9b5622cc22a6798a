import { randomUUID } from 'node:crypto';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import type { synthesisOperations } from '../contract/synthesis.ts';
import type { Caller } from '../core/caller.ts';
import { isNarrow } from '../core/caller-scope.ts';
import { isoTime } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import type { Handlers } from '../core/operation-call.ts';
import { hookMemory } from './hook-deps.ts';
import type { JobDeps } from './job-deps.ts';
import { knownAgents, listAgents } from './known-agents.ts';
import { synthesisInput, withHead, writeHead } from './synthesis-job.ts';
import { synthesisSettings } from './synthesis-settings.ts';

/** MEMORY.md, by a harness or by the daemon itself: both write through the same head. @source spec/hooks, "MEMORY.md Synthesis" */
export function createSynthesisHandlers(deps: JobDeps, wake: () => void): Handlers<typeof synthesisOperations> {
  return {
    hookSynthesis: async ({ agentId = DEFAULT_AGENT }, { caller }) => {
      requireAgent(deps, agentId, caller);
      const { harness, model } = synthesisSettings(deps.config, deps.modelFor);
      const { prompt, memories, summaries, generation } = await synthesisInput(deps, agentId);
      return { harness, model, prompt, memories: memories.map(hookMemory), fileCount: summaries, generation };
    },
    hookSynthesisComplete: async ({ content, agentId = DEFAULT_AGENT, generation }, { caller }) => {
      requireAgent(deps, agentId, caller);
      const owner = randomUUID();
      return withHead(deps, agentId, owner, async () => {
        const head = await deps.heads.get(agentId);
        if (generation !== undefined && generation !== head.generation) {
          const detail = `MEMORY.md is at generation ${head.generation}, not ${generation}; ask for a new prompt`;
          throw new AppError('version_conflict', { detail, extra: { currentVersion: head.generation } });
        }
        return { success: true as const, ...(await writeHead(deps, agentId, owner, content)) };
      });
    },
    hookSynthesisConfig: () => synthesisSettings(deps.config, deps.modelFor),
    triggerSynthesis: async ({ agentId = DEFAULT_AGENT }, { caller }) => {
      requireAgent(deps, agentId, caller);
      const job = await deps.jobs.add({ kind: 'synthesis', agentId, payload: { trigger: 'manual' } });
      if (!job) throw new AppError('overloaded', { detail: 'the queue of background work is full; see /api/jobs', retryAfterMs: 60_000 });
      wake();
      return { success: true as const, skipped: !job.added, jobId: job.id };
    },
    synthesisStatus: async ({ agentId = DEFAULT_AGENT }) => {
      const { busy, writtenAtMs, generation } = await deps.heads.get(agentId);
      const config = synthesisSettings(deps.config, deps.modelFor);
      return { running: busy, lastRunAt: writtenAtMs === null ? null : isoTime(writtenAtMs), generation, config };
    },
  };
}

/** A folder of its own would make an agent of a name: that is for who may set agents up. @throws AppError agent_not_found */
function requireAgent(deps: JobDeps, agentId: string, caller: Caller | undefined): void {
  if (!isNarrow(caller)) return;
  const known = knownAgents(deps);
  if (known.includes(agentId)) return;
  const detail = `agentId: no agent "${agentId}"; known: ${listAgents(known)}. Set it up with: signet agent add ${agentId}`;
  throw new AppError('agent_not_found', { detail, errors: [{ pointer: '/agentId', detail }] });
}
