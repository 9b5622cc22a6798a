import type { CallerLimit } from '../contract/scope.ts';
import { bothLimits } from '../core/caller-scope.ts';
import type { SessionHost } from './session-host.ts';

/**
 * The limit under which the work of a session reaches the daemon: that of the token that opened it, and those of the tokens whose prompts
 * the running turn answers. Undefined when none of them has one.
 */
export function workLimit({ core, view }: Pick<SessionHost, 'core' | 'view'>): CallerLimit | undefined {
  const prompts = core.snapshot.context.turn?.promptIds ?? [];
  return prompts.reduce((limit, id) => bothLimits(limit, view.prompts.get(id)?.limit), view.limit);
}
