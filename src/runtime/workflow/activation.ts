import type { Activation } from '../../../machines/workflow-context.ts';
import type { PayloadOf } from '../../contract/catalog.ts';
import { ERRORS, type ErrorCode } from '../../contract/errors.ts';
import type { CallerLimit } from '../../contract/scope.ts';
import type { PromptAnswer } from '../../contract/session.ts';
import type { CauseRef } from '../../contract/signal.ts';
import type { WorkflowAgentRules } from '../../contract/workflow.ts';
import type { WorkflowPayloadOf } from '../../contract/workflow-signals.ts';
import { requireWithin } from '../../core/caller-scope.ts';
import { AppError, isAppError } from '../../core/errors.ts';
import type { RequestContext } from '../../core/operation-call.ts';
import type { PromptView } from '../../core/session-view.ts';
import type { PromptService } from '../prompt-service.ts';
import type { RuntimeDeps } from '../runtime-deps.ts';
import type { SessionService } from '../session-service.ts';
import { refOf } from './workflow-core.ts';

/** Wait before something that may pass is tried again, and before a stop is repeated; unit: milliseconds. */
const RETRY_MS = 250;
/** How often work that fails of something that may pass is offered again: two minutes. */
const OFFERS_MAX = 480;
/** The runtime takes no new work now, or has no room for it. They say nothing about the work, so they are waited out. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'overloaded',
  'draining',
  'too_many_sessions',
  'too_many_children',
  'session_busy',
]);
const RUNNING: ReadonlySet<string> = new Set(['queued', 'running']);

export interface ActivationPorts {
  readonly deps: RuntimeDeps;
  readonly sessions: SessionService;
  readonly prompts: PromptService;
}

export interface ActivationJob {
  readonly workflow: {
    readonly id: string;
    readonly name: string;
    readonly project: string | null;
    readonly limit?: CallerLimit | undefined;
  };
  readonly rules: WorkflowAgentRules;
  readonly activation: Activation;
  /** agent:activated. */
  readonly cause: CauseRef;
  /** The run no longer wants the answer: its turn is cancelled. */
  readonly stop: AbortSignal;
  /** The process lets go of the run; the session goes on by itself. */
  readonly leave: AbortSignal;
}

/** How the turn of an activation ended. */
export type Outcome = Pick<WorkflowPayloadOf<'workflow:result'>, 'ok' | 'output' | 'error' | 'usage' | 'costUsd' | 'cause'>;

/**
 * One activation as a normal session with one prompt, both under ids known before: doing it again, also in another process, joins what is
 * there. Never throws for what the session can fail of; throws when the process lets go of the run.
 */
export async function runActivation(ports: ActivationPorts, job: ActivationJob): Promise<Outcome> {
  const stopping = stopWhenTold(ports, job);
  try {
    const answer = await offer(ports, job);
    return { ...(await turnFacts(ports, job)), ok: true, output: answer.output ?? answer.content };
  } catch (error) {
    job.leave.throwIfAborted();
    const { code, detail } = isAppError(error) ? error : { code: 'internal', detail: 'a fault of this server; the log has the cause' };
    if (!isAppError(error)) ports.deps.logger.error({ err: error, workflow: job.workflow.id }, 'an activation failed unexpectedly');
    return { ...(await turnFacts(ports, job)), ok: false, output: null, error: { code, message: detail } };
  } finally {
    stopping.end();
    if (job.rules.session === 'new' && !job.leave.aborted) await endQuietly(ports, job.workflow.id, job.activation.session);
  }
}

/** Sessions that activations share end with the run. */
export async function endQuietly({ deps, sessions }: ActivationPorts, workflow: string, id: string): Promise<void> {
  try {
    await sessions.end({ id, reason: 'workflow' }, contextOf(workflow));
  } catch (error) {
    if (!isAppError(error, 'session_not_found'))
      deps.logger.warn({ err: error, session: id, workflow }, 'the session of an activation did not end');
  }
}

/**
 * The answer of the turn. A prompt that has ended is answered from the log, whatever the load. An admission refusal is never the outcome: it
 * is offered again until the run stops. What else may pass (a crashed session, a full disk) is offered OFFERS_MAX times.
 *
 * @throws AppError how the turn failed; the reason of `leave`
 */
async function offer(ports: ActivationPorts, job: ActivationJob): Promise<PromptAnswer> {
  for (let attempt = 1; ; ) {
    try {
      return await ask(ports, job);
    } catch (error) {
      job.leave.throwIfAborted();
      const isRefused = isAppError(error) && REFUSALS.has(error.code);
      const prompt = await promptOf(ports, job);
      const hasEnded = prompt !== undefined && !RUNNING.has(prompt.status) && prompt.status !== 'rejected';
      // What the turn itself failed of is final. A refusal of a turn that has ended was about something else: the next look finds the answer.
      if (hasEnded && !(isRefused && prompt.error?.code !== error.code)) throw error;
      const mayPass = !isAppError(error) || ERRORS[error.code].retryable;
      if (!mayPass || job.stop.aborted) throw error;
      if (!isRefused && ++attempt > OFFERS_MAX) throw error;
      await pause(job.leave, job.stop, isRefused ? error.retryAfterMs : undefined);
    }
  }
}

