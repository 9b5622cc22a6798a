import type { ModelInfo, Usage } from '../contract/provider.ts';
import type { CallAccount } from './usage.ts';

export interface TextPart {
  readonly type: 'text';
  readonly text: string;
}
export interface ImagePart {
  readonly type: 'image';
  /** image/png, image/jpeg, image/gif or image/webp. */
  readonly mediaType: string;
  /** Base64 without prefix. */
  readonly data: string;
}
export interface ThinkingPart {
  readonly type: 'thinking';
  readonly text: string;
  /** The provider's proof that it wrote this; sent back unchanged. */
  readonly signature?: string;
}
export interface ToolCallPart {
  readonly type: 'tool_call';
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}
export interface ToolResultPart {
  readonly type: 'tool_result';
  readonly id: string;
  readonly name: string;
  readonly output: string;
  readonly isError: boolean;
}

export type Message =
  | { readonly role: 'user'; readonly content: readonly (TextPart | ImagePart)[] }
  | { readonly role: 'assistant'; readonly content: readonly (TextPart | ThinkingPart | ToolCallPart)[] }
  | { readonly role: 'tool'; readonly content: readonly ToolResultPart[] };

export interface ToolDefinition {
  readonly name: string;
  readonly description: string;
  /** JSON Schema, draft 2020-12 or 7, of type object. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** Parsed JSON; the raw text when the model wrote no valid JSON (`inputError` says why). */
  readonly input: unknown;
  readonly inputError?: string;
}

export type StopReason = 'end_turn' | 'tool_use' | 'max_tokens' | 'stop_sequence' | 'refusal';

export interface CompletionOptions {
  readonly model?: string;
  /** Tokens the answer may have; as many as the model can write when left out. */
  readonly maxTokens?: number;
  /** Tokens the context window has left for thinking and answer, as far as is known; an answer is never asked to be longer. */
  readonly roomTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  /** The answer ends before the first of them. */
  readonly stopSequences?: readonly string[];
  readonly tools?: readonly ToolDefinition[];
  readonly systemPrompt?: string;
  /** Ask for extended thinking with this many tokens; left out where a model has none. */
  readonly thinkingTokens?: number;
  /** The answer must be JSON of this schema (type object). */
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  /** Same key, same request: where a provider can deduplicate, it may. */
  readonly idempotencyKey?: string;
  /** Closes the socket. */
  readonly signal?: AbortSignal;
  /** Called with what is used so far, estimated where the provider has not told it; a call that breaks off is counted by the last one. */
  readonly onUsage?: (usage: Usage) => void;
  /** Called right before each request is sent, by providers with `tellsSend`. */
  readonly onSend?: () => void;
  /** What the call is counted under. */
  readonly account?: CallAccount;
}

export interface CompletionResult {
  readonly content: string;
  readonly thinking?: readonly ThinkingPart[];
  readonly toolCalls?: readonly ToolCall[];
  readonly stopReason: StopReason;
  readonly usage: Usage;
  /** The model that answered, as the provider names it. */
  readonly model: string;
}

/** The last chunk of a stream that ended well is always `done`; a stream that breaks throws instead. */
export type CompletionChunk =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'thinking'; readonly text: string }
  | { readonly type: 'done'; readonly result: CompletionResult };

/**
 * A model behind a port.
 *
 * @throws AppError of complete() and stream(): `provider_overloaded` (429, 529, 503; `retryAfterMs` when the provider named one),
 *   `provider_timeout` (no byte within the stall limit), `provider_stream_cut` (ended without its final event), `provider_malformed`,
 *   `context_overflow`, `unknown_model`, `provider_refused` (400, 401, 403, 404: trying again will not help), `provider_failed` (any other fault, 5xx, no connection).
 *   An abort by the caller's signal throws its `signal.reason`.
 * Providers never retry by themselves: retries are the session's, so that they are visible.
 * @source spec/native-runtime, "Provider"
 */
export interface Provider {
  readonly id: string;
  /** anthropic, openai, openai-compatible, demo or the name a registrant gives. */
  readonly kind: string;
  /** Asked for when a call names none. */
  readonly defaultModel: string;
  /** It calls `onSend` before each request; of others each call is one request. */
  readonly tellsSend?: true;
  complete(messages: readonly Message[], options?: CompletionOptions): Promise<CompletionResult>;
  stream(messages: readonly Message[], options?: CompletionOptions): AsyncIterable<CompletionChunk>;
  /** True when a call would reach the provider now; bounded by AVAILABILITY_TIMEOUT_MS, never throws. */
  available(): Promise<boolean>;
  /** Models with limits and prices as far as they are known; never throws, may be empty. */
  models(): Promise<ModelInfo[]>;
}
