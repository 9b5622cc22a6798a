import type Anthropic from '@anthropic-ai/sdk';
import type { Usage } from '../contract/provider.ts';
import { AppError } from '../core/errors.ts';
import type { CompletionChunk, CompletionResult, StopReason, ThinkingPart, ToolCall } from '../core/provider.ts';
import type { SseEvent } from '../core/sse-parser.ts';
import { redactedSignature } from './anthropic-request.ts';
import { estimateTokens, eventsWithFinal, parseToolCall } from './completion.ts';
import { cutError, type FaultContext, streamFault } from './errors.ts';
import { EventReader } from './streamed-answer.ts';

type StreamEvent = Anthropic.RawMessageStreamEvent;

interface Block {
  readonly type: 'text' | 'thinking' | 'redacted_thinking' | 'tool_use' | 'other';
  readonly id: string;
  readonly name: string;
  text: string;
  signature: string;
}

interface State {
  readonly blocks: Map<number, Block>;
  /** Null is what was not told. */
  readonly usage: { input: number | null; output: number | null; cacheRead: number; cacheWrite: number };
  /** At its start an answer has an output too, of its first token; only the end tells it. */
  outputTold: boolean;
  model: string;
  stop: string | null;
  started: boolean;
}

const STOP_REASONS: Readonly<Record<string, StopReason>> = {
  end_turn: 'end_turn',
  pause_turn: 'end_turn',
  tool_use: 'tool_use',
  max_tokens: 'max_tokens',
  model_context_window_exceeded: 'max_tokens',
  stop_sequence: 'stop_sequence',
  refusal: 'refusal',
};

/** The events of a streamed answer. Pings say nothing, and an event without a name is none of this API's. */
export function anthropicEvents(context: FaultContext, response: Response): EventReader<StreamEvent> {
  const parse = ({ event, data }: SseEvent): StreamEvent | undefined => {
    if (event === 'ping' || event === 'message') return undefined;
    if (event === 'error') throw streamFault(parseOr(data), context);
    return JSON.parse(data) as StreamEvent;
  };
  return new EventReader(response, parse, hasContent);
}

/** Starts and ends without a text, and events this program does not know, only show that the service lives. */
function hasContent(event: StreamEvent): boolean {
  switch (event.type) {
    case 'content_block_delta':
      return Object.values(event.delta).some((value) => value !== '' && value !== event.delta.type);
    case 'content_block_start':
      return event.content_block.type !== 'text' || event.content_block.text !== '';
    case 'message_delta':
      return event.delta.stop_reason !== null;
    case 'message_stop':
      return true;
    default:
      return false;
  }
}

/** Some gateways write their error as plain text. */
function parseOr(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return data;
  }
}

interface AnthropicFold {
  readonly context: FaultContext;
  readonly model: string;
  /** Characters sent, for servers that report no usage. */
  readonly promptChars: number;
  /** Told once, of an answer that broke off. */
  readonly onUsage?: ((usage: Usage) => void) | undefined;
}

/** Chunks of a Messages stream; the last one is `done`, after `message_stop` only. */
export async function* foldAnthropic(fold: AnthropicFold, events: AsyncIterable<StreamEvent>): AsyncGenerator<CompletionChunk> {
  const state: State = {
    blocks: new Map(),
    usage: { input: null, output: null, cacheRead: 0, cacheWrite: 0 },
    outputTold: false,
    model: fold.model,
    stop: null,
    started: false,
  };
  let done = false;
  try {
    for await (const event of eventsWithFinal(events, (one) => one.type === 'message_stop')) {
      if (done) continue;
      const chunk = apply(state, event);
      if (chunk) yield chunk;
      if (event.type === 'message_stop') {
        done = true;
        yield { type: 'done', result: toResult(state, fold) };
      }
    }
    if (done) return;
    if (!state.started) throw new AppError('provider_malformed', { detail: `${fold.context.id}: the answer holds no event` });
    throw cutError(fold.context, 'the answer ended without message_stop');
  } finally {
    if (!done && state.started) fold.onUsage?.(usageOf(state, fold));
  }
}

function apply(state: State, event: StreamEvent): CompletionChunk | undefined {
  state.started = true;
  switch (event.type) {
    case 'message_start':
      state.model = event.message.model;
      addUsage(state, event.message.usage);
      return undefined;
    case 'content_block_start':
      return startBlock(state, event);
    case 'content_block_delta':
      return applyDelta(state, event);
    case 'message_delta':
      state.stop = event.delta.stop_reason ?? state.stop;
      addUsage(state, event.usage);
      state.outputTold ||= typeof event.usage?.output_tokens === 'number';
      return undefined;
    default:
      return undefined;
  }
}