async function ask(
  { deps, sessions, prompts }: ActivationPorts,
  { workflow, rules, activation, cause, stop }: ActivationJob,
): Promise<PromptAnswer> {
  const { session: id, agent, prompt: content } = activation;
  const context = contextOf(workflow.id, workflow.limit);
  const existing = await deps.supervisor.view(id).catch((error: unknown) => {
    if (isAppError(error, 'session_not_found')) return null;
    throw error;
  });
  // A session that the trigger came from, or that had the id before, may be of another project.
  if (existing && workflow.limit) requireWithin(workflow.limit, { ...existing.session, isLive: true });
  if (!existing?.prompts.has(promptIdOf(workflow.id, activation))) refuseStopped(stop);
  if (!existing) {
    const { provider, model, system, tools } = rules;
    await sessions.create(
      {
        id,
        title: `${workflow.name}: ${agent}`,
        ...(rules.agent ? { agent: rules.agent } : {}),
        ...(workflow.project === null ? {} : { project: workflow.project }),
        ...(provider ? { provider } : {}),
        ...(model ? { model } : {}),
        ...(system ? { system } : {}),
        ...(tools ? { tools } : {}),
        metadata: { workflow: workflow.id, workflowAgent: agent },
      },
      context,
      cause,
    );
    refuseStopped(stop);
  }
  const { timeoutMs } = rules.limits;
  const answer = await prompts.prompt(
    {
      id,
      promptId: promptIdOf(workflow.id, activation),
      content,
      ...(rules.output ? { output: { schema: rules.output } } : {}),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    },
    context,
    cause,
  );
  if (answer.status === 'completed') return answer;
  throw new AppError('prompt_cancelled', { detail: `the turn ended as ${answer.status}` });
}

function refuseStopped(stop: AbortSignal): void {
  if (stop.aborted) throw new AppError('prompt_cancelled', { detail: 'the workflow was stopped before the turn began' });
}

/** Stops the turn as soon as nobody wants it, and again until it has ended: the prompt may be on its way when the stop comes. */
function stopWhenTold(ports: ActivationPorts, job: ActivationJob): { end(): void } {
  let ended = false;
  const stopTurn = async (): Promise<void> => {
    while (!ended && !job.leave.aborted) {
      try {
        await stopOnce(ports, job);
      } catch (error) {
        ports.deps.logger.debug({ err: error, session: job.activation.session }, 'the turn of an activation could not be stopped yet');
      }
      await pause(job.leave, null).catch(() => undefined); // Letting go ends the loop as well.
    }
  };
  const onStop = () => void stopTurn();
  if (job.stop.aborted) onStop();
  else job.stop.addEventListener('abort', onStop, { once: true });
  return {
    end: () => {
      ended = true;
      job.stop.removeEventListener('abort', onStop);
    },
  };
}

async function stopOnce(ports: ActivationPorts, { workflow, activation }: ActivationJob): Promise<void> {
  const { session: id } = activation;
  const promptId = promptIdOf(workflow.id, activation);
  const prompt = ports.deps.supervisor.peek(id)?.view.prompts.get(promptId);
  if (prompt?.status === 'queued') await ports.prompts.cancelPrompt({ id, promptId }, contextOf(workflow.id));
  if (prompt?.status === 'running') await ports.sessions.abort({ id, reason: 'workflow' }, contextOf(workflow.id));
}

/** What the end of the turn says, as far as there was one. */
async function turnFacts(ports: ActivationPorts, job: ActivationJob): Promise<Pick<Outcome, 'usage' | 'costUsd' | 'cause'>> {
  const none = { usage: { inputTokens: 0, outputTokens: 0 }, costUsd: 0 };
  const prompt = await promptOf(ports, job);
  if (!prompt?.endSeq) return none;
  const [end] = await ports.deps.log.read(`session:${job.activation.session}`, prompt.endSeq - 1, 1);
  if (end?.name !== 'turn:end') return end ? { ...none, cause: refOf(end) } : none;
  const { usage, costUsd } = end.payload as PayloadOf<'turn:end'>;
  return { usage, costUsd, cause: refOf(end) };
}

async function promptOf({ deps }: ActivationPorts, { workflow, activation }: ActivationJob): Promise<PromptView | undefined> {
  const view = await deps.supervisor.view(activation.session).catch(() => null); // No session, no prompt.
  return view?.prompts.get(promptIdOf(workflow.id, activation));
}

function promptIdOf(workflow: string, { activation, attempt }: Activation): string {
  return `${workflow}:${activation}:${attempt}`;
}

/** Ends early when the run stops. @throws the reason of `leave` */
async function pause(leave: AbortSignal, stop: AbortSignal | null, ms = RETRY_MS): Promise<void> {
  leave.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const onStop = () => resolve();
  const onLeave = () => reject(leave.reason);
  stop?.addEventListener('abort', onStop, { once: true });
  leave.addEventListener('abort', onLeave, { once: true });
  try {
    await promise;
  } finally {
    clearTimeout(timer);
    stop?.removeEventListener('abort', onStop);
    leave.removeEventListener('abort', onLeave);
  }
}

/** The workflow as a caller of the session operations. */
function contextOf(workflow: string, limit?: CallerLimit): RequestContext {
  const client = `workflow:${workflow}`;
  const ignore = () => undefined;
  return {
    requestId: client,
    client,
    signal: new AbortController().signal,
    header: ignore,
    ...(limit ? { caller: { id: client, role: 'operator', ...limit } } : {}),
    reply: { status: ignore, header: ignore },
  };
}
