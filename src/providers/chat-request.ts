import type OpenAI from 'openai';
import type { CompletionOptions, Message } from '../core/provider.ts';
import { answerTokens } from './completion.ts';
import { isStrictSchema } from './openai-request.ts';
import { knownModel } from './prices.ts';
import type { WireNames } from './refused-parameters.ts';
import type { ModelOverride } from './settings.ts';

/** How the API calls what a model may refuse; thinking is not asked for here. */
export const CHAT_NAMES: WireNames = {
  temperature: ['temperature'],
  topP: ['top_p'],
  stopSequences: ['stop'],
  thinkingTokens: [],
  maxTokens: ['max_tokens', 'max_completion_tokens'],
};

type Params = OpenAI.Chat.ChatCompletionCreateParamsStreaming;
type ChatMessage = OpenAI.Chat.ChatCompletionMessageParam;

interface ChatRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly options: CompletionOptions;
  readonly override?: ModelOverride;
  /** The model takes `max_completion_tokens` in place of `max_tokens`. */
  readonly completionTokens?: boolean;
}

/** The body of POST /chat/completions in the part of the API that local servers share: `max_tokens`, no `store`, no effort. */
export function chatParams({ model, messages, options, override, completionTokens }: ChatRequest): Params {
  const system: ChatMessage[] = options.systemPrompt ? [{ role: 'system', content: options.systemPrompt }] : [];
  const params: Params = {
    model,
    messages: [...system, ...messages.flatMap(toMessages)],
    stream: true,
    stream_options: { include_usage: true },
  };
  const tokens = answerTokens(options, override?.outputTokensMax ?? knownModel(model)?.outputTokensMax);
  if (tokens !== undefined) params[completionTokens ? 'max_completion_tokens' : 'max_tokens'] = tokens;
  if (options.temperature !== undefined) params.temperature = options.temperature;
  if (options.topP !== undefined) params.top_p = options.topP;
  if (options.stopSequences && options.stopSequences.length > 0) params.stop = [...options.stopSequences];
  if (options.tools && options.tools.length > 0) {
    params.tools = options.tools.map((tool) => ({
      type: 'function',
      function: { name: tool.name, description: tool.description, parameters: tool.inputSchema as Record<string, unknown> },
    }));
  }
  if (options.outputSchema) {
    const schema = options.outputSchema as Record<string, unknown>;
    params.response_format = { type: 'json_schema', json_schema: { name: 'answer', schema, strict: isStrictSchema(schema) } };
  }
  return params;
}

/** Thinking is left out: these servers take none back. */
function toMessages(message: Message): ChatMessage[] {
  if (message.role === 'tool') {
    return message.content.map((part) => ({
      role: 'tool',
      tool_call_id: part.id,
      content: part.isError ? `Error: ${part.output}` : part.output,
    }));
  }
  if (message.role === 'user') return [toUser(message.content)];
  const text = message.content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  const calls = message.content.flatMap((part) =>
    part.type === 'tool_call'
      ? [
          {
            id: part.id,
            type: 'function' as const,
            function: { name: part.name, arguments: typeof part.input === 'string' ? part.input : JSON.stringify(part.input ?? {}) },
          },
        ]
      : [],
  );
  if (text === '' && calls.length === 0) return [];
  return [{ role: 'assistant', content: text === '' ? null : text, ...(calls.length > 0 ? { tool_calls: calls } : {}) }];
}

/** Plain text stays a string: servers without images often take nothing else. */
function toUser(parts: Extract<Message, { role: 'user' }>['content']): ChatMessage {
  if (parts.every((part) => part.type === 'text')) return { role: 'user', content: parts.map((part) => part.text).join('\n') };
  return {
    role: 'user',
    content: parts.map((part) =>
      part.type === 'text'
        ? { type: 'text', text: part.text }
        : { type: 'image_url', image_url: { url: `data:${part.mediaType};base64,${part.data}` } },
    ),
  };
}
