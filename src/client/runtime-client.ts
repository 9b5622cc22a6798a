import type { InputOf, Operation, OutputOf } from '../contract/operation.ts';
import { runtimeOperations as operations } from '../contract/runtime.ts';
import type { PromptAnswer } from '../contract/session.ts';
import { TOOL_TIMEOUT_MS_MAX } from '../contract/tool.ts';
import { newId } from '../core/clock.ts';
import { isAppError } from '../core/errors.ts';
import type { Call, CallOptions } from '../core/operation-call.ts';
import { createHttpTransport } from './http-transport.ts';
import { type SessionEvent, type StreamOptions, streamSession, streamWorkflow } from './session-stream.ts';
import { runWorkflow } from './workflow-run.ts';

/**
 * Deadline of calls that answer when a turn has ended, in ms. A turn takes 30 minutes by default and a day at most, and
 * before it others may wait: the server ends turns, this only keeps a call from hanging for ever. Give a signal to stop waiting earlier.
 */
export const PROMPT_TIMEOUT_MS = 25 * 3_600_000;
/** Beyond the longest wait a client may ask the server for, in ms. */
const WAIT_MARGIN_MS = 15_000;
/** Deadline of an abort and of the end of a session: both answer when running work has settled, in ms. */
const SETTLE_TIMEOUT_MS = 150_000;

/** What the server waits when a wait names no time, in ms. */
const DEFAULT_WAIT_MS = 60_000;
/** Deadline of calls that go through whole logs, in ms. */
const LOG_TIMEOUT_MS = 300_000;
/** Deadline of a direct tool call that names none, in ms: the server ends it at the tool's own, which may be as long as this. */
const TOOL_CALL_TIMEOUT_MS = TOOL_TIMEOUT_MS_MAX + WAIT_MARGIN_MS;

export interface RuntimeClientOptions {
  /** `http://127.0.0.1:7700` */
  readonly baseUrl: string;
  /** Sent as `Authorization: Bearer`. */
  readonly token?: string;
  /** Send the token over plain HTTP to another machine too; SIGNET_ALLOW_INSECURE=1 says the same. */
  readonly allowInsecure?: boolean;
  /** Who asks, recorded beside what it causes; default `sdk`. */
  readonly actor?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Deadline of ordinary calls in ms. */
  readonly timeoutMs?: number;
  /** The platform's own when left out. */
  readonly fetch?: typeof fetch;
}

type SignalOption = Pick<CallOptions, 'signal'>;
type Ops = typeof operations;
/** Input of an operation on one session, without the id that is given apart. */
type Rest<Op extends Operation, Taken extends string = 'id'> = Omit<InputOf<Op>, Taken>;

/** Typed client of a runtime: every method is one call of one operation. Rejects with the AppError the server answered. */
export type RuntimeClient = ReturnType<typeof createRuntimeClient>;

/**
 * Connect to a running runtime. Nothing is opened until a method is called, and nothing needs closing.
 *
 * @throws AppError (from each method) with the code of the answer; `daemon_unreachable` when nobody answers; `timeout` past the deadline
 * @source spec/native-runtime, "SDK is a typed HTTP client"
 */
export function createRuntimeClient(options: RuntimeClientOptions) {
  const baseUrl = options.baseUrl.replace(/\/+$/, '');
  const headers = { 'x-signet-actor': options.actor ?? 'sdk', ...options.headers };
  const connection = { baseUrl, token: options.token, allowInsecure: options.allowInsecure, headers, fetch: options.fetch };
  const call = createHttpTransport({ ...connection, timeoutMs: options.timeoutMs });
  return {
    baseUrl,
    /** Any operation of the contract, for what has no method here. */
    call,
    session: {
      ...sessionMethods(call),
      /** Events from the cursor on, then live; goes on by itself after a lost connection, until `signal` or the end of the session. */
      stream: (id: string, query: StreamOptions = {}): AsyncIterable<SessionEvent> => streamSession(connection, id, query),
    },
    workflow: {
      ...workflowMethods(call),
      /** Starts it and waits for its end; `signal` aborts the run. Rejects with a WorkflowError, which has its signals, when it ends in an error. */
      run: (input: InputOf<Ops['runWorkflow']>, { signal }: SignalOption = {}) =>
        runWorkflow({ call, stream: (id) => streamWorkflow(connection, id, { events: 'workflow:end' }) }, input, signal),
      /** Its own signals from the cursor on, then live, until workflow:end. */
      stream: (id: string, query: Omit<StreamOptions, 'deltas'> = {}): AsyncIterable<SessionEvent> => streamWorkflow(connection, id, query),
    },
    ...catalogueMethods(call),
  };
}

