import type Anthropic from '@anthropic-ai/sdk';
import type { CompletionOptions, Message } from '../core/provider.ts';
import { answerTokens, effortFor } from './completion.ts';
import { type KnownModel, knownModel, type ThinkingMode } from './prices.ts';
import type { Parameter, WireNames } from './refused-parameters.ts';
import type { ModelOverride } from './settings.ts';

/** Tokens an answer may have when neither the caller nor the table says; the API insists on a number. */
const OUTPUT_TOKENS_DEFAULT = 16_000;
/** Least budget the API takes. */
const THINKING_TOKENS_MIN = 1_024;
/** How the API calls what a model may refuse. */
export const ANTHROPIC_NAMES: WireNames = {
  temperature: ['temperature'],
  topP: ['top_p'],
  stopSequences: ['stop_sequences'],
  thinkingTokens: ['thinking', 'thinking.budget_tokens', 'thinking.type', 'budget_tokens', 'output_config.effort', 'effort'],
  maxTokens: ['max_tokens'],
};
/** How a block the API encrypts travels through ThinkingPart, which has a text and a signature only. */
const REDACTED = 'redacted_thinking:';
/** Signatures of other providers; they are not sent here. */
const FOREIGN_SIGNATURE = /^openai-reasoning:/;

/** The SDK left the temperature out of its types; older models and servers that speak this API still take it. */
type Params = Anthropic.MessageCreateParamsStreaming & { temperature?: number; top_p?: number };
type Block = Anthropic.ContentBlockParam;

export interface AnthropicRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly options: CompletionOptions;
  readonly override?: ModelOverride;
  /** Told of each parameter that is not sent because the model is known not to take it. */
  readonly leftOut?: (parameter: Parameter) => void;
  /** Adapts a schema to what the API takes; from the SDK, which is loaded late. */
  readonly outputFormat?: (schema: Record<string, unknown>) => Record<string, unknown>;
}

/** The body of POST /v1/messages. The system prompt and the last block are cache marks, so that each round reads what the one before wrote. */
export function anthropicParams({ model, messages, options, override, outputFormat, leftOut }: AnthropicRequest): Params {
  const known = knownModel(model);
  const mode = thinkingMode(known, override);
  const tokens = outputTokens(options, override?.outputTokensMax ?? known?.outputTokensMax, mode);
  const wanted = (options.thinkingTokens ?? 0) > 0 && (mode !== 'budget' || tokens.budget > 0) ? mode : 'none';
  const params: Params = {
    model,
    max_tokens: tokens.total,
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
  if (wanted === 'budget') params.thinking = { type: 'enabled', budget_tokens: tokens.budget };
  if (wanted === 'adaptive') params.thinking = { type: 'adaptive', display: 'summarized' };
  const format = options.outputSchema && outputFormat ? outputFormat(options.outputSchema) : options.outputSchema;
  if (wanted === 'adaptive' || format) {
    params.output_config = {
      ...(wanted === 'adaptive' ? { effort: effortFor(options.thinkingTokens ?? 0) } : {}),
      ...(format ? { format: { type: 'json_schema', schema: format } } : {}),
    };
  }
  if (options.stopSequences && options.stopSequences.length > 0) params.stop_sequences = [...options.stopSequences];
  addSampling(params, options, { known, thinks: wanted !== 'none', leftOut });
  return params;
}

interface Sampling {
  readonly known: KnownModel | undefined;
  readonly thinks: boolean;
  readonly leftOut: ((parameter: Parameter) => void) | undefined;
}

/** Newer models refuse both, all of them refuse them while they think, and those of the table take one of both alone. */
function addSampling(params: Params, { temperature, topP }: CompletionOptions, { known, thinks, leftOut }: Sampling): void {
  const samples = !thinks && (known?.sampling ?? true);
  const takesTopP = samples && (known === undefined || temperature === undefined);
  if (temperature !== undefined && samples) params.temperature = temperature;
  if (topP !== undefined && takesTopP) params.top_p = topP;
  if (temperature !== undefined && !samples) leftOut?.('temperature');
  if (topP !== undefined && !takesTopP) leftOut?.('topP');
}

/** Thinking counts as output: the budget is added, so that the answer keeps what the caller granted it. No budget when there is no room for one. */
function outputTokens(options: CompletionOptions, outputMax: number | undefined, mode: ThinkingMode): { total: number; budget: number } {
  const granted = answerTokens(options, outputMax) ?? Math.min(OUTPUT_TOKENS_DEFAULT, options.roomTokens ?? OUTPUT_TOKENS_DEFAULT);
  const asked = mode === 'budget' ? (options.thinkingTokens ?? 0) : 0;
  if (asked === 0) return { total: granted, budget: 0 };
  const most = Math.min(outputMax ?? Number.POSITIVE_INFINITY, options.roomTokens ?? Number.POSITIVE_INFINITY);
  const total = Math.min(granted + Math.max(asked, THINKING_TOKENS_MIN), most);
  // An answer that nobody gave a length may be as long as what thinking leaves.
  const kept = options.maxTokens === undefined ? Math.min(granted, THINKING_TOKENS_MIN) : Math.min(granted, total - THINKING_TOKENS_MIN);
  const budget = Math.min(Math.max(asked, THINKING_TOKENS_MIN), total - kept);
  return kept < 1 || budget < THINKING_TOKENS_MIN ? { total: granted, budget: 0 } : { total, budget };
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
