import type { hookOperations } from '../contract/hooks.ts';
import type { Handlers } from '../core/operation-call.ts';
import type { HookDeps } from './hook-deps.ts';
import { createHook } from './hook-session.ts';
import { memoryDraft, recallQuery } from './memory-input.ts';

/** Importance of what somebody asked to remember in a session, when nothing else is said. */
const HOOK_IMPORTANCE = 0.8;

type MemoryHooks = Pick<Handlers<typeof hookOperations>, 'hookRemember' | 'hookRecall'>;

/** Remember and recall as hooks: like the memory routes, but of a session, and silent when it is bypassed. */
export function createMemoryHooks(deps: HookDeps): MemoryHooks {
  return {
    hookRemember: createHook(deps, 'hookRemember', {
      silent: () => ({ saved: false, success: true as const, id: '', memories: [] }),
      answer: async (input, { reader, key, project }) => {
        const draft = memoryDraft(reader, input, {
          who: input.who ?? input.harness,
          sourceType: input.harness,
          project,
          sessionKey: key,
          importance: HOOK_IMPORTANCE,
        });
        const { memory, deduped } = await deps.memories.remember(draft);
        return { saved: true, success: true as const, id: memory.id, ...(deduped ? { deduped } : {}) };
      },
    }),
    hookRecall: createHook(deps, 'hookRecall', {
      silent: () => ({ results: [], memories: [], count: 0 }),
      answer: async (input, { reader, project }) => {
        const { results, strong, method } = await deps.memories.recall(reader, recallQuery(input, { aroundProject: project }));
        return { results, memories: results, count: results.length, strong, method };
      },
    }),
  };
}
