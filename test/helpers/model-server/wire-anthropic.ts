import { type Frame, jsonFrame, type WireAnswer, type WireError } from './frames.ts';
import { callId, inputPieces, inputText, type Reply, replyStop, replyText, replyUsage, textPieces } from './reply.ts';

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  500: 'api_error',
  529: 'overloaded_error',
};

export const ANTHROPIC_OVERFLOW: WireError = { status: 400, message: 'prompt is too long: 210000 tokens > 200000 maximum' };

export function anthropicError(error: WireError): unknown {
  const type = error.type ?? ERROR_TYPES[error.status] ?? 'api_error';
  return { type: 'error', error: { type, message: error.message ?? 'scripted error' }, request_id: 'req_scripted' };
}

/** Answer of the Messages API, streamed or whole. */
export function anthropicAnswer(reply: Reply, request: { readonly number: number; readonly model: string }): WireAnswer {
  const head = { id: `msg_${request.number}`, type: 'message', role: 'assistant', model: request.model };
  return {
    frames: () => [
      jsonFrame('message_start', {
        type: 'message_start',
        message: { ...head, content: [], stop_reason: null, stop_sequence: null, usage: wireUsage(reply, 1) },
      }),
      jsonFrame('ping', { type: 'ping' }),
      ...blockFrames(reply, request.number),
      jsonFrame('message_delta', {
        type: 'message_delta',
        delta: { stop_reason: replyStop(reply), stop_sequence: null },
        usage: endUsage(reply),
      }),
      jsonFrame('message_stop', { type: 'message_stop' }),
    ],
    body: () => ({
      ...head,
      content: [
        ...(reply.thinking === undefined ? [] : [{ type: 'thinking', thinking: reply.thinking, signature: reply.signature ?? 'sig' }]),
        ...(replyText(reply) === '' ? [] : [{ type: 'text', text: replyText(reply) }]),
        ...(reply.toolCalls ?? []).map((call, index) => ({
          type: 'tool_use',
          id: callId(call, request.number, index),
          name: call.name,
          input: JSON.parse(inputText(call)) as unknown,
        })),
      ],
      stop_reason: replyStop(reply),
      stop_sequence: null,
      usage: wireUsage(reply, replyUsage(reply)?.outputTokens ?? 0),
    }),
  };
}

function blockFrames(reply: Reply, requestNumber: number): Frame[] {
  const frames: Frame[] = [];
  let index = 0;
  const block = (content: unknown, deltas: readonly unknown[]): void => {
    frames.push(jsonFrame('content_block_start', { type: 'content_block_start', index, content_block: content }));
    for (const delta of deltas) frames.push(jsonFrame('content_block_delta', { type: 'content_block_delta', index, delta }, true));
    frames.push(jsonFrame('content_block_stop', { type: 'content_block_stop', index }));
    index += 1;
  };
  if (reply.thinking !== undefined) {
    block({ type: 'thinking', thinking: '', signature: '' }, [
      { type: 'thinking_delta', thinking: reply.thinking },
      { type: 'signature_delta', signature: reply.signature ?? 'sig' },
    ]);
  }
  const pieces = textPieces(reply);
  if (pieces.length > 0) {
    block(
      { type: 'text', text: '' },
      pieces.map((text) => ({ type: 'text_delta', text })),
    );
  }
  for (const [position, call] of (reply.toolCalls ?? []).entries()) {
    block(
      { type: 'tool_use', id: callId(call, requestNumber, position), name: call.name, input: {} },
      inputPieces(call).map((text) => ({ type: 'input_json_delta', partial_json: text })),
    );
  }
  return frames;
}

function endUsage(reply: Reply): Record<string, number> {
  const usage = replyUsage(reply);
  return usage ? { output_tokens: usage.outputTokens } : {};
}

function wireUsage(reply: Reply, outputTokens: number): Record<string, number> {
  const usage = replyUsage(reply);
  if (!usage) return {};
  const read = usage.cacheReadTokens ?? 0;
  const write = usage.cacheWriteTokens ?? 0;
  return {
    input_tokens: usage.inputTokens - read - write,
    cache_read_input_tokens: read,
    cache_creation_input_tokens: write,
    output_tokens: outputTokens,
  };
}
