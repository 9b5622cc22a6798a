import { hash } from 'node:crypto';
import type { PayloadOf } from '../contract/catalog.ts';
import { ERRORS, type ErrorCode } from '../contract/errors.ts';
import { PromptId } from '../contract/ids.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { CallerLimit } from '../contract/scope.ts';
import type { PromptAnswer, PromptState } from '../contract/session.ts';
import type { sessionOperations } from '../contract/session-operations.ts';
import type { CauseRef } from '../contract/signal.ts';
import type { OfferedTool } from '../contract/signal-spec.ts';
import { limitOf } from '../core/caller-scope.ts';
import { newId } from '../core/clock.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { mergeGeneration } from '../core/generation.ts';
import type { RequestContext } from '../core/operation-call.ts';
import type { PromptView, SessionView } from '../core/session-view.ts';
import { canonicalJson } from '../core/signal-seal.ts';
import { parseTraceparent } from '../core/trace-context.ts';
import { planResearchInput } from '../tools/research-input.ts';
import { compileOutputCheck } from '../tools/tool-input.ts';
import { chooseModel } from './model-choice.ts';
import { emptyAnswer, goneAnswer, readAnswer } from './prompt-answer.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import type { SessionHost } from './session-host.ts';
import { refuseEnded } from './session-stop.ts';

type Ops = typeof sessionOperations;
type Input<K extends keyof Ops> = ParsedInputOf<Ops[K]>;

const RUNNING: ReadonlySet<string> = new Set(['queued', 'running']);
/** Characters of text that one token of a tool's definition is taken to have. */
const CHARS_PER_TOKEN = 4;

/** Send prompts, ask for their state, take them back. */
export function createPromptService(deps: RuntimeDeps) {
  const { supervisor } = deps;
  return {
    async prompt({ id, async: background, ...input }: Input<'prompt'>, context: RequestContext, cause?: CauseRef): Promise<PromptAnswer> {
      const given = givenId(input.promptId, context);
      const promptId = given ?? newId('prm');
      const detached = background || /\brespond-async\b/.test(context.header('prefer') ?? '');
      const asked = { promptId, bodyDigest: digestOf(input), detached };
      // A prompt under a new id cannot be known, so a session is not brought back into memory only to be refused.
      if (given === undefined) supervisor.admit();
      const host = await hostFor(deps, id, asked);
      if ('answered' in host) return host.answered;
      // A prompt that was taken is answered whatever the load; only new work is refused.
      if (!knownPrompt(host.view, asked)) {
        supervisor.admit();
        const { client, caller } = context;
        await submit(deps, host, asked, input, { client, cause, limit: limitOf(caller), traceparent: context.header('traceparent') });
      }
      if (detached && isRunning(host.view, promptId)) {
        context.reply.status(202);
        return emptyAnswer(host.view.prompts.get(promptId)!);
      }
      // The caller may go; the turn goes on. Only waiting stops.
      const ended = await host.until((view) => (isRunning(view, promptId) ? undefined : view.prompts.get(promptId)), {
        signal: context.signal,
      });
      return answerOrThrow(deps, id, ended);
    },

    async getPrompt({ id, promptId }: Input<'getPrompt'>): Promise<PromptState & { answer: PromptAnswer | null }> {
      const prompt = find(await supervisor.view(id), promptId);
      const state = stateOf(prompt);
      return {
        ...state,
        answer: prompt.endSeq !== null && prompt.turn !== null ? await readAnswer(deps, id, prompt).catch(goneAnswer) : null,
      };
    },

    async cancelPrompt({ id, promptId }: Input<'cancelPrompt'>, context: RequestContext): Promise<PromptState> {
      const host = await supervisor.get(id);
      await host.handle((core, view) => {
        find(view, promptId);
        if (!core.snapshot.context.mailbox.some((queued) => queued.promptId === promptId)) {
          throw new AppError('prompt_not_queued', {
            detail: `prompt ${promptId} is ${view.prompts.get(promptId)!.status}; abort the turn to stop one that runs`,
          });
        }
        return [{ name: 'prompt:cancelled', payload: { promptId, by: context.client }, client: context.client }];
      });
      return stateOf(find(host.view, promptId));
    },
  };
}

