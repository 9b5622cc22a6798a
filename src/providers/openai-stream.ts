import type OpenAI from 'openai';
import type { Usage } from '../contract/provider.ts';
import { AppError } from '../core/errors.ts';
import type { CompletionChunk, CompletionResult, StopReason, ThinkingPart, ToolCall } from '../core/provider.ts';
import { estimateUsage, eventsWithFinal, parseToolCall } from './completion.ts';
import { cutError, eventError, type FaultContext } from './errors.ts';
import { reasoningSignature } from './openai-request.ts';

type StreamEvent = OpenAI.Responses.ResponseStreamEvent;
type Finished = OpenAI.Responses.Response;

interface State {
  readonly thinking: ThinkingPart[];
  readonly toolCalls: ToolCall[];
  content: string;
  /** Characters of thinking and of arguments as they come, for servers that report no usage. */
  otherChars: number;
  /** As told with an answer that failed. */
  usage: OpenAI.Responses.ResponseUsage | null;
  failed: boolean;
  refused: boolean;
  started: boolean;
}

interface OpenaiFold {
  readonly context: FaultContext;
  readonly model: string;
  /** Characters sent, for servers that report no usage. */
  readonly promptChars: number;
  /** Told once, of an answer that broke off. */
  readonly onUsage?: ((usage: Usage) => void) | undefined;
}

const FINAL = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error']);

/** Chunks of a Responses stream. The SDK ends quietly when the stream does, so `done` follows only the event that says the answer is whole. */
export async function* foldOpenai(fold: OpenaiFold, events: AsyncIterable<StreamEvent>): AsyncGenerator<CompletionChunk> {
  const state: State = {
    thinking: [],
    toolCalls: [],
    content: '',
    otherChars: 0,
    usage: null,
    failed: false,
    refused: false,
    started: false,
  };
  let done = false;
  try {
    for await (const event of eventsWithFinal(events, (one) => FINAL.has(one.type))) {
      if (done) continue;
      const chunk = apply(state, event, fold.context);
      if (chunk) yield chunk;
      if (event.type === 'response.completed' || event.type === 'response.incomplete') {
        done = true;
        yield { type: 'done', result: toResult(state, event.response, fold) };
      }
    }
    if (done) return;
    if (!state.started) throw new AppError('provider_malformed', { detail: `${fold.context.id}: the answer holds no event` });
    throw cutError(fold.context, 'the answer ended without response.completed');
  } finally {
    if (!done && wasUsed(state)) fold.onUsage?.(toUsage(state, state.usage, fold));
  }
}

/** An answer that the provider itself gave up before its first word is none. */
function wasUsed(state: State): boolean {
  return state.usage !== null || state.content.length + state.otherChars > 0 || (state.started && !state.failed);
}

/** The API says by `response.in_progress` and events like it that it is at work; a part of the answer is what it wrote. */
export function hasContent(event: StreamEvent): boolean {
  if ('delta' in event) return event.delta !== '';
  return FINAL.has(event.type) || event.type === 'response.output_item.done';
}

function apply(state: State, event: StreamEvent, context: FaultContext): CompletionChunk | undefined {
  state.started = true;
  switch (event.type) {
    case 'response.refusal.delta':
      state.refused = true;
      state.content += event.delta;
      return { type: 'text', text: event.delta };
    case 'response.output_text.delta':
      state.content += event.delta;
      return { type: 'text', text: event.delta };
    case 'response.reasoning_summary_part.added':
      return event.summary_index > 0 ? { type: 'thinking', text: '\n\n' } : undefined;
    case 'response.reasoning_summary_text.delta':
    case 'response.reasoning_text.delta':
      state.otherChars += event.delta.length;
      return { type: 'thinking', text: event.delta };
    case 'response.function_call_arguments.delta':
      state.otherChars += event.delta.length;
      return undefined;
    case 'response.output_item.done':
      keepItem(state, event.item);
      return undefined;
    case 'response.failed':
      state.failed = true;
      state.usage = event.response.usage ?? null;
      throw eventError(event.response.error ?? {}, context);
    case 'error':
      state.failed = true;
      throw eventError(event, context);
    default:
      return undefined;
  }
}

function keepItem(state: State, item: OpenAI.Responses.ResponseOutputItem): void {
  if (item.type === 'function_call') state.toolCalls.push(parseToolCall(item.call_id, item.name, item.arguments));
  if (item.type !== 'reasoning') return;
  const text = (item.summary.length > 0 ? item.summary : (item.content ?? [])).map((part) => part.text).join('\n\n');
  const sealed = item.encrypted_content;
  if (text === '' && !sealed) return;
  state.thinking.push({ type: 'thinking', text, ...(sealed ? { signature: reasoningSignature(item.id, sealed) } : {}) });
}

function toResult(state: State, response: Finished, fold: OpenaiFold): CompletionResult {
  return {
    content: state.content,
    ...(state.thinking.length > 0 ? { thinking: state.thinking } : {}),
    ...(state.toolCalls.length > 0 ? { toolCalls: state.toolCalls } : {}),
    stopReason: stopReason(state, response),
    usage: toUsage(state, response.usage ?? null, fold),
    model: response.model || fold.model,
  };
}

function stopReason(state: State, response: Finished): StopReason {
  if (response.incomplete_details?.reason === 'content_filter' || state.refused) return 'refusal';
  if (response.status === 'incomplete') return 'max_tokens';
  return state.toolCalls.length > 0 ? 'tool_use' : 'end_turn';
}

function toUsage(state: State, usage: OpenAI.Responses.ResponseUsage | null, fold: OpenaiFold): Usage {
  if (!usage) return estimateUsage(fold.promptChars, state.content.length + state.otherChars);
  const read = usage.input_tokens_details?.cached_tokens ?? 0;
  const write = usage.input_tokens_details?.cache_write_tokens ?? 0;
  return {
    inputTokens: usage.input_tokens,
    outputTokens: usage.output_tokens,
    ...(read > 0 ? { cacheReadTokens: read } : {}),
    ...(write > 0 ? { cacheWriteTokens: write } : {}),
  };
}