function workflowMethods(call: Call) {
  return {
    start: (input: InputOf<Ops['runWorkflow']>) => call(operations.runWorkflow, input),
    get: (id: string) => call(operations.getWorkflow, { id }),
    list: (query: InputOf<Ops['listWorkflows']> = {}) => call(operations.listWorkflows, query),
    /** Answers when all has settled; with `purge` its log is forgotten as well. */
    abort: (id: string, reason?: string, { purge }: { readonly purge?: boolean | undefined } = {}) =>
      call(operations.abortWorkflow, { id, ...(reason ? { reason } : {}), ...(purge ? { purge } : {}) }, { timeoutMs: SETTLE_TIMEOUT_MS }),
    events: (id: string, query: Rest<Ops['listWorkflowEvents']> = {}) => call(operations.listWorkflowEvents, { ...query, id }),
  };
}

function sessionMethods(call: Call) {
  return {
    create: (input: InputOf<Ops['createSession']> = {}) => call(operations.createSession, input),
    get: (id: string) => call(operations.getSession, { id }),
    list: (query: InputOf<Ops['listSessions']> = {}) => call(operations.listSessions, query),
    update: (id: string, change: Rest<Ops['updateSession']>) => call(operations.updateSession, { ...change, id }),
    end: (id: string, input: Rest<Ops['endSession']> = {}) =>
      call(operations.endSession, { ...input, id }, { timeoutMs: SETTLE_TIMEOUT_MS }),
    /** Answers when the turn has ended; rejects with the code of a turn that failed. Leaving does not stop the turn: `abort` does. */
    prompt: (id: string, turn: Rest<Ops['prompt'], 'id' | 'async'>, { signal }: SignalOption = {}) =>
      promptUntilAnswered(call, { promptId: newId('prm'), ...turn, id, async: false }, signal),
    /** Answers as soon as the prompt is stored; its turn is told by the stream and by `getPrompt`. */
    promptAsync: (id: string, turn: Rest<Ops['prompt'], 'id' | 'async'>, { signal }: SignalOption = {}) =>
      call(operations.prompt, { ...turn, id, async: true }, { signal }),
    getPrompt: (id: string, promptId: string) => call(operations.getPrompt, { id, promptId }),
    cancelPrompt: (id: string, promptId: string) => call(operations.cancelPrompt, { id, promptId }),
    abort: (id: string, input: Rest<Ops['abortTurn']> = {}) =>
      call(operations.abortTurn, { ...input, id }, { timeoutMs: SETTLE_TIMEOUT_MS }),
    wait: (id: string, input: Rest<Ops['waitSession']> = {}, { signal }: SignalOption = {}) =>
      call(operations.waitSession, { ...input, id }, { signal, timeoutMs: Number(input.timeoutMs ?? DEFAULT_WAIT_MS) + WAIT_MARGIN_MS }),
    compact: (id: string, { signal }: SignalOption = {}) =>
      call(operations.compactSession, { id }, { signal, timeoutMs: PROMPT_TIMEOUT_MS }),
    messages: (id: string, query: Rest<Ops['listMessages']> = {}) => call(operations.listMessages, { ...query, id }),
    events: (id: string, query: Rest<Ops['listEvents']> = {}) => call(operations.listEvents, { ...query, id }),
    children: (id: string, query: Rest<Ops['listChildren']> = {}) => call(operations.listChildren, { ...query, id }),
    machine: (id: string) => call(operations.sessionMachine, { id }),
    fork: (id: string, input: Rest<Ops['forkSession']> = {}) => call(operations.forkSession, { ...input, id }),
    resume: (id: string) => call(operations.resumeSession, { id }),
    verify: (id: string) => call(operations.verifySession, { id }),
    stateAt: (id: string, at?: number) => call(operations.sessionStateAt, { id, ...(at === undefined ? {} : { at }) }),
    /** Drops what is older than `before`, or than the last `keepTurns` turns. */
    trim: (id: string, input: Rest<Ops['trimSession']>) => call(operations.trimSession, { ...input, id }, { timeoutMs: LOG_TIMEOUT_MS }),
    diff: (id: string, other: string) => call(operations.diffSessions, { id, with: other }, { timeoutMs: LOG_TIMEOUT_MS }),
    /** The log as the text of a file. */
    exportLog: (id: string) => call(operations.exportSession, { id }, { timeoutMs: LOG_TIMEOUT_MS }),
    importLog: (file: InputOf<Ops['importSession']>) => call(operations.importSession, file, { timeoutMs: LOG_TIMEOUT_MS }),
  };
}

