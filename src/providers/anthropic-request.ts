import type Anthropic from '@anthropic-ai/sdk';
import type { CompletionOptions, Message } from '../core/provider.ts';
import { effortFor } from './completion.ts';
import { type KnownModel, knownModel, type ThinkingMode } from './prices.ts';
import type { ModelOverride } from './settings.ts';

/** Tokens an answer may have when neither the caller nor the table says; the API insists on a number. */
const OUTPUT_TOKENS_DEFAULT = 16_000;
/** Least budget the API takes. */
const THINKING_TOKENS_MIN = 1_024;
/** How a block the API encrypts travels through ThinkingPart, which has a text and a signature only. */
const REDACTED = 'redacted_thinking:';
/** Signatures of other providers; they are not sent here. */
const FOREIGN_SIGNATURE = /^openai-reasoning:/;

/** The SDK left the temperature out of its types; older models and servers that speak this API still take it. */
type Params = Anthropic.MessageCreateParamsStreaming & { temperature?: number };
type Block = Anthropic.ContentBlockParam;

export interface AnthropicRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly options: CompletionOptions;
  readonly override?: ModelOverride;
  /** Adapts a schema to what the API takes; from the SDK, which is loaded late. */
  readonly outputFormat?: (schema: Record<string, unknown>) => Record<string, unknown>;
}

/** The body of POST /v1/messages. The system prompt and the last block are cache marks, so that each round reads what the one before wrote. */
export function anthropicParams({ model, messages, options, override, outputFormat }: AnthropicRequest): Params {
  const known = knownModel(model);
  const mode = thinkingMode(known, override);
  const wanted = (options.thinkingTokens ?? 0) > 0 ? mode : 'none';
  const outputMax = override?.outputTokensMax ?? known?.outputTokensMax;
  const answerTokens = Math.min(options.maxTokens ?? OUTPUT_TOKENS_DEFAULT, outputMax ?? Number.POSITIVE_INFINITY);
  const budget = Math.max(
    THINKING_TOKENS_MIN,
    Math.min(options.thinkingTokens ?? 0, (outputMax ?? Number.POSITIVE_INFINITY) - answerTokens),
  );
  const params: Params = {
    model,
    // Thinking counts as output: the budget is added, so that the answer keeps what the caller granted it.
    max_tokens: wanted === 'budget' ? answerTokens + budget : answerTokens,
    messages: markLast(toMessages(messages)),
    stream: true,
  };
  if (options.systemPrompt) params.system = [{ type: 'text', text: options.systemPrompt, cache_control: { type: 'ephemeral' } }];
  if (options.tools && options.tools.length > 0) {
    params.tools = options.tools.map((tool) => ({
      name: tool.name,
      description: tool.description,
      input_schema: tool.inputSchema as Anthropic.Tool.InputSchema,
    }));
  }
  if (wanted === 'budget') params.thinking = { type: 'enabled', budget_tokens: budget };
  if (wanted === 'adaptive') params.thinking = { type: 'adaptive', display: 'summarized' };
  const format = options.outputSchema && outputFormat ? outputFormat(options.outputSchema) : options.outputSchema;
  if (wanted === 'adaptive' || format) {
    params.output_config = {
      ...(wanted === 'adaptive' ? { effort: effortFor(options.thinkingTokens ?? 0) } : {}),
      ...(format ? { format: { type: 'json_schema', schema: format } } : {}),
    };
  }
  // Newer models refuse any temperature, and all of them refuse one while they think.
  const sampling = known?.sampling ?? !model.startsWith('claude-');
  if (options.temperature !== undefined && wanted === 'none' && sampling) params.temperature = options.temperature;
  return params;
}

/** The signature that carries an encrypted block. */
export function redactedSignature(data: string): string {
  return `${REDACTED}${data}`;
}

function thinkingMode(known: KnownModel | undefined, override: ModelOverride | undefined): ThinkingMode {
  if (override?.thinking === false) return 'none';
  // A model newer than the table thinks by itself, as all since Claude 4.6 do.
  return known?.thinking ?? 'adaptive';
}

/** Alternating user and assistant messages: results of tools are the user's, and neighbours of one role are joined. */
function toMessages(messages: readonly Message[]): Anthropic.MessageParam[] {
  const out: { role: 'user' | 'assistant'; content: Block[] }[] = [];
  for (const message of messages) {
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const blocks = toBlocks(message);
    if (blocks.length === 0) continue;
    const last = out.at(-1);
    if (last?.role === role) last.content.push(...blocks);
    else out.push({ role, content: blocks });
  }
  return out;
}

function toBlocks(message: Message): Block[] {
  const blocks: Block[] = [];
  for (const part of message.content) {
    // The API refuses empty text.
    if (part.type === 'text' && part.text.trim() !== '') blocks.push({ type: 'text', text: part.text });
    else if (part.type === 'image') {
      const source = { type: 'base64', media_type: part.mediaType, data: part.data } as Anthropic.Base64ImageSource;
      blocks.push({ type: 'image', source });
    } else if (part.type === 'thinking') blocks.push(...thinkingBlock(part.text, part.signature));
    else if (part.type === 'tool_call') blocks.push({ type: 'tool_use', id: part.id, name: part.name, input: toObject(part.input) });
    else if (part.type === 'tool_result') {
      blocks.push({ type: 'tool_result', tool_use_id: part.id, content: part.output, ...(part.isError ? { is_error: true } : {}) });
    }
  }
  return blocks;
}

/** Unsigned thinking is another model's and would be refused. */
function thinkingBlock(text: string, signature: string | undefined): Block[] {
  if (!signature || FOREIGN_SIGNATURE.test(signature)) return [];
  if (signature.startsWith(REDACTED)) return [{ type: 'redacted_thinking', data: signature.slice(REDACTED.length) }];
  return [{ type: 'thinking', thinking: text, signature }];
}

/** The API takes objects only; what a model wrote wrongly is shown to it again under a name. */
function toObject(input: unknown): Record<string, unknown> {
  if (typeof input === 'object' && input !== null && !Array.isArray(input)) return input as Record<string, unknown>;
  return { invalid_input: input };
}

function markLast(messages: Anthropic.MessageParam[]): Anthropic.MessageParam[] {
  const blocks = messages.at(-1)?.content;
  const last = Array.isArray(blocks) ? blocks.at(-1) : undefined;
  if (last && (last.type === 'text' || last.type === 'image' || last.type === 'tool_result' || last.type === 'tool_use')) {
    last.cache_control = { type: 'ephemeral' };
  }
  return messages;
}
