import type OpenAI from 'openai';
import type { Usage } from '../contract/provider.ts';
import { AppError } from '../core/errors.ts';
import type { CompletionChunk, CompletionResult, StopReason } from '../core/provider.ts';
import { estimateUsage, eventsWithFinal, parseToolCall, requireFewCalls } from './completion.ts';
import { cutError, type FaultContext } from './errors.ts';

type Chunk = OpenAI.Chat.ChatCompletionChunk;
type ToolCallPiece = OpenAI.Chat.ChatCompletionChunk.Choice.Delta.ToolCall;
type Delta = OpenAI.Chat.ChatCompletionChunk.Choice.Delta & {
  readonly reasoning_content?: string | null;
  readonly reasoning?: string | null;
};

interface Call {
  readonly index: number;
  id: string;
  name: string;
  text: string;
}

interface State {
  readonly calls: Call[];
  content: string;
  thinking: string;
  finish: string | null;
  usage: OpenAI.CompletionUsage | null;
  model: string;
  started: boolean;
}

interface ChatFold {
  readonly context: FaultContext;
  readonly model: string;
  /** Characters sent, for servers that report no usage. */
  readonly promptChars: number;
  /** Told once, of an answer that broke off. */
  readonly onUsage?: ((usage: Usage) => void) | undefined;
}

const STOP_REASONS: Readonly<Record<string, StopReason>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  function_call: 'tool_use',
  content_filter: 'refusal',
};

/** Chunks of a chat completions stream. The answer is whole when a choice carried a finish reason; usage comes after it or not at all. */
export async function* foldChat(fold: ChatFold, chunks: AsyncIterable<Chunk>): AsyncGenerator<CompletionChunk> {
  const state: State = { calls: [], content: '', thinking: '', finish: null, usage: null, model: fold.model, started: false };
  let whole = false;
  try {
    for await (const chunk of eventsWithFinal(chunks, (one) => Boolean(one.choices?.[0]?.finish_reason))) {
      state.started = true;
      state.model = chunk.model || state.model;
      state.usage = chunk.usage ?? state.usage;
      const choice = chunk.choices?.[0];
      state.finish = choice?.finish_reason ?? state.finish;
      if (choice?.delta) yield* applyDelta(state, choice.delta);
    }
    if (!state.started) throw new AppError('provider_malformed', { detail: `${fold.context.id}: the answer holds no event` });
    if (state.finish === null) throw cutError(fold.context, 'the answer ended without a finish reason');
    whole = true;
    yield { type: 'done', result: toResult(state, fold) };
  } finally {
    if (!whole && state.started) fold.onUsage?.(toUsage(state, fold));
  }
}

/** Some servers show that they live by chunks without a choice, or with an empty text. */
export function hasContent({ choices, usage }: Chunk): boolean {
  const choice = choices?.[0];
  if (usage || choice?.finish_reason) return true;
  const delta: Delta = choice?.delta ?? {};
  return Boolean(delta.content || delta.refusal || delta.reasoning_content || delta.reasoning || delta.tool_calls?.length);
}

function* applyDelta(state: State, delta: Delta): Generator<CompletionChunk> {
  // vLLM, llama.cpp and DeepSeek say reasoning_content, Ollama says reasoning.
  const thinking = delta.reasoning_content ?? delta.reasoning;
  if (thinking) {
    state.thinking += thinking;
    yield { type: 'thinking', text: thinking };
  }
  const text = delta.content ?? delta.refusal;
  if (text) {
    state.content += text;
    yield { type: 'text', text };
  }
  for (const piece of delta.tool_calls ?? []) addCall(state.calls, piece);
}

/** Pieces belong together by index; some servers number all calls 0 and tell them apart by id only. */
function addCall(calls: Call[], piece: ToolCallPiece): void {
  const index = piece.index ?? 0;
  let call = calls.findLast((one) => one.index === index);
  if (!call || (piece.id && call.id && piece.id !== call.id)) {
    call = { index, id: piece.id ?? '', name: '', text: '' };
    calls.push(call);
    requireFewCalls(calls.length);
  }
  call.id ||= piece.id ?? '';
  call.name ||= piece.function?.name ?? '';
  call.text += piece.function?.arguments ?? '';
}

function toResult(state: State, fold: ChatFold): CompletionResult {
  const toolCalls = state.calls.map((call, position) => parseToolCall(call.id || `call_${position}`, call.name, call.text));
  const stop = STOP_REASONS[state.finish ?? ''] ?? 'end_turn';
  return {
    content: state.content,
    ...(state.thinking === '' ? {} : { thinking: [{ type: 'thinking', text: state.thinking }] }),
    ...(toolCalls.length > 0 ? { toolCalls } : {}),
    // Some servers say stop although they call tools.
    stopReason: toolCalls.length > 0 && stop === 'end_turn' ? 'tool_use' : stop,
    usage: toUsage(state, fold),
    model: state.model,
  };
}

function toUsage({ usage, content, thinking, calls }: State, fold: ChatFold): Usage {
  if (!usage) {
    const written = content.length + thinking.length + calls.reduce((sum, call) => sum + call.text.length, 0);
    return estimateUsage(fold.promptChars, written);
  }
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  return { inputTokens: usage.prompt_tokens, outputTokens: usage.completion_tokens, ...(cached > 0 ? { cacheReadTokens: cached } : {}) };
}
