import type { Usage } from '../contract/provider.ts';
import { AppError } from '../core/errors.ts';
import type { CompletionChunk, CompletionOptions, CompletionResult, Message, ToolCall } from '../core/provider.ts';
import { type FaultContext, toProviderError } from './errors.ts';
import { linkAbort } from './transport.ts';

/** How long the rest of a stream is read after its final event, in ms, so that the socket goes back to the pool. */
const REST_TIMEOUT_MS = 500;
/** Events after the final one that are waited for; the APIs send at most two. */
const REST_EVENTS_MAX = 16;
/** Rough length of a token, for servers that do not count. */
const CHARS_PER_TOKEN = 4;
/** Tool calls of one answer; each becomes a request, a result and signals of its own. */
const TOOL_CALLS_MAX = 500;
/** Deepest nesting of a call's arguments, as of any body. */
const ARGUMENTS_DEPTH_MAX = 128;

/**
 * Run a wire's stream with one signal that closes its socket: by the caller's abort, and when the reader stops early.
 *
 * @throws AppError as the Provider port says; the caller's `signal.reason` after an abort
 */
export async function* guardStream(
  context: FaultContext,
  signal: AbortSignal | undefined,
  open: (signal: AbortSignal) => AsyncIterable<CompletionChunk>,
): AsyncGenerator<CompletionChunk> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const unlink = linkAbort(signal, controller);
  let whole = false;
  try {
    for await (const chunk of open(controller.signal)) {
      // The SDKs end quietly when they are aborted; a delta that was under way must not look like progress.
      signal?.throwIfAborted();
      whole = chunk.type === 'done';
      if (chunk.type === 'done') requireFewCalls(chunk.result.toolCalls?.length ?? 0);
      yield chunk;
    }
    signal?.throwIfAborted();
  } catch (error) {
    throw signal?.aborted ? signal.reason : toProviderError(error, context);
  } finally {
    unlink();
    // After a whole answer the connection is released, not closed.
    if (!whole) controller.abort();
  }
}

/** The whole answer of a stream. */
export async function drainStream(stream: AsyncIterable<CompletionChunk>): Promise<CompletionResult> {
  let result: CompletionResult | undefined;
  for await (const chunk of stream) if (chunk.type === 'done') result = chunk.result;
  if (!result) throw new AppError('provider_stream_cut', { detail: 'the stream ended without its result' });
  return result;
}

/** All events; after the final one the rest is waited for only shortly, and a fault there no longer matters. */
export async function* eventsWithFinal<T>(source: AsyncIterable<T>, isFinal: (event: T) => boolean): AsyncGenerator<T> {
  const iterator = source[Symbol.asyncIterator]();
  let final = false;
  try {
    for (;;) {
      const step = final ? await lateEvent(iterator) : await iterator.next();
      if (step.done) return;
      final ||= isFinal(step.value);
      yield step.value;
    }
  } finally {
    // Not awaited: the answer is told without waiting for what the server may still send.
    void release(iterator, final);
  }
}

/** Reads the rest of a whole answer, so that its connection serves the next call; anything else is closed. Never rejects. */
async function release<T>(iterator: AsyncIterator<T>, final: boolean): Promise<void> {
  for (let events = 0; final && events < REST_EVENTS_MAX && !(await lateEvent(iterator)).done; events += 1);
  await iterator.return?.().catch(() => undefined);
}

async function lateEvent<T>(iterator: AsyncIterator<T>): Promise<IteratorResult<T>> {
  const end: IteratorResult<T> = { done: true, value: undefined };
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<IteratorResult<T>>((resolve) => {
    timer = setTimeout(resolve, REST_TIMEOUT_MS, end);
  });
  try {
    return await Promise.race([iterator.next().catch(() => end), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** @throws AppError `provider_malformed` */
export function requireFewCalls(calls: number): void {
  if (calls > TOOL_CALLS_MAX)
    throw new AppError('provider_malformed', { detail: `the answer asks for more than ${TOOL_CALLS_MAX} tool calls` });
}

/** A call with its arguments parsed; text that is no JSON is handed on with the reason, for the model to see. */
export function parseToolCall(id: string, name: string, text: string): ToolCall {
  if (text.trim() === '') return { id, name, input: {} };
  try {
    const input = JSON.parse(text) as unknown;
    if (!isDeeper(input, ARGUMENTS_DEPTH_MAX)) return { id, name, input };
    return { id, name, input: {}, inputError: `the arguments are nested deeper than ${ARGUMENTS_DEPTH_MAX} levels` };
  } catch (error) {
    return {
      id,
      name,
      input: text,
      inputError: `the arguments are not valid JSON: ${error instanceof Error ? error.message : 'unreadable'}`,
    };
  }
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

/** Tokens of a text by its length; only for servers that report no usage. */
export function estimateTokens(chars: number): number {
  return Math.ceil(chars / CHARS_PER_TOKEN);
}

/** The usage of a call whose provider told none. */
export function estimateUsage(promptChars: number, writtenChars: number): Usage {
  return { inputTokens: estimateTokens(promptChars), outputTokens: estimateTokens(writtenChars), estimated: true };
}

/** Characters of everything a call sends, images left out. */
export function promptChars(messages: readonly Message[], systemPrompt: string | undefined): number {
  let chars = systemPrompt?.length ?? 0;
  for (const message of messages) {
    for (const part of message.content) {
      if (part.type === 'text' || part.type === 'thinking') chars += part.text.length;
      else if (part.type === 'tool_call') chars += part.name.length + JSON.stringify(part.input ?? {}).length;
      else if (part.type === 'tool_result') chars += part.output.length;
    }
  }
  return chars;
}

/** Tokens to ask an answer of at most: what the caller wants, else all the model can write, within the room that is left. Undefined when nothing is known. */
export function answerTokens({ maxTokens, roomTokens }: CompletionOptions, outputTokensMax: number | undefined): number | undefined {
  const wanted = maxTokens ?? outputTokensMax;
  return wanted === undefined ? undefined : Math.min(wanted, outputTokensMax ?? wanted, roomTokens ?? wanted);
}

/** Reasoning effort for models that take a word in place of a number of tokens. */
export function effortFor(thinkingTokens: number): 'low' | 'medium' | 'high' {
  if (thinkingTokens <= 2_048) return 'low';
  return thinkingTokens <= 16_384 ? 'medium' : 'high';
}
