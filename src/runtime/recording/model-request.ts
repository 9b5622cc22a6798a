import { hash } from 'node:crypto';
import type { CompletionOptions, CompletionResult, Message } from '../../core/provider.ts';
import type { OutcomeOf } from './effect-recorder.ts';

/** The line of an inject that tells the time. */
const NOW = /^Now: .+$/gm;

/** What counts of a model call: tools by name, images by digest, and not what time it is. */
export function modelRequest(provider: string, messages: readonly Message[], options: CompletionOptions): Record<string, unknown> {
  const { model, systemPrompt, maxTokens, temperature, topP, stopSequences, thinkingTokens, outputSchema, tools = [] } = options;
  return defined({
    provider,
    model,
    system: systemPrompt,
    messages: messages.map(({ role, content }) => ({ role, content: content.map(plainPart) })),
    tools: tools.map(({ name }) => name),
    maxTokens,
    temperature,
    topP,
    stopSequences,
    thinkingTokens,
    outputSchema,
  });
}

function plainPart(part: Message['content'][number]): object {
  if (part.type === 'text') return { type: part.type, text: part.text.replaceAll(NOW, 'Now: <time>') };
  return part.type === 'image' ? { type: part.type, mediaType: part.mediaType, sha256: hash('sha256', part.data, 'hex') } : { ...part };
}

/** The members of a result that are recorded; a provider's own object may have more. */
export function plainResult({
  content,
  thinking,
  toolCalls,
  stopReason,
  usage,
  model,
}: CompletionResult): Extract<OutcomeOf<'model'>, { result: unknown }>['result'] {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, estimated } = usage;
  return {
    content,
    ...(thinking
      ? { thinking: thinking.map(({ type, text, signature }) => ({ type, text, ...(signature === undefined ? {} : { signature }) })) }
      : {}),
    ...(toolCalls
      ? {
          toolCalls: toolCalls.map(({ id, name, input, inputError }) => ({
            id,
            name,
            input,
            ...(inputError === undefined ? {} : { inputError }),
          })),
        }
      : {}),
    stopReason,
    usage: defined({ inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, estimated }) as typeof usage,
    model,
  };
}

function defined(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}
