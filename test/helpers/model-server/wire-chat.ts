import { type Frame, jsonFrame, type WireAnswer, type WireError } from './frames.ts';
import { callId, inputPieces, inputText, type Reply, replyStop, replyText, replyUsage, textPieces } from './reply.ts';

const FINISH_REASONS = { end_turn: 'stop', stop_sequence: 'stop', tool_use: 'tool_calls', max_tokens: 'length', refusal: 'content_filter' };
/** Fixed, so that two answers to the same script are the same bytes. */
const CREATED_S = 1_700_000_000;

export const CHAT_OVERFLOW: WireError = {
  status: 400,
  type: 'invalid_request_error',
  code: 'context_length_exceeded',
  message: "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
};

/** Error body of both OpenAI APIs. */
export function openaiError(error: WireError): unknown {
  const type = error.type ?? (error.status >= 500 ? 'server_error' : error.status === 429 ? 'requests' : 'invalid_request_error');
  const code = error.code ?? (error.status === 429 ? 'rate_limit_exceeded' : null);
  return { error: { message: error.message ?? 'scripted error', type, param: null, code } };
}

interface ChatRequest {
  readonly number: number;
  readonly model: string;
  /** `stream_options.include_usage`. */
  readonly includeUsage: boolean;
}

/** Answer of the chat completions API, streamed or whole. */
export function chatAnswer(reply: Reply, request: ChatRequest): WireAnswer {
  const head = { id: `chatcmpl_${request.number}`, created: CREATED_S, model: request.model };
  const finish = FINISH_REASONS[replyStop(reply)];
  const chunk = (delta: unknown, reason: string | null = null) => ({
    ...head,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: reason }],
  });
  return {
    frames: () => {
      const frames: Frame[] = [jsonFrame(undefined, chunk({ role: 'assistant', content: '' }))];
      if (reply.thinking !== undefined) frames.push(jsonFrame(undefined, chunk({ reasoning_content: reply.thinking }), true));
      for (const text of textPieces(reply)) frames.push(jsonFrame(undefined, chunk({ content: text }), true));
      for (const [index, call] of (reply.toolCalls ?? []).entries()) {
        const start = { index, id: callId(call, request.number, index), type: 'function', function: { name: call.name, arguments: '' } };
        frames.push(jsonFrame(undefined, chunk({ tool_calls: [start] })));
        for (const text of inputPieces(call)) {
          frames.push(jsonFrame(undefined, chunk({ tool_calls: [{ index, function: { arguments: text } }] }), true));
        }
      }
      frames.push(jsonFrame(undefined, chunk({}, finish)));
      const usage = wireUsage(reply);
      if (request.includeUsage && usage) {
        frames.push(jsonFrame(undefined, { ...head, object: 'chat.completion.chunk', choices: [], usage }));
      }
      frames.push({ data: '[DONE]', delta: false });
      return frames;
    },
    body: () => ({
      ...head,
      object: 'chat.completion',
      choices: [{ index: 0, finish_reason: finish, logprobs: null, message: wholeMessage(reply, request.number) }],
      ...(wireUsage(reply) ? { usage: wireUsage(reply) } : {}),
    }),
  };
}

function wholeMessage(reply: Reply, requestNumber: number): unknown {
  const calls = (reply.toolCalls ?? []).map((call, index) => ({
    id: callId(call, requestNumber, index),
    type: 'function',
    function: { name: call.name, arguments: inputText(call) },
  }));
  const thinking = reply.thinking === undefined ? {} : { reasoning_content: reply.thinking };
  return { role: 'assistant', content: replyText(reply), refusal: null, ...thinking, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
}

function wireUsage(reply: Reply): unknown {
  const usage = replyUsage(reply);
  if (!usage) return null;
  return {
    prompt_tokens: usage.inputTokens,
    completion_tokens: usage.outputTokens,
    total_tokens: usage.inputTokens + usage.outputTokens,
    prompt_tokens_details: { cached_tokens: usage.cacheReadTokens ?? 0 },
  };
}
