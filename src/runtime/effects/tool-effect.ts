import { type Pending, researchInput } from '../../../machines/session-context.ts';
import type { Usage } from '../../contract/provider.ts';
import type { ToolClass } from '../../contract/tool.ts';
import { createDeadline } from '../../core/deadline.ts';
import { callPolicy } from '../approval-policy.ts';
import { workLimit } from '../caller-limit.ts';
import type { Restored } from '../effect-runner.ts';
import type { SessionHost } from '../session-host.ts';
import type { InputDraft } from '../session-state.ts';
import { restoredClass } from './call-class.ts';
import { ABORTED, type EffectDeps } from './effect-deps.ts';

type ToolPending = Pending & { kind: 'tool' };

const UNDER_WAY: Readonly<Record<Restored, string>> = {
  restart: 'the daemon was restarted while this call ran',
  fork: 'this call was under way in the session this one was forked from',
};

/** Progress messages a call may show per second; more are dropped. */
const PROGRESS_PER_SECOND_MAX = 10;

/** Classes of calls that are never made again. */
const ONCE: ReadonlySet<ToolClass> = new Set(['unsafe', 'probe']);

/** Runs one tool call. Everything that can happen to it is a result, so that the model can go on. */
export async function runToolCall(
  deps: EffectDeps,
  host: SessionHost,
  pending: ToolPending,
  signal: AbortSignal,
  restored: Restored | null,
): Promise<InputDraft[]> {
  const doubt = () => (restored && ONCE.has(restoredClass(deps, host, pending)) ? [notRepeated(pending, restored)] : null);
  const late = doubt() ?? (await waitForTool(deps, host, pending, signal, restored)) ?? doubt() ?? refusalOf(deps, host, pending);
  if (late) return late;
  const release = await deps.toolSlots.take(host.id, signal).catch(() => null);
  if (!release) return [notBegun(pending)];
  try {
    return [await callTool(deps, host, pending, signal, restored)];
  } finally {
    release();
  }
}

/** Waits while a server that has not answered since the start may bring the tool. Null when the call may go on. */
async function waitForTool(
  { toolService, config, logger }: EffectDeps,
  host: SessionHost,
  pending: ToolPending,
  signal: AbortSignal,
  restored: Restored | null,
): Promise<InputDraft[] | null> {
  const { name } = pending;
  if (!toolService.isAwaited(name)) return null;
  const waitMs = config.limits.toolArrivalMs;
  logger.warn({ session: host.id, key: pending.key, tool: name, waitMs }, 'a call waits for its tool: its MCP server has not answered yet');
  const deadline = createDeadline(`the call of ${name}`, waitMs, signal);
  try {
    await toolService.arrival(name, deadline.signal);
    return null;
  } catch {
    if (signal.aborted) return [notBegun(pending)];
    const why = `its MCP server has not answered for ${waitMs} ms (runtime.limits.toolArrivalMs)`;
    if (restored) return [stopped(pending, 'unknown', `${UNDER_WAY[restored]}, and ${why}; whether it had an effect is not known`)];
    return [stopped(pending, 'timeout', `tool ${name} is not there: ${why}; the call was not made`)];
  } finally {
    deadline.clear();
  }
}

/** A tool that came after the model had asked for it was in no list of tools and before no policy: what they say now holds. */
function refusalOf(deps: EffectDeps, host: SessionHost, pending: ToolPending): InputDraft[] | null {
  const { calls, allowedTools } = host.core.snapshot.context;
  const call = calls.find(({ key }) => key === pending.key);
  const tool = deps.tools.get(pending.name);
  if (call?.origin !== 'unknown' || !tool) return null;
  const { agent } = host.core;
  const isOpen = (host.core.allowedTools?.includes(tool.name) ?? true) && (tool.isFor?.(agent) ?? true);
  if (!isOpen) return [stopped(pending, 'denied', `${tool.name} is not among the tools of this session of ${agent}`)];
  const policy = { tool: tool.name, input: call.input, agent, needsApproval: tool.needsApproval ?? false };
  const isAllowed = call.approval === 'ask' || allowedTools.includes(tool.name) || callPolicy(deps.config, policy).approval === 'allow';
  if (isAllowed) return null;
  return [stopped(pending, 'denied', `${tool.name} was registered after this call was asked for and needs an approval; call it again`)];
}

async function callTool(
  deps: EffectDeps,
  host: SessionHost,
  pending: ToolPending,
  signal: AbortSignal,
  restored: Restored | null,
): Promise<InputDraft> {
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
      limit: workLimit(host),
      daemonUrl: deps.daemon.baseUrl,
      callKey: `${host.id}:${pending.key}`,
      callClass: restored ? restoredClass(deps, host, pending) : pending.class,
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
  if (pending.phase === 'research') {
    const offered = context.turn?.tools.find(({ name }) => name === pending.name);
    return researchInput(offered, context.turn?.query ?? '');
  }
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

function notBegun(pending: ToolPending): InputDraft {
  return stopped(pending, ABORTED, 'the call was stopped before it began');
}

function notRepeated(pending: ToolPending, restored: Restored): InputDraft {
  return stopped(pending, 'unknown', `${UNDER_WAY[restored]}; whether it had an effect is not known, so it is not repeated`);
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