function startBlock(state: State, { index, content_block: block }: Anthropic.RawContentBlockStartEvent): CompletionChunk | undefined {
  const empty = { id: '', name: '', text: '', signature: '' };
  if (block.type === 'text') state.blocks.set(index, { ...empty, type: 'text', text: block.text });
  else if (block.type === 'thinking')
    state.blocks.set(index, { ...empty, type: 'thinking', text: block.thinking, signature: block.signature });
  else if (block.type === 'redacted_thinking')
    state.blocks.set(index, { ...empty, type: 'redacted_thinking', signature: redactedSignature(block.data) });
  else if (block.type === 'tool_use') state.blocks.set(index, { ...empty, type: 'tool_use', id: block.id, name: block.name });
  else state.blocks.set(index, { ...empty, type: 'other' });
  if (block.type === 'text' && block.text !== '') return { type: 'text', text: block.text };
  return undefined;
}

function applyDelta(state: State, { index, delta }: Anthropic.RawContentBlockDeltaEvent): CompletionChunk | undefined {
  const block = state.blocks.get(index);
  if (!block) throw new TypeError('a delta for a block that was not started');
  if (delta.type === 'text_delta') {
    block.text += delta.text;
    return { type: 'text', text: delta.text };
  }
  if (delta.type === 'thinking_delta') {
    block.text += delta.thinking;
    return { type: 'thinking', text: delta.thinking };
  }
  if (delta.type === 'signature_delta') block.signature += delta.signature;
  if (delta.type === 'input_json_delta') block.text += delta.partial_json;
  return undefined;
}

interface WireUsage {
  readonly input_tokens?: number | null;
  readonly output_tokens?: number | null;
  readonly cache_read_input_tokens?: number | null;
  readonly cache_creation_input_tokens?: number | null;
}

/** The numbers are totals so far: a later one replaces an earlier one. */
function addUsage({ usage }: State, wire: WireUsage | null | undefined): void {
  usage.input = wire?.input_tokens ?? usage.input;
  usage.output = wire?.output_tokens ?? usage.output;
  usage.cacheRead = wire?.cache_read_input_tokens ?? usage.cacheRead;
  usage.cacheWrite = wire?.cache_creation_input_tokens ?? usage.cacheWrite;
}

/** The API counts cached input apart; the port counts it in. */
function usageOf(state: State, { promptChars }: AnthropicFold): Usage {
  const { input, output, cacheRead, cacheWrite } = state.usage;
  const written = [...state.blocks.values()].reduce((sum, block) => sum + block.text.length, 0);
  const outputTokens = state.outputTold && output !== null ? output : Math.max(output ?? 0, estimateTokens(written));
  return {
    inputTokens: (input ?? (cacheRead + cacheWrite > 0 ? 0 : estimateTokens(promptChars))) + cacheRead + cacheWrite,
    outputTokens,
    ...(cacheRead > 0 ? { cacheReadTokens: cacheRead } : {}),
    ...(cacheWrite > 0 ? { cacheWriteTokens: cacheWrite } : {}),
    ...(input === null || outputTokens !== output ? { estimated: true } : {}),
  };
}

function toResult(state: State, fold: AnthropicFold): CompletionResult {
  const blocks = [...state.blocks.entries()].sort(([a], [b]) => a - b).map(([, block]) => block);
  const thinking = blocks
    .filter((block) => block.type === 'thinking' || block.type === 'redacted_thinking')
    .map((block): ThinkingPart => ({ type: 'thinking', text: block.text, ...(block.signature ? { signature: block.signature } : {}) }));
  const toolCalls = blocks
    .filter((block) => block.type === 'tool_use')
    .map((block): ToolCall => parseToolCall(block.id, block.name, block.text));
  return {
    content: blocks.map((block) => (block.type === 'text' ? block.text : '')).join(''),
    ...(thinking.length > 0 ? { thinking } : {}),
    ...(toolCalls.length > 0 ? { toolCalls } : {}),
    stopReason: STOP_REASONS[state.stop ?? ''] ?? (toolCalls.length > 0 ? 'tool_use' : 'end_turn'),
    usage: usageOf(state, fold),
    model: state.model,
  };
}
