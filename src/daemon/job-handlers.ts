import type { jobOperations } from '../contract/jobs.ts';
import type { JobStore } from '../core/job.ts';
import type { Handlers } from '../core/operation-call.ts';
import { plainKey } from './hook-session.ts';

/** Handlers of /api/jobs. */
export function createJobHandlers({ jobs }: { readonly jobs: JobStore }, wake: () => void): Handlers<typeof jobOperations> {
  return {
    listJobs: async ({ sessionKey, limit, ...filter }) => {
      const key = sessionKey === undefined ? {} : { sessionKey: plainKey(sessionKey) };
      // One more than asked for tells whether there is another page.
      const found = await jobs.list({ ...filter, ...key, limit: limit + 1 });
      const page = found.slice(0, limit);
      return { jobs: page, counts: await jobs.counts(), next: found.length > limit ? page.at(-1)!.id : null };
    },
    retryJob: async ({ id }) => {
      const job = await jobs.retry(id);
      wake();
      return job;
    },
  };
}
