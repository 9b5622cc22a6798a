import type { CrossAgentMessage } from '../../src/contract/cross-agent.ts';
import { daemonOperations } from '../../src/contract/daemon.ts';
import type { ToolClass } from '../../src/contract/tool.ts';
import { AppError } from '../../src/core/errors.ts';
import type { Call, DaemonClient } from '../../src/core/operation-call.ts';
import type { CompletionChunk, CompletionOptions, Message, Provider } from '../../src/core/provider.ts';
import type { Tool } from '../../src/core/tool.ts';
import { modelAnswer, textOf } from './model-answers.ts';
import type { Random } from './random.ts';
import type { VirtualTime } from './virtual-time.ts';
import type { Weather } from './weather.ts';

/** How long slow work takes; unit: milliseconds. */
const SLOW_MS = 900_000;
/** Model calls, tools and hooks of one process run at most this much later than they are told to stop; unit: milliseconds. */
const STUBBORN_MS = 20_000;

/** Work that is under way outside of the program. */
export interface Flight {
  readonly kind: 'model' | 'tool' | 'hook';
  readonly session: string;
  readonly key: string;
  readonly signal: AbortSignal;
  /** Not answered before this, on the clock of `elapsed`. */
  notBefore: number;
  answer(): void;
}

/** One start of a tool. */
export interface ToolStart {
  readonly class: ToolClass;
  readonly signal: AbortSignal;
  /** Number of the process that started it. */
  readonly life: number;
  ended: boolean;
}

export const TOOLS: readonly { name: string; class: ToolClass; needsApproval?: boolean; pre?: boolean }[] = [
  { name: 'look', class: 'pure' },
  { name: 'send', class: 'idempotent' },
  { name: 'burn', class: 'unsafe' },
  { name: 'probe', class: 'probe' },
  { name: 'sign', class: 'unsafe', needsApproval: true },
  { name: 'ask', class: 'pure', needsApproval: true },
  { name: 'forbidden', class: 'unsafe' },
  { name: 'notes', class: 'pure', pre: true },
];

/** Model, tools and daemon as the program sees them; the simulation decides when each call ends, and how. */
export class Outside {
  weather: Pick<Weather, 'model' | 'tool' | 'hook'> & Pick<Weather, 'obedient' | 'slow'>;
  life = 0;
  readonly toolStarts = new Map<string, ToolStart[]>();
  /** The log holds a result of this call. */
  isFinished: (session: string, key: string) => boolean = () => false;
  /** Told of what the program must not do. */
  readonly report: (invariant: string, detail: string) => void;
  readonly #random: Random;
  readonly #time: VirtualTime;
  #flights: Flight[] = [];
  /** Messages by the session they are for. */
  readonly #mail = new Map<string, CrossAgentMessage[]>();
  #posted = 0;

  constructor(random: Random, time: VirtualTime, weather: Weather, report: (invariant: string, detail: string) => void) {
    this.#random = random;
    this.#time = time;
    this.weather = weather;
    this.report = report;
  }

  get flights(): readonly Flight[] {
    return this.#flights;
  }

  /** Those that may be answered now. */
  get ready(): readonly Flight[] {
    return this.#flights.filter((flight) => flight.notBefore <= this.#time.elapsed);
  }

  /** When the next slow one is done; null when none is under way. */
  get nextReady(): number | null {
    const later = this.#flights.filter((flight) => flight.notBefore > this.#time.elapsed).map((flight) => flight.notBefore);
    return later.length > 0 ? Math.min(...later) : null;
  }

  /** The process died: nobody waits for these any more. */
  forget(): void {
    this.#flights = [];
    this.life += 1;
  }

  provider(): Provider {
    return {
      id: 'sim',
      kind: 'sim',
      defaultModel: 'sim-1',
      complete: () => Promise.reject(new Error('the runtime streams')),
      stream: (messages, options) => this.#stream(messages, options!),
      available: async () => true,
      models: async () => [],
    };
  }

