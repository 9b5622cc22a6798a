import type { jobOperations } from '../contract/jobs.ts';
import { isScoped } from '../core/caller-scope.ts';
import type { JobStore } from '../core/job.ts';
import type { Handlers } from '../core/operation-call.ts';
import { plainKey } from './hook-session.ts';

/** Handlers of /api/jobs. */
export function createJobHandlers({ jobs }: { readonly jobs: JobStore }, wake: () => void): Handlers<typeof jobOperations> {
  return {
    listJobs: async ({ sessionKey, limit, ...filter }, { caller }) => {
      const key = sessionKey === undefined ? {} : { sessionKey: plainKey(sessionKey) };
      // One more than asked for tells whether there is another page.
      const found = await jobs.list({ ...filter, ...key, limit: limit + 1 });
      const page = found.slice(0, limit);
      // What belongs to others is not counted for who may not see it; by then agent or session are named.
      const counts = await jobs.counts(isScoped(caller) ? { agentId: filter.agentId, ...key } : {});
      return { jobs: page, counts, next: found.length > limit ? page.at(-1)!.id : null };
    },
    retryJob: async ({ id }) => {
      const job = await jobs.retry(id);
      wake();
      return job;
    },
  };
}
