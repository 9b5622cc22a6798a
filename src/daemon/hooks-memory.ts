import type { hookOperations } from '../contract/hooks.ts';
import type { Handlers } from '../core/operation-call.ts';
import type { HookDeps } from './hook-deps.ts';
import { createHook } from './hook-session.ts';
import { besideSuccessors } from './inject-successors.ts';
import { packMemories } from './inject-text.ts';
import { actorOf } from './memory-actor.ts';
import { memoryDraft, recallQuery, requireSuperseded } from './memory-input.ts';

/** Importance of what somebody asked to remember in a session, when nothing else is said. */
const HOOK_IMPORTANCE = 0.8;
/** The results as text; unit: characters. */
const MESSAGE_CHARS_MAX = 4_000;
const MESSAGE_LINE_CHARS_MAX = 500;

type MemoryHooks = Pick<Handlers<typeof hookOperations>, 'hookRemember' | 'hookRecall'>;

/** Remember and recall as hooks: like the memory routes, but of a session, and silent when it is bypassed. */
export function createMemoryHooks(deps: HookDeps): MemoryHooks {
  return {
    hookRemember: createHook(deps, 'hookRemember', {
      silent: () => ({ saved: false, success: true as const, id: '', memories: [] }),
      answer: async (input, { reader, key, project }, context) => {
        const draft = memoryDraft(reader, input, {
          who: input.who,
          program: input.harness,
          config: deps.config,
          sourceType: input.harness,
          project,
          sessionKey: key,
          importance: HOOK_IMPORTANCE,
          actor: actorOf(context),
        });
        await requireSuperseded(deps.memories, reader, draft.supersedes);
        const { memory, deduped } = await deps.memories.remember(draft);
        return { saved: true, success: true as const, id: memory.id, ...(deduped ? { deduped } : {}) };
      },
    }),
    hookRecall: createHook(deps, 'hookRecall', {
      silent: () => ({ results: [], memories: [], count: 0, message: '', strong: false, method: 'none' }),
      answer: async (input, { reader, project }) => {
        const { results, strong, method, degraded } = await deps.memories.recall(reader, recallQuery(input, { aroundProject: project }));
        const told = await besideSuccessors(deps.memories, reader, results);
        const message = packMemories(told, MESSAGE_CHARS_MAX, MESSAGE_LINE_CHARS_MAX, project).text;
        return { results, memories: results, count: results.length, message, strong, method, ...(degraded ? { degraded } : {}) };
      },
    }),
  };
}