  tools(): Tool[] {
    return TOOLS.map(
      ({ name, class: toolClass, needsApproval = false, pre = false }): Tool => ({
        name,
        description: `${name} something`,
        inputSchema: { type: 'object' },
        class: toolClass,
        origin: 'builtin',
        needsApproval,
        runBeforeGeneration: pre,
        execute: (_input, { sessionId, callKey, signal }) => this.#runTool(sessionId, callKey, toolClass, signal),
      }),
    );
  }

  daemon(): DaemonClient {
    const call = (operation: { id: string }, input: HookInput, options: { signal?: AbortSignal; timeoutMs?: number } = {}) =>
      this.#callHook(operation.id, input, options.signal ?? new AbortController().signal, options.timeoutMs ?? 5_000);
    return { baseUrl: 'http://daemon.invalid', call: call as unknown as Call };
  }

  async *#stream(messages: readonly Message[], options: CompletionOptions): AsyncGenerator<CompletionChunk> {
    const [session = '', key = ''] = options.idempotencyKey!.split(':');
    const { signal } = options;
    this.#checkRequest(session, key, messages);
    const others = this.#flights.filter((flight) => flight.kind === 'model' && flight.session === session && !flight.signal.aborted);
    if (others.length > 0) this.report('one model call at a time', `${session} called ${key} while ${others[0]!.key} was live`);
    if (this.#random.chance(0.3)) yield { type: 'text', text: textOf(this.#random) };
    const answer = await this.#fly('model', session, key, signal!, () =>
      modelAnswer(this.#random, this.weather.model, { messages, isSummary: key.startsWith('c'), offersTools: options.tools !== undefined }),
    );
    if (answer.thinking) yield { type: 'thinking', text: 'hm' };
    if (answer.result.content) yield { type: 'text', text: answer.result.content };
    if (answer.error) throw answer.error;
    yield { type: 'done', result: answer.result };
  }

