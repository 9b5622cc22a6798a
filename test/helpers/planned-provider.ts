import { setTimeout as wait } from 'node:timers/promises';
import type { CompletionChunk, CompletionOptions, CompletionResult, Message, Provider } from '../../src/core/provider.ts';

export interface AnswerPlan {
  readonly text: string;
  /** Before the answer ends; unit: milliseconds. */
  readonly delayMs?: number;
}

export interface PlannedProvider extends Provider {
  /** Calls that have begun, by the last text of the prompt. */
  readonly calls: readonly string[];
  /** Calls that were stopped. */
  readonly aborted: readonly string[];
}

/** A provider in code that answers by the prompt; what the plan throws, the call throws. */
export function createPlannedProvider(plan: (prompt: string) => AnswerPlan): PlannedProvider {
  const calls: string[] = [];
  const aborted: string[] = [];
  async function* stream(messages: readonly Message[], { signal }: CompletionOptions = {}): AsyncGenerator<CompletionChunk> {
    const part = messages.at(-1)?.content.at(-1);
    const prompt = part?.type === 'text' ? part.text : '';
    calls.push(prompt);
    const { text, delayMs = 0 } = plan(prompt);
    for (const word of text.match(/\S+\s*/g) ?? []) yield { type: 'text', text: word };
    try {
      await wait(delayMs, undefined, { signal });
    } catch {
      aborted.push(prompt);
      throw signal?.reason;
    }
    const result: CompletionResult = {
      content: text,
      stopReason: 'end_turn',
      usage: { inputTokens: 2, outputTokens: 3 },
      model: 'planned',
    };
    yield { type: 'done', result };
  }
  return {
    id: 'planned',
    kind: 'planned',
    defaultModel: 'planned',
    calls,
    aborted,
    stream,
    complete: () => Promise.reject(new Error('sessions stream')),
    available: () => Promise.resolve(true),
    models: () => Promise.resolve([]),
  };
}
