/** Which API a request spoke: Anthropic Messages, OpenAI chat completions or OpenAI Responses. */
export type Wire = 'anthropic' | 'chat' | 'responses';

export interface ToolCallReply {
  readonly id?: string;
  readonly name: string;
  readonly input?: unknown;
  /** Sent as it is instead of `input`, to play a model that writes broken JSON. */
  readonly inputText?: string;
}

/** `after` counts deltas: 0 is before the first one. */
export type Fault =
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly type?: string;
      readonly code?: string;
      readonly message?: string;
      /** Sent as it is instead of the JSON error the wire would use. */
      readonly body?: string;
    }
  /** 400 as each API words it when the conversation is too long. */
  | { readonly kind: 'overflow' }
  /** The socket is destroyed in the middle of the answer. */
  | { readonly kind: 'cut'; readonly after?: number }
  | { readonly kind: 'cut-before-headers' }
  /** The response ends cleanly, without the event that says the answer is whole. */
  | { readonly kind: 'end'; readonly after?: number }
  /** Silence after the headers or after some deltas; the socket stays open. */
  | { readonly kind: 'stall'; readonly after?: number }
  /** The same, but the connection shows that it lives: this text, sent every `everyMs`. */
  | { readonly kind: 'pings'; readonly after?: number; readonly text: string; readonly everyMs: number }
  | { readonly kind: 'stall-before-headers' }
  /** An event whose data is this text, no JSON when absent; then a clean end. */
  | { readonly kind: 'bad-json'; readonly after?: number; readonly data?: string }
  | {
      readonly kind: 'error-event';
      readonly after?: number;
      readonly error?: 'overloaded' | 'server' | 'overflow';
      readonly message?: string;
    }
  | { readonly kind: 'html' }
  | { readonly kind: 'empty' };

export interface UsageReply {
  /** All input, the cached part included. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
}

/** What the server answers to one request. Everything may be left out. */
export interface Reply {
  readonly thinking?: string;
  readonly signature?: string;
  readonly text?: string;
  /** Deltas the text is cut into; one per word when absent. */
  readonly chunks?: number;
  /** Pause before each delta in ms; without one the whole answer goes out in a single write. */
  readonly delayMs?: number;
  readonly toolCalls?: readonly ToolCallReply[];
  /** null: the server says nothing about usage. */
  readonly usage?: UsageReply | null;
  readonly stop?: 'end_turn' | 'tool_use' | 'max_tokens' | 'stop_sequence' | 'refusal';
  /** Line ends are CR LF. */
  readonly crlf?: boolean;
  /** Size of one write, so that a character of several bytes is torn apart. */
  readonly bytesPerWrite?: number;
  readonly fault?: Fault;
}

export const DEFAULT_TEXT = 'This is the scripted answer of the model server.';
export const DEFAULT_USAGE: UsageReply = { inputTokens: 10, outputTokens: 5 };

/** Text pieces as the deltas carry them; joined again they are the text. */
export function textPieces(reply: Reply): string[] {
  const text = replyText(reply);
  if (text === '') return [];
  if (reply.chunks === undefined) return text.match(/\S+\s*|\s+/g) ?? [text];
  const letters = [...text];
  const size = Math.max(1, Math.ceil(letters.length / reply.chunks));
  const pieces: string[] = [];
  for (let start = 0; start < letters.length; start += size) pieces.push(letters.slice(start, start + size).join(''));
  return pieces;
}

export function replyText(reply: Reply): string {
  return reply.text ?? (reply.toolCalls === undefined ? DEFAULT_TEXT : '');
}

export function replyUsage(reply: Reply): UsageReply | null {
  return reply.usage === undefined ? DEFAULT_USAGE : reply.usage;
}

export function replyStop(reply: Reply): NonNullable<Reply['stop']> {
  return reply.stop ?? (reply.toolCalls === undefined ? 'end_turn' : 'tool_use');
}

/** The arguments of a call in two pieces, as the APIs stream them. */
export function inputPieces(call: ToolCallReply): string[] {
  const text = inputText(call);
  const middle = Math.ceil(text.length / 2);
  return [text.slice(0, middle), text.slice(middle)].filter((piece) => piece !== '');
}

export function inputText(call: ToolCallReply): string {
  return call.inputText ?? JSON.stringify(call.input ?? {});
}

export function callId(call: ToolCallReply, requestNumber: number, index: number): string {
  return call.id ?? `call_${requestNumber}_${index}`;
}
