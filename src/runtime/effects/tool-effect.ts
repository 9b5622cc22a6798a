import type { Pending } from '../../../machines/session-context.ts';
import type { Usage } from '../../contract/provider.ts';
import type { Restored } from '../effect-runner.ts';
import type { SessionHost } from '../session-host.ts';
import type { InputDraft } from '../session-state.ts';
import { ABORTED, type EffectDeps } from './effect-deps.ts';

type ToolPending = Pending & { kind: 'tool' };

const UNDER_WAY: Readonly<Record<Restored, string>> = {
  restart: 'the daemon was restarted while this call ran',
  fork: 'this call was under way in the session this one was forked from',
};

/** Progress messages a call may show per second; more are dropped. */
const PROGRESS_PER_SECOND_MAX = 10;

/** Runs one tool call. Everything that can happen to it is a result, so that the model can go on. */
export async function runToolCall(
  deps: EffectDeps,
  host: SessionHost,
  pending: ToolPending,
  signal: AbortSignal,
  restored: Restored | null,
): Promise<InputDraft[]> {
  if (restored && (pending.class === 'unsafe' || pending.class === 'probe')) {
    const why = UNDER_WAY[restored];
    return [stopped(pending, 'unknown', `${why}; whether it had an effect is not known, so it is not repeated`)];
  }
  const release = await deps.toolSlots.take(host.id, signal).catch(() => null);
  if (!release) return [stopped(pending, ABORTED, 'the call was stopped before it began')];
  try {
    return [await callTool(deps, host, pending, signal)];
  } finally {
    release();
  }
}

async function callTool(deps: EffectDeps, host: SessionHost, pending: ToolPending, signal: AbortSignal): Promise<InputDraft> {
  const { session } = host.view;
  let spent: { usage?: Usage; costUsd?: number | null } = {};
  const result = await deps.tools.run(
    pending.name,
    inputOf(host, pending),
    {
      sessionKey: session.sessionKey,
      sessionId: session.id,
      agent: session.agent,
      project: session.project ?? '',
      daemonUrl: deps.daemon.baseUrl,
      callKey: `${host.id}:${pending.key}`,
      signal,
      progress: progressOf(deps, host, pending),
      used: (usage, costUsd) => {
        spent = { usage, costUsd };
      },
    },
    pending.phase === 'research' ? { timeoutMs: deps.config.limits.researchTimeoutMs } : {},
  );
  return {
    name: 'tool:result',
    payload: {
      id: pending.id,
      name: pending.name,
      key: pending.key,
      output: result.output,
      isError: result.isError,
      ...(result.error ? { error: { code: result.error.code, message: result.error.message } } : {}),
      durationMs: result.durationMs,
      bytes: result.bytes,
      ...(result.truncated ? { truncated: true } : {}),
      ...spent,
    },
  };
}

function inputOf(host: SessionHost, pending: ToolPending): unknown {
  const { context } = host.core.snapshot;
  if (pending.phase === 'research') return { query: context.turn?.query ?? '' };
  return context.calls.find((call) => call.key === pending.key)?.input ?? {};
}

function progressOf(deps: EffectDeps, host: SessionHost, pending: ToolPending): (message: string, fraction?: number) => void {
  let second = 0;
  let count = 0;
  return (message, fraction) => {
    const now = Math.floor(deps.clock.now() / 1_000);
    if (now !== second) {
      second = now;
      count = 0;
    }
    count += 1;
    if (count > PROGRESS_PER_SECOND_MAX) return;
    deps.hub.progress(host.id, { id: pending.id, message, ...(fraction === undefined ? {} : { fraction }) });
  };
}

function stopped(pending: ToolPending, code: string, message: string): InputDraft {
  return {
    name: 'tool:result',
    payload: {
      id: pending.id,
      name: pending.name,
      key: pending.key,
      output: message,
      isError: true,
      error: { code, message },
      durationMs: 0,
      bytes: message.length,
    },
  };
}