export type PromptService = ReturnType<typeof createPromptService>;

/** The id of the body or of the header, which may both stand there when they are the same. @throws AppError `invalid_request` */
function givenId(id: string | undefined, context: RequestContext): string | undefined {
  const key = headerKey(context);
  if (id === undefined || key === undefined || id === key) return id ?? key;
  const detail = `the header Idempotency-Key is "${key}" and id in the body is "${id}"; both name the prompt, so send one of them`;
  throw new AppError('invalid_request', { detail, errors: [{ pointer: '/id', detail }] });
}

/** @throws AppError `invalid_request` */
function headerKey(context: RequestContext): string | undefined {
  const key = context.header('idempotency-key');
  if (key === undefined || PromptId.safeParse(key).success) return key;
  throw new AppError('invalid_request', {
    detail: 'the header Idempotency-Key must be 1 to 128 characters of letters, digits and _ . : -',
  });
}

interface Asked {
  readonly promptId: string;
  readonly bodyDigest: string;
  /** The caller does not wait for the end of the turn. */
  readonly detached: boolean;
}

function digestOf({ promptId: _given, ...body }: Omit<Input<'prompt'>, 'id' | 'async'>): string {
  return hash('sha256', canonicalJson(body), 'base64url');
}

/**
 * The session in memory. One that cannot be there (it has ended, is quarantined, or the process shuts down) still answers for a prompt that
 * it took before: the same id and body give the same answer.
 *
 * @throws AppError `id_conflict`, and what `Supervisor.get` throws
 */
async function hostFor(deps: RuntimeDeps, id: string, asked: Asked): Promise<SessionHost | { answered: PromptAnswer }> {
  try {
    return await deps.supervisor.get(id);
  } catch (error) {
    if (!isAppError(error) || isAppError(error, 'session_not_found')) throw error;
    const view = await deps.supervisor.view(id).catch(() => null); // The first error says more.
    const prompt = view && knownPrompt(view, asked);
    if (!prompt) throw error;
    if (!RUNNING.has(prompt.status)) return { answered: await answerOrThrow(deps, id, prompt) };
    if (asked.detached) return { answered: emptyAnswer(prompt) };
    throw error;
  }
}

/** Undefined when it was not taken before. @throws AppError `id_conflict` when it was, with another body */
function knownPrompt(view: SessionView, { promptId, bodyDigest }: Asked): PromptView | undefined {
  // A prompt that was refused for lack of room left nothing behind: it may come again under its id.
  const known = answeredOrOpen(view.prompts.get(promptId));
  if (known && known.bodyDigest !== bodyDigest)
    throw new AppError('id_conflict', { detail: `prompt ${promptId} was sent before with another body` });
  return known;
}

/** On whose behalf a prompt comes. */
interface Asker {
  readonly client: string;
  readonly cause: CauseRef | undefined;
  readonly limit: CallerLimit | undefined;
  readonly traceparent: string | undefined;
}

async function submit(
  deps: RuntimeDeps,
  host: SessionHost,
  asked: Asked,
  input: Omit<Input<'prompt'>, 'id' | 'async'>,
  { client, cause, limit, traceparent }: Asker,
): Promise<void> {
  const { promptId, bodyDigest } = asked;
  const { session } = host.view;
  const chosen =
    input.provider !== undefined || input.model !== undefined
      ? chooseModel(deps, { provider: input.provider ?? session.provider, model: input.model })
      : undefined;
  // A schema that is none is told now, before a model is paid for an answer nobody can check.
  if (input.output) compileOutputCheck(input.output.schema);
  const tools = offeredTools(deps, host);
  await host.handle((core, view) => {
    if (knownPrompt(view, asked)) return [];
    refuseEnded(core.snapshot.context.endReason !== null, host.id);
    const payload: PayloadOf<'prompt:received'> = {
      promptId,
      content: input.content,
      attachments: input.attachments ?? [],
      delivery: input.delivery ?? 'queue',
      client,
      ...(input.metadata ? { metadata: input.metadata } : {}),
      ...chosen,
      ...mergeGeneration(input),
      ...(input.output ? { outputSchema: input.output.schema } : {}),
      ...(input.timeoutMs === undefined ? {} : { timeoutMs: input.timeoutMs }),
      ...tools,
      bodyDigest,
      ...(parseTraceparent(traceparent) ? { traceparent } : {}),
      ...(cause ? { cause } : {}),
      ...(limit ? { limit } : {}),
    };
    return [{ name: 'prompt:received', payload, client }];
  });
}

