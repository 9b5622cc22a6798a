import type { jobOperations } from '../contract/jobs.ts';
import { isScoped } from '../core/caller-scope.ts';
import type { JobStore } from '../core/job.ts';
import type { Handlers } from '../core/operation-call.ts';
import { agentOf, plainKey } from './hook-session.ts';

/** Handlers of /api/jobs. */
export function createJobHandlers({ jobs }: { readonly jobs: JobStore }, wake: () => void): Handlers<typeof jobOperations> {
  return {
    listJobs: async ({ sessionKey, limit, agentId: named, ...filter }, context) => {
      const agentId = agentOf(named, context);
      const key = sessionKey === undefined ? {} : { sessionKey: plainKey(sessionKey) };
      // One more than asked for tells whether there is another page.
      const found = await jobs.list({ ...filter, agentId, ...key, limit: limit + 1 });
      const page = found.slice(0, limit);
      // What belongs to others is not counted for an agent, nor for who may not see it; by then agent or session are named.
      const isPart = agentId !== undefined || isScoped(context.caller);
      const counts = await jobs.counts(isPart ? { agentId, ...key } : {});
      return { jobs: page, counts, next: found.length > limit ? page.at(-1)!.id : null };
    },
    retryJob: async ({ id }) => {
      const job = await jobs.retry(id);
      wake();
      return job;
    },
  };
}
