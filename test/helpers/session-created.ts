import type { PayloadOf } from '../../src/contract/catalog.ts';
import { sessionMachineRef } from '../../src/runtime/machine-service.ts';

type Created = PayloadOf<'session:created'>;

/** The first signal of a plain session, as the runtime makes it from its defaults; `limits` are those that differ. */
export function sessionCreated(
  session: string,
  { limits, ...other }: Partial<Omit<Created, 'limits'>> & { limits?: Partial<Created['limits']> } = {},
): Created {
  return {
    session,
    key: session,
    agent: 'default',
    project: null,
    title: '',
    harness: 'test',
    provider: 'p',
    model: 'm',
    parentSession: null,
    resumedFrom: null,
    tools: null,
    bypassed: false,
    metadata: {},
    machine: sessionMachineRef(),
    contextLimit: 10_000,
    summary: null,
    ...other,
    limits: {
      mailboxTurnsMax: 16,
      roundsMax: 50,
      attemptsMax: 3,
      turnTimeoutMs: 60_000,
      approvalTimeoutMs: 1_000,
      abortGraceMs: 1_000,
      idleTtlMs: 60_000,
      backoffMs: 500,
      retryAfterMsMax: 60_000,
      compactAtShare: 0.8,
      ...limits,
    },
  };
}