  #runTool(session: string, callKey: string, toolClass: ToolClass, signal: AbortSignal): Promise<unknown> {
    const starts = this.toolStarts.get(callKey) ?? [];
    const live = starts.filter((other) => other.life === this.life && !other.ended && !other.signal.aborted);
    const start: ToolStart = { class: toolClass, signal, life: this.life, ended: false };
    if (toolClass === 'unsafe' && starts.length > 0) this.report('an unsafe tool runs once', `${callKey} was started again`);
    if (this.isFinished(session, callKey.slice(session.length + 1))) this.report('a finished tool never runs again', callKey);
    if (live.length > 0) this.report('a tool runs once at a time', `${callKey} was started while it ran`);
    this.toolStarts.set(callKey, [...starts, start]);
    return this.#fly('tool', session, callKey, signal, () => {
      start.ended = true;
      const outcome = this.#random.weighted(this.weather.tool);
      if (outcome === 'error') throw new Error('the tool broke');
      return outcome === 'big' ? 'word '.repeat(this.#random.between(100, 800)) : textOf(this.#random);
    });
  }

  /** A message that waits until the session has said that it heard it. */
  post(session: string): CrossAgentMessage {
    this.#posted += 1;
    const message: CrossAgentMessage = {
      id: `msg_${this.#posted}`,
      seq: this.#posted,
      createdAt: new Date(0).toISOString(),
      fromAgentId: 'rose',
      toSessionKey: session,
      content: textOf(this.#random),
      type: 'info',
      broadcast: false,
      deliveryPath: 'local',
      deliveryStatus: 'delivered',
      recipients: 1,
    };
    this.#mail.set(session, [...(this.#mail.get(session) ?? []), message]);
    return message;
  }

  /** What the session did not hear of yet. */
  #tell({ sessionKey = '', heardMessages = [] }: HookInput): CrossAgentMessage[] {
    const left = (this.#mail.get(sessionKey) ?? []).filter(({ id }) => !heardMessages.includes(id));
    this.#mail.set(sessionKey, left);
    return left;
  }

  #callHook(id: string, input: HookInput, signal: AbortSignal, timeoutMs: number): Promise<unknown> {
    const outcome = this.#random.weighted(this.weather.hook);
    const deadline = AbortSignal.timeout(timeoutMs);
    const messages = id === daemonOperations.hookUserPromptSubmit.id && outcome === 'ok' ? this.#tell(input) : [];
    const flight = this.#fly('hook', input.sessionKey ?? '', id, AbortSignal.any([signal, deadline]), () => {
      if (outcome === 'failed') throw new AppError('daemon_unreachable', { detail: 'nobody answers' });
      return { ...hookReply(id, outcome === 'bypassed', this.#random), ...(messages.length > 0 ? { messages } : {}) };
    }).catch((error: unknown) => {
      if (deadline.aborted && !signal.aborted) throw new AppError('timeout', { detail: `no answer within ${timeoutMs} ms` });
      throw error;
    });
    // Within its deadline a hook always ends: the transport sees to that.
    const last = this.#flights.at(-1)!;
    if (outcome === 'late') last.notBefore = Number.POSITIVE_INFINITY;
    return flight;
  }

  /** Under way until the simulation answers it. Hooks and obedient work end with their signal. */
  #fly<T>(kind: Flight['kind'], session: string, key: string, signal: AbortSignal, result: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const obedient = kind === 'hook' || this.#random.chance(this.weather.obedient);
    const slow = kind !== 'hook' && this.#random.chance(this.weather.slow);
    const land = (): void => {
      this.#flights = this.#flights.filter((other) => other !== flight);
    };
    const flight: Flight = {
      kind,
      session,
      key,
      signal,
      notBefore: slow ? this.#time.elapsed + SLOW_MS : 0,
      answer: () => {
        land();
        try {
          resolve(result());
        } catch (error) {
          reject(error);
        }
      },
    };
    const stop = () => {
      if (!obedient) {
        flight.notBefore = this.#time.elapsed + this.#random.between(0, STUBBORN_MS);
        return;
      }
      land();
      reject(signal.reason);
    };
    this.#flights.push(flight);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    return promise;
  }

  /** What providers refuse: results without their calls, calls without their results, a conversation that the user did not open. */
  #checkRequest(session: string, key: string, messages: readonly Message[]): void {
    const wrong = (what: string) => this.report('a model is asked what providers take', `${session} ${key}: ${what}`);
    if (messages[0]?.role !== 'user') wrong(`the first message is of ${messages[0]?.role ?? 'nobody'}`);
    messages.forEach((message, index) => {
      const next = messages[index + 1];
      if (message.role === 'assistant') {
        const asked = message.content.flatMap((part) => (part.type === 'tool_call' ? [part.id] : []));
        const given = next?.role === 'tool' ? next.content.map((part) => part.id) : [];
        if (asked.join() !== given.join()) wrong(`calls ${asked.join()} are followed by results ${given.join()}`);
        if (message.content.length === 0) wrong('an empty message of the assistant');
      }
      if (message.role === 'tool' && messages[index - 1]?.role !== 'assistant') wrong('results without calls');
    });
    if (messages.at(-1)?.role === 'assistant') wrong('the last message is the assistant’s');
  }
}

interface HookInput {
  readonly sessionKey?: string;
  readonly heardMessages?: readonly string[];
}

function hookReply(id: string, bypassed: boolean, random: Random): object {
  const bypass = bypassed ? { bypassed: true } : {};
  const inject = bypassed ? '' : textOf(random);
  switch (id) {
    case daemonOperations.hookSessionStart.id:
      return { memories: [], inject, ...bypass };
    case daemonOperations.hookUserPromptSubmit.id:
      return { memories: [], memoryCount: 0, inject, ...bypass };
    case daemonOperations.hookPreCompaction.id:
      return { summaryPrompt: inject, guidelines: '', ...bypass };
    case daemonOperations.hookCompactionComplete.id:
      return { success: true, memoryId: 'mem_1', ...bypass };
    default:
      return { memoriesSaved: 0, ...bypass };
  }
}
