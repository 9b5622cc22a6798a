import { setTimeout as wait } from 'node:timers/promises';
import type { CompletionChunk, CompletionOptions, CompletionResult, Message, Provider, ToolCall } from '../core/provider.ts';
import { drainStream, estimateTokens, promptChars } from './completion.ts';
import { minimalValue } from './demo-value.ts';

export const DEMO_ID = 'demo';
export const DEMO_MODEL = 'demo';
/** Pause between two words in ms: slow enough to see the stream, fast enough to try things out. */
const WORD_DELAY_MS = 5;
/** Characters of the prompt and of a tool's result that are repeated. */
const ECHO_CHARS_MAX = 400;
const CONTEXT_TOKENS = 200_000;
const OUTPUT_TOKENS_MAX = 8_192;

const HOW_TO = 'Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a provider under runtime.providers in agent.yaml, to talk to a model.';
/** Prompts that show the tool loop: `remember I like tea`, `recall tea`. */
const COMMANDS = [
  { pattern: /^\s*remember\b[\s:,]*(?:that\s+)?(?<rest>\S[\s\S]*)/i, tool: 'memory_store', input: (rest: string) => ({ content: rest }) },
  { pattern: /^\s*recall\b[\s:,]*(?<rest>\S[\s\S]*)/i, tool: 'memory_search', input: (rest: string) => ({ query: rest }) },
];

export interface DemoOptions {
  readonly id?: string;
  readonly wordDelayMs?: number;
}

/** Answers without a network and without a key: the same words for the same conversation. It says that it is no model. */
export function createDemoProvider({ id = DEMO_ID, wordDelayMs = WORD_DELAY_MS }: DemoOptions = {}): Provider {
  async function* stream(messages: readonly Message[], options: CompletionOptions = {}): AsyncGenerator<CompletionChunk> {
    options.signal?.throwIfAborted();
    const toolCall = commandCall(messages, options);
    const text = toolCall ? `One moment, I ask ${toolCall.name}.` : answer(messages, options);
    const limit = options.maxTokens ?? OUTPUT_TOKENS_MAX;
    const words = text.match(/\S+\s*/g) ?? [];
    let content = '';
    for (const word of words.slice(0, limit)) {
      await pause(wordDelayMs, options.signal);
      content += word;
      yield { type: 'text', text: word };
    }
    const cut = words.length > limit;
    const result: CompletionResult = {
      content,
      ...(toolCall && !cut ? { toolCalls: [toolCall] } : {}),
      stopReason: cut ? 'max_tokens' : toolCall ? 'tool_use' : 'end_turn',
      usage: { inputTokens: estimateTokens(promptChars(messages, options.systemPrompt)), outputTokens: estimateTokens(content.length) },
      model: DEMO_MODEL,
    };
    yield { type: 'done', result };
  }

  return {
    id,
    kind: 'demo',
    defaultModel: DEMO_MODEL,
    stream,
    complete: (messages, options) => drainStream(stream(messages, options)),
    available: () => Promise.resolve(true),
    models: () =>
      Promise.resolve([
        {
          id: DEMO_MODEL,
          provider: id,
          contextTokens: CONTEXT_TOKENS,
          outputTokensMax: OUTPUT_TOKENS_MAX,
          price: { input: 0, output: 0 },
          thinking: false,
          images: false,
        },
      ]),
  };
}

/** An abort throws the caller's reason, not the timer's own error. */
async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    if (ms > 0) await wait(ms, undefined, { signal });
  } finally {
    signal?.throwIfAborted();
  }
}

function commandCall(messages: readonly Message[], options: CompletionOptions): ToolCall | undefined {
  const last = messages.at(-1);
  if (last?.role !== 'user' || options.outputSchema) return undefined;
  const prompt = promptText(messages);
  for (const { pattern, tool, input } of COMMANDS) {
    const rest = pattern.exec(prompt)?.groups?.rest?.trim();
    // The number of messages makes the id differ from turn to turn and stay the same when a turn is run again.
    if (rest && options.tools?.some((one) => one.name === tool)) return { id: `demo_${messages.length}`, name: tool, input: input(rest) };
  }
  return undefined;
}

function answer(messages: readonly Message[], options: CompletionOptions): string {
  if (options.outputSchema) return JSON.stringify(minimalValue(options.outputSchema));
  const last = messages.at(-1);
  if (last?.role === 'tool') {
    const results = last.content.map((part) => `${part.name} ${part.isError ? 'failed' : 'answered'}: ${shorten(part.output)}`);
    return `This is the offline demo, not a model. ${results.join('\n')}`;
  }
  const memories = memoryCount([options.systemPrompt, ...lastUserTexts(messages)].join('\n'));
  const seen = memories === 0 ? '' : ` I was given ${memories} ${memories === 1 ? 'memory' : 'memories'} with it.`;
  return `This is the offline demo, not a model. You said: "${shorten(promptText(messages))}".${seen} ${HOW_TO}`;
}

/** Entries of the lists under `## Relevant Memory` and `## Relevant Memories`. */
function memoryCount(text: string): number {
  const blocks = text.split(/^## Relevant Memor(?:y|ies).*$/m).slice(1);
  return blocks.reduce((sum, block) => sum + (block.split(/^## /m)[0]!.match(/^\s*(?:[-*]|\d+\.)\s+\S/gm) ?? []).length, 0);
}

/** The user's own words are the last text of the message; what stands before them is context. */
function promptText(messages: readonly Message[]): string {
  return lastUserTexts(messages).at(-1) ?? '';
}

function lastUserTexts(messages: readonly Message[]): string[] {
  const last = messages.findLast((message) => message.role === 'user');
  return last?.role === 'user' ? last.content.map((part) => (part.type === 'text' ? part.text : '[image]')) : [];
}

function shorten(text: string): string {
  return text.length > ECHO_CHARS_MAX ? `${text.slice(0, ECHO_CHARS_MAX)}…` : text;
}
