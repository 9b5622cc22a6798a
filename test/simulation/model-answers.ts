import { AppError } from '../../src/core/errors.ts';
import type { CompletionResult, Message, ToolCall } from '../../src/core/provider.ts';
import type { Random } from './random.ts';
import type { Weather } from './weather.ts';

/** Most calls a model asks for at once. */
const CALLS_MAX = 5;
const WORDS = ['tea', 'red', 'north', 'seven', 'lamp', 'quiet', 'ünï', '"so"'];
const CALLED = ['look', 'look', 'send', 'burn', 'probe', 'sign', 'ask', 'forbidden', 'unheard_of'];

export interface ModelAnswer {
  readonly result: CompletionResult;
  /** Thrown after what there is of a result was streamed. */
  readonly error?: AppError;
  readonly thinking: boolean;
}

export function textOf(random: Random): string {
  return Array.from({ length: random.between(1, 8) }, () => random.pick(WORDS)).join(' ');
}

/** What the model says to these messages, by the weather. */
export function modelAnswer(
  random: Random,
  weather: Weather['model'],
  { messages, isSummary, offersTools }: { messages: readonly Message[]; isSummary: boolean; offersTools: boolean },
): ModelAnswer {
  const kind = random.weighted(weather);
  const calls = kind === 'tools' && offersTools && !isSummary;
  const result: CompletionResult = {
    content: kind === 'empty' || (calls && random.chance(0.5)) ? '' : textOf(random),
    ...(calls ? { toolCalls: toolCalls(random) } : {}),
    stopReason: calls ? 'tool_use' : random.chance(0.9) ? 'end_turn' : 'max_tokens',
    usage: {
      inputTokens: Math.ceil(JSON.stringify(messages).length / 4),
      outputTokens: random.between(1, 120),
      ...(random.chance(0.2) ? { cacheReadTokens: random.between(1, 50) } : {}),
    },
    model: 'sim-1',
  };
  const error = failure(random, kind);
  return {
    result: error && kind !== 'cut' ? { ...result, content: '' } : result,
    thinking: random.chance(0.1),
    ...(error ? { error } : {}),
  };
}

function toolCalls(random: Random): ToolCall[] {
  return Array.from({ length: random.between(1, CALLS_MAX) }, (_, index): ToolCall => {
    // Some servers number the calls of each answer anew, some leave the id out.
    const id = random.chance(0.3) ? '' : random.chance(0.3) ? `call_${index}` : `call_${random.between(1_000, 999_999)}`;
    return { id, name: random.pick(CALLED), input: { about: textOf(random) } };
  });
}

function failure(random: Random, kind: keyof Weather['model']): AppError | undefined {
  switch (kind) {
    case 'overloaded':
      return new AppError('provider_overloaded', {
        detail: '429',
        ...(random.chance(0.5) ? { retryAfterMs: random.between(0, 90_000) } : {}),
      });
    case 'failed':
      return new AppError('provider_failed', { detail: '500' });
    case 'refused':
      return new AppError('provider_refused', { detail: '400' });
    case 'cut':
      return new AppError('provider_stream_cut', { detail: 'it broke off' });
    case 'overflow':
      return new AppError('context_overflow', { detail: 'too long' });
    case 'malformed':
      return new AppError('provider_malformed', { detail: 'not JSON' });
    default:
      return undefined;
  }
}
