import type { Usage } from '../contract/provider.ts';
import type { CompletionChunk, CompletionOptions, ThinkingPart } from '../core/provider.ts';

/** Finds the first of some texts in a text that comes in pieces. */
export class StopFinder {
  readonly #sequences: readonly string[];
  /** The end of what came, as far as it may be the beginning of a stop sequence. */
  #held = '';

  constructor(sequences: readonly string[]) {
    this.#sequences = sequences;
  }

  /** What may be shown of the text so far and was not yet; `stopped` when a stop sequence follows it. */
  push(piece: string): { readonly text: string; readonly stopped: boolean } {
    const text = this.#held + piece;
    const places = this.#sequences.map((sequence) => text.indexOf(sequence)).filter((place) => place >= 0);
    if (places.length > 0) return { text: text.slice(0, Math.min(...places)), stopped: true };
    const held = Math.max(0, ...this.#sequences.map((sequence) => beginningAtEnd(text, sequence)));
    this.#held = text.slice(text.length - held);
    return { text: text.slice(0, text.length - held), stopped: false };
  }

  /** What was held back, when no more comes. */
  rest(): string {
    const held = this.#held;
    this.#held = '';
    return held;
  }
}

/** Characters at the end of the text that a sequence begins with. */
function beginningAtEnd(text: string, sequence: string): number {
  for (let size = Math.min(text.length, sequence.length - 1); size > 0; size -= 1) {
    if (text.endsWith(sequence.slice(0, size))) return size;
  }
  return 0;
}

interface Cut {
  readonly model: string;
  readonly sequences: readonly string[];
  readonly onUsage: CompletionOptions['onUsage'];
}

/**
 * Ends an answer at a stop sequence for APIs and models that take none: the stream is closed there. The provider does not tell what was used
 * until then, so it is estimated.
 *
 * @param open  makes the stream; what it is told of usage when it breaks off is that of the cut answer
 */
export async function* cutAtStop(
  { model, sequences, onUsage }: Cut,
  open: (onUsage: NonNullable<CompletionOptions['onUsage']>) => AsyncGenerator<CompletionChunk>,
): AsyncGenerator<CompletionChunk> {
  let usage: Usage = { inputTokens: 0, outputTokens: 0, estimated: true };
  const finder = new StopFinder(sequences);
  const stream = open((told) => {
    usage = told;
    onUsage?.(told);
  });
  let content = '';
  let thinking = '';
  for await (const chunk of stream) {
    if (chunk.type === 'text') {
      const { text, stopped } = finder.push(chunk.text);
      content += text;
      if (text !== '') yield { type: 'text', text };
      if (!stopped) continue;
      await stream.return(undefined);
      const thought: ThinkingPart[] = thinking === '' ? [] : [{ type: 'thinking', text: thinking }];
      const result = { content, ...(thought.length > 0 ? { thinking: thought } : {}), stopReason: 'stop_sequence' as const, usage, model };
      yield { type: 'done', result };
      return;
    }
    if (chunk.type === 'thinking') thinking += chunk.text;
    const rest = chunk.type === 'done' ? finder.rest() : '';
    if (rest !== '') yield { type: 'text', text: rest };
    yield chunk;
  }
}
