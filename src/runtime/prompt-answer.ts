import type { PayloadOf } from '../contract/catalog.ts';
import type { PromptAnswer, ToolResult } from '../contract/session.ts';
import type { Signal } from '../contract/signal.ts';
import type { RequestedCall } from '../contract/signal-spec.ts';
import { isAppError } from '../core/errors.ts';
import { parseJsonAnswer } from '../core/json-answer.ts';
import type { PromptView } from '../core/session-view.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import { logTrimmed } from './session-fold.ts';

/** Signals read at once when an answer is put together. */
const ANSWER_PAGE_SIGNALS = 500;

/** Of a prompt whose signals were trimmed the state is known, the answer is not. */
export function goneAnswer(error: unknown): null {
  if (isAppError(error, 'log_trimmed')) return null;
  throw error;
}

/** Of a prompt that waits or runs. */
export function emptyAnswer(prompt: PromptView): PromptAnswer {
  return {
    id: prompt.id,
    status: prompt.status,
    content: '',
    toolResults: [],
    usage: { inputTokens: 0, outputTokens: 0 },
    costUsd: 0,
    stopReason: null,
    seq: prompt.endSeq ?? prompt.seq,
  };
}

/** Put together from the log, so that it is the same whenever and wherever it is asked for. */
export async function readAnswer(deps: RuntimeDeps, asked: string, prompt: PromptView): Promise<PromptAnswer> {
  const session = prompt.log ?? asked;
  const fold = new AnswerFold(prompt);
  let seq = (prompt.turnSeq ?? prompt.seq) - 1;
  while (prompt.endSeq !== null && seq < prompt.endSeq) {
    // What has just happened is still in memory.
    const recent = deps.hub.recentAfter(session, seq, ANSWER_PAGE_SIGNALS);
    const page = recent?.length ? recent : await deps.log.read(`session:${session}`, seq, ANSWER_PAGE_SIGNALS);
    if (page.length === 0 && prompt.log !== undefined) throw logTrimmed(session, prompt.endSeq);
    if (page.length === 0) break;
    if (page[0]!.seq > seq + 1) throw logTrimmed(session, page[0]!.seq - 1);
    for (const signal of page) if (signal.seq <= prompt.endSeq) fold.take(signal);
    seq = page.at(-1)!.seq;
  }
  return fold.answer();
}

interface Call {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  readonly result: ToolResult | null;
}

class AnswerFold {
  readonly #turn: number | null;
  readonly #answer: PromptAnswer;
  /** By model call and id, since a model may use an id twice. Results come in as tools finish; people read them in the order they were asked for. */
  readonly #calls = new Map<string, Call>();
  readonly #slots = new Map<string, string>();
  #modelCall = '';

  constructor(prompt: PromptView) {
    this.#turn = prompt.turn;
    this.#answer = emptyAnswer(prompt);
  }

  answer(): PromptAnswer {
    return { ...this.#answer, toolResults: [...this.#calls.values()].flatMap(({ result }) => (result ? [result] : [])) };
  }

  take(signal: Signal): void {
    if (signal.source.turn !== this.#turn && signal.name !== 'turn:end') return;
    switch (signal.name) {
      case 'text:complete': {
        const { key, content } = signal.payload as PayloadOf<'text:complete'>;
        // Of a call that is stopped nothing follows, and this is what had come by then.
        if (this.#isOfTurn(key)) Object.assign(this.#answer, { content, streaming: true });
        break;
      }
      case 'harness:end':
        this.#takeModelAnswer(signal.payload as unknown as PayloadOf<'harness:end'>);
        break;
      case 'research:end': {
        const { faults } = signal.payload as unknown as PayloadOf<'research:end'>;
        if (faults) this.#answer.researchFaults = faults;
        break;
      }
      case 'tool:approval:resolved':
        this.#takeDecision(signal.payload as unknown as PayloadOf<'tool:approval:resolved'>);
        break;
      case 'tool:call': {
        const { id, name, input, key } = signal.payload as unknown as PayloadOf<'tool:call'>;
        const slot = this.#slot(id);
        this.#slots.set(key, slot);
        if (!id.startsWith('pre_')) this.#calls.set(slot, { id, name, input, result: null });
        break;
      }
      case 'tool:result': {
        const { id, name, key, output, isError, durationMs } = signal.payload as unknown as PayloadOf<'tool:result'>;
        const slot = this.#slots.get(key);
        const call = slot === undefined ? undefined : this.#calls.get(slot);
        if (call && this.#isOfTurn(key)) {
          this.#calls.set(slot!, { ...call, result: { id, name, input: call.input, output, isError, durationMs } });
        }
        break;
      }
      case 'turn:end': {
        const { turn, usage, costUsd, stopReason } = signal.payload as unknown as PayloadOf<'turn:end'>;
        if (turn === this.#turn) Object.assign(this.#answer, { usage, costUsd, stopReason });
        break;
      }
      default:
    }
  }

  /** Work of an earlier turn that was given up may still answer in this one. */
  #isOfTurn(key: string): boolean {
    return key.startsWith(`t${this.#turn}.`);
  }

  #slot(id: string): string {
    return `${this.#modelCall}/${id}`;
  }

  #takeModelAnswer({ key, content, toolCalls, outputValid, firstTokenMs }: PayloadOf<'harness:end'>): void {
    if (!this.#isOfTurn(key)) return;
    this.#answer.content = content;
    this.#answer.streaming = firstTokenMs !== null;
    if (outputValid) this.#answer.output = parseJsonAnswer(content);
    this.#modelCall = key;
    for (const call of toolCalls) {
      const denied = call.approval === 'deny' ? deniedResult(call, call.reason ?? 'this tool is denied by policy') : null;
      this.#calls.set(this.#slot(call.id), { id: call.id, name: call.name, input: call.input, result: denied });
    }
  }

  #takeDecision({ id, decision, by, message }: PayloadOf<'tool:approval:resolved'>): void {
    const call = this.#calls.get(this.#slot(id));
    if (!call || decision !== 'deny') return;
    this.#calls.set(this.#slot(id), { ...call, result: deniedResult(call, message ? `denied by ${by}: ${message}` : `denied by ${by}`) });
  }
}

/** In the words the model is told. */
function deniedResult({ id, name, input }: Pick<RequestedCall, 'id' | 'name'> & { input?: unknown }, output: string): ToolResult {
  return { id, name, input, output, isError: true, durationMs: 0 };
}