/** The tools of this turn; they stay the same for all of it, which keeps the beginning of its requests the same. */
function offeredTools(deps: RuntimeDeps, host: SessionHost): { tools: OfferedTool[]; preTools: string[] } {
  const allowed = host.core.allowedTools;
  const offered = deps.tools.list(host.core.agent).filter(({ name }) => allowed === null || allowed.includes(name));
  return {
    tools: offered.map(({ name, class: toolClass, origin, description, inputSchema, runBeforeGeneration }) => ({
      name,
      class: deps.config.toolClasses[name] ?? toolClass,
      origin,
      tokens: Math.ceil((name.length + description.length + schemaChars(inputSchema)) / CHARS_PER_TOKEN),
      ...(runBeforeGeneration ? researchOf(inputSchema) : {}),
    })),
    preTools: offered.filter((tool) => tool.runBeforeGeneration).map((tool) => tool.name),
  };
}

/** A tool that was accepted before its schema was looked at is given `query`, and its turns say that it fails. */
function researchOf(schema: Readonly<Record<string, unknown>>): Pick<OfferedTool, 'research'> {
  const plan = planResearchInput(schema);
  return plan === null || 'fault' in plan ? {} : { research: plan };
}

const SCHEMA_CHARS = new WeakMap<object, number>();

function schemaChars(schema: object): number {
  const known = SCHEMA_CHARS.get(schema);
  if (known !== undefined) return known;
  const chars = JSON.stringify(schema).length;
  SCHEMA_CHARS.set(schema, chars);
  return chars;
}

function answeredOrOpen(prompt: PromptView | undefined): PromptView | undefined {
  return prompt?.status === 'rejected' ? undefined : prompt;
}

function isRunning(view: SessionView, promptId: string): boolean {
  const status = view.prompts.get(promptId)?.status;
  return status !== undefined && RUNNING.has(status);
}

/** What clients are shown of it. */
function stateOf({ bodyDigest: _digest, log: _log, turnSeq: _turnSeq, limit: _limit, ...state }: PromptView): PromptState {
  return state;
}

function find(view: SessionView, promptId: string): PromptView {
  const prompt = view.prompts.get(promptId);
  if (!prompt) throw new AppError('prompt_not_found', { detail: `no prompt ${promptId} in session ${view.session.id}` });
  return prompt;
}

async function answerOrThrow(deps: RuntimeDeps, session: string, prompt: PromptView): Promise<PromptAnswer> {
  const extra = { promptId: prompt.id, session, seq: prompt.endSeq };
  switch (prompt.status) {
    case 'rejected':
      if (prompt.error?.code === 'queue-full')
        throw new AppError('session_busy', { detail: `session ${session} holds as many prompts as it may`, retryAfterMs: 1_000, extra });
      if (prompt.error?.code === 'busy')
        throw new AppError('turn_open', { detail: `a turn is running and delivery is reject`, retryAfterMs: 1_000, extra });
      throw new AppError('session_ended', { detail: `session ${session} ended before the prompt's turn came`, extra });
    case 'cancelled':
      throw new AppError('prompt_cancelled', { detail: `prompt ${prompt.id} was taken out of the queue`, extra });
    case 'failed': {
      const { code, message } = prompt.error ?? { code: 'internal', message: 'the turn failed' };
      throw new AppError(code in ERRORS ? (code as ErrorCode) : 'provider_failed', {
        detail: message,
        extra,
        cause: deps.faults.causeOf(session, prompt.id),
      });
    }
    default:
      return readAnswer(deps, session, prompt);
  }
}
