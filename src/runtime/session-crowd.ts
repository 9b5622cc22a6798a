import { AppError } from '../core/errors.ts';
import type { SessionHost } from './session-host.ts';

/** What a refused client should wait: a session that ends makes room; unit: milliseconds. */
const RETRY_AFTER_MS = 5_000;

export interface CrowdLimits {
  readonly sessionsMax: number;
  /** The same for one agent; no limit of its own when left out. */
  readonly agentSessionsMax?: (agent: string) => number;
}

/** Who is there, and who is on the way. */
export interface Crowd {
  readonly hosts: ReadonlyMap<string, SessionHost>;
  readonly coming: number;
  /** Agents of sessions that are being created, by session. */
  readonly creating: ReadonlyMap<string, string>;
}

/** Is there room for one more session of this agent? @throws AppError `too_many_sessions` */
export function refuseCrowd({ sessionsMax, agentSessionsMax }: CrowdLimits, { hosts, coming, creating }: Crowd, agent: string): void {
  if (hosts.size + coming >= sessionsMax) throw tooMany(`${sessionsMax} sessions are open; end some, or raise runtime.limits.sessionsMax`);
  const own = agentSessionsMax?.(agent) ?? sessionsMax;
  if (own >= sessionsMax) return;
  const open = [...hosts.values()].filter((host) => host.core.agent === agent).length;
  const begun = [...creating].filter(([id, other]) => other === agent && !hosts.has(id)).length;
  if (open + begun >= own) throw tooMany(`${own} sessions of agent ${agent} are open; end some, or raise runtime.limits.agentSessionsMax`);
}

function tooMany(detail: string): AppError {
  return new AppError('too_many_sessions', { detail, retryAfterMs: RETRY_AFTER_MS });
}
