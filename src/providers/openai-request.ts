import type OpenAI from 'openai';
import type { CompletionOptions, Message } from '../core/provider.ts';
import { answerTokens, effortFor } from './completion.ts';
import { knownModel } from './prices.ts';
import type { Parameter, WireNames } from './refused-parameters.ts';
import type { ModelOverride } from './settings.ts';

/** Marks the signature of a reasoning item: `openai-reasoning:<id>:<encrypted content>`. */
const REASONING = 'openai-reasoning:';
/** Models newer than the table that reason. */
const REASONING_MODEL = /^(o\d|gpt-([5-9]|\d{2}))(?!.*chat)/;
/** Least number the API takes. */
const OUTPUT_TOKENS_MIN = 16;
/** Depth of a schema that is looked at. */
const SCHEMA_DEPTH_MAX = 16;

/** How the API calls what a model may refuse; it has no stop sequences. */
export const RESPONSES_NAMES: WireNames = {
  temperature: ['temperature'],
  topP: ['top_p'],
  stopSequences: [],
  thinkingTokens: ['reasoning', 'reasoning.effort', 'reasoning.summary', 'reasoning_effort'],
  maxTokens: ['max_output_tokens'],
};

type Params = OpenAI.Responses.ResponseCreateParamsStreaming;
type Item = OpenAI.Responses.ResponseInputItem;

interface OpenaiRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly options: CompletionOptions;
  readonly override?: ModelOverride;
  /** Told of each parameter that is not sent because the model is known not to take it. */
  readonly leftOut?: (parameter: Parameter) => void;
}

/** The body of POST /v1/responses. Nothing is kept at the provider, so every request carries the whole conversation. */
export function openaiParams({ model, messages, options, override, leftOut }: OpenaiRequest): Params {
  const known = knownModel(model);
  const reasons = override?.thinking ?? (known ? known.thinking === 'effort' : REASONING_MODEL.test(model));
  const params: Params = { model, input: messages.flatMap(toItems), store: false, stream: true };
  if (options.systemPrompt) params.instructions = options.systemPrompt;
  const tokens = answerTokens(options, override?.outputTokensMax ?? known?.outputTokensMax);
  if (tokens !== undefined) params.max_output_tokens = Math.max(tokens, OUTPUT_TOKENS_MIN);
  if (options.tools && options.tools.length > 0) {
    params.tools = options.tools.map((tool) => ({
      type: 'function',
      name: tool.name,
      description: tool.description,
      parameters: tool.inputSchema as Record<string, unknown>,
      strict: false,
    }));
  }
  if (reasons) {
    // Without storage the reasoning must travel with the conversation, or the model thinks anew after each tool.
    params.include = ['reasoning.encrypted_content'];
    if ((options.thinkingTokens ?? 0) > 0) params.reasoning = { effort: effortFor(options.thinkingTokens ?? 0), summary: 'auto' };
  }
  // A model that is not in the table may say so itself.
  const samples = (known?.sampling ?? true) || override?.thinking === false;
  if (options.temperature !== undefined && samples) params.temperature = options.temperature;
  if (options.topP !== undefined && samples) params.top_p = options.topP;
  if (!samples && options.temperature !== undefined) leftOut?.('temperature');
  if (!samples && options.topP !== undefined) leftOut?.('topP');
  if (options.outputSchema) {
    const schema = options.outputSchema as Record<string, unknown>;
    params.text = { format: { type: 'json_schema', name: 'answer', schema, strict: isStrictSchema(schema) } };
  }
  return params;
}

export function reasoningSignature(id: string, encrypted: string): string {
  return `${REASONING}${id}:${encrypted}`;
}

/** Strict mode takes only schemas that name every property and allow no other; it refuses the rest. */
export function isStrictSchema(schema: unknown, depth = 0): boolean {
  if (typeof schema !== 'object' || schema === null) return true;
  if (depth > SCHEMA_DEPTH_MAX) return false;
  if (Array.isArray(schema)) return schema.every((one) => isStrictSchema(one, depth + 1));
  const { type, properties, required, additionalProperties } = schema as Record<string, unknown>;
  if (type === 'object' || properties) {
    const names = Object.keys((properties ?? {}) as object);
    const listed = Array.isArray(required) ? required : [];
    if (additionalProperties !== false || !names.every((name) => listed.includes(name))) return false;
  }
  return Object.values(schema).every((one) => isStrictSchema(one, depth + 1));
}

function toItems(message: Message): Item[] {
  if (message.role === 'user') return toUserItem(message.content);
  const items: Item[] = [];
  for (const part of message.content) {
    if (part.type === 'text' && part.text !== '') items.push({ role: 'assistant', content: part.text });
    else if (part.type === 'thinking') items.push(...toReasoning(part.text, part.signature));
    else if (part.type === 'tool_call') {
      // The raw text of broken arguments goes back as it was written.
      const text = typeof part.input === 'string' ? part.input : JSON.stringify(part.input ?? {});
      items.push({ type: 'function_call', call_id: part.id, name: part.name, arguments: text });
    } else if (part.type === 'tool_result') {
      items.push({ type: 'function_call_output', call_id: part.id, output: part.isError ? `Error: ${part.output}` : part.output });
    }
  }
  return items;
}

function toUserItem(parts: Extract<Message, { role: 'user' }>['content']): Item[] {
  const content = parts.map(
    (part): OpenAI.Responses.ResponseInputContent =>
      part.type === 'text'
        ? { type: 'input_text', text: part.text }
        : { type: 'input_image', detail: 'auto', image_url: `data:${part.mediaType};base64,${part.data}` },
  );
  return content.length === 0 ? [] : [{ role: 'user', content }];
}

/** Only this API's own sealed reasoning is taken back. */
function toReasoning(text: string, signature: string | undefined): Item[] {
  if (!signature?.startsWith(REASONING)) return [];
  const rest = signature.slice(REASONING.length);
  const colon = rest.indexOf(':');
  if (colon < 0) return [];
  const summary = text === '' ? [] : [{ type: 'summary_text' as const, text }];
  return [{ type: 'reasoning', id: rest.slice(0, colon), summary, encrypted_content: rest.slice(colon + 1) }];
}
