import { AppError } from '../core/errors.ts';
import type { Actor, ChangeNote } from '../core/memory-store.ts';
import type { RequestContext } from '../core/operation-call.ts';

const ACTOR_TYPES = ['operator', 'pipeline', 'harness', 'sdk', 'daemon'];
/** Longest session id taken from a header, in characters. */
const SESSION_ID_CHARS_MAX = 512;

/** Who a caller says it is, from the headers existing clients send. */
export function actorOf(context: RequestContext): Actor {
  const type = context.header('x-signet-actor-type');
  return {
    type: type !== undefined && ACTOR_TYPES.includes(type) ? type : undefined,
    sessionId: context.header('x-signet-session-id')?.slice(0, SESSION_ID_CHARS_MAX) || undefined,
    requestId: context.requestId,
  };
}

export function noteOf(fields: { reason: string; changed_by?: string; if_version?: number }, context: RequestContext): ChangeNote {
  return { reason: fields.reason, changedBy: fields.changed_by ?? context.client, ifVersion: fields.if_version, actor: actorOf(context) };
}

/** What somebody pinned, no pipeline forgets on its own. @throws AppError forbidden */
export function refuseForceOfPipeline(force: boolean | undefined, context: RequestContext): void {
  if (!force || actorOf(context).type !== 'pipeline') return;
  throw new AppError('forbidden', { detail: 'an actor of type pipeline may not force a pinned memory out; a person may' });
}