/**
 * Platforms give up on an answer whose headers do not come (Node after 300 s), earlier than a turn may take. The id makes the same
 * prompt again a question for the same turn, so it is asked again until the turn has ended.
 */
async function promptUntilAnswered(call: Call, input: InputOf<Ops['prompt']>, signal: AbortSignal | undefined): Promise<PromptAnswer> {
  const deadline = Date.now() + PROMPT_TIMEOUT_MS;
  for (;;) {
    try {
      return await call(operations.prompt, input, { signal, timeoutMs: deadline - Date.now() });
    } catch (error) {
      const cause = isAppError(error, 'daemon_unreachable') ? ((error.cause as Error | undefined)?.cause as { code?: string }) : undefined;
      if (cause?.code !== 'UND_ERR_HEADERS_TIMEOUT') throw error;
    }
  }
}

function catalogueMethods(call: Call) {
  return {
    tools: {
      list: (query: InputOf<Ops['listTools']> = {}) => call(operations.listTools, query),
      /** A tool that fails is an answer with `isError`, not a rejection. */
      call: (name: string, input?: unknown, extra: Rest<Ops['callTool'], 'name' | 'input'> & SignalOption = {}) => {
        const { signal, ...fields } = extra;
        const timeoutMs = fields.timeoutMs === undefined ? TOOL_CALL_TIMEOUT_MS : Number(fields.timeoutMs) + WAIT_MARGIN_MS;
        return call(operations.callTool, { ...fields, name, input }, { signal, timeoutMs });
      },
      register: (tool: InputOf<Ops['registerTool']>) => call(operations.registerTool, tool),
      unregister: (name: string) => call(operations.unregisterTool, { name }),
    },
    providers: {
      list: () => call(operations.listProviders, {}),
      status: (id: string) => call(operations.providerStatus, { id }),
      models: (query: InputOf<Ops['listModels']> = {}) => call(operations.listModels, query),
    },
    machines: {
      list: () => call(operations.listMachines, {}),
      graph: (id: string) => call(operations.machineGraph, { id }),
      mermaid: (id: string) => call(operations.machineMermaid, { id }),
    },
    approvals: {
      list: (query: InputOf<Ops['listApprovals']> = {}) => call(operations.listApprovals, query),
      decide: (id: string, approvalId: string, decision: 'once' | 'always' | 'deny', message?: string): Decided =>
        call(operations.decideApproval, { id, approvalId, decision, message }),
    },
    health: (options: CallOptions = {}) => call(operations.health, {}, options),
    info: (options: CallOptions = {}) => call(operations.info, {}, options),
  };
}

type Decided = Promise<OutputOf<Ops['decideApproval']>>;
