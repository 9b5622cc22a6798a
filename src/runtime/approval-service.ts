import type { ParsedInputOf } from '../contract/operation.ts';
import type { sessionOperations } from '../contract/session-operations.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { RequestContext } from '../core/operation-call.ts';
import { visibleJson } from '../core/visible-text.ts';
import type { RuntimeDeps } from './runtime-deps.ts';

type Ops = typeof sessionOperations;

/** Tool calls that wait for a person. */
export function createApprovalService(deps: RuntimeDeps) {
  return {
    list({ session }: ParsedInputOf<Ops['listApprovals']>) {
      const items = [...deps.supervisor.hosts()]
        .filter((host) => session === undefined || host.id === session)
        .flatMap((host) =>
          [...host.view.approvals.values()].map((approval) => ({
            ...approval,
            inputText: visibleJson(approval.input),
            session: host.id,
            agent: host.view.session.agent,
          })),
        )
        .sort((a, b) => a.requestedAt.localeCompare(b.requestedAt) || a.id.localeCompare(b.id));
      return { items, count: items.length };
    },

    async decide({ id, approvalId, decision, message }: ParsedInputOf<Ops['decideApproval']>, context: RequestContext) {
      const host = await deps.supervisor.get(id).catch(async (error: unknown) => {
        // What was decided is said also of a session that cannot be in memory now.
        const view = isAppError(error, 'session_not_found') ? null : await deps.supervisor.view(id).catch(() => null);
        refuseDecided(view?.decided.get(approvalId), approvalId);
        throw error;
      });
      const { head } = await host.handle((core, view) => {
        const decided = view.decided.get(approvalId);
        if (!core.snapshot.context.calls.some((call) => call.id === approvalId && call.state === 'waiting')) {
          refuseDecided(decided, approvalId);
          throw new AppError('approval_not_found', { detail: `no tool call ${approvalId} waits for an approval in session ${id}` });
        }
        const payload = { id: approvalId, decision, by: context.client, ...(message ? { message } : {}) };
        return [{ name: 'tool:approval:resolved', payload, client: context.client }];
      });
      return { id: approvalId, decision, seq: head };
    },
  };
}

/** @throws AppError `approval_decided` */
function refuseDecided(decided: string | undefined, approvalId: string): void {
  if (decided) throw new AppError('approval_decided', { detail: `approval ${approvalId} was decided already: ${decided}` });
}
