import type { Signal } from '../../contract/signal.ts';
import type { RunningText } from './live-hub.ts';

export interface Piece {
  readonly kind: 'text' | 'thinking';
  readonly content: string;
  readonly index: number;
  /** Position after this piece, in characters of everything the call has said. */
  readonly offset: number;
}

/**
 * How far one reader has come in the text of the present model call. Whatever a reader missed live is made good before the stored
 * record of the whole text, so deltas alone give every character once.
 */
export class DeltaCursor {
  #key: string | null = null;
  #sent = 0;
  #thinkingChars = 0;
  #parent: string | undefined;
  /** A resumed reader names a position before it is known in which call. */
  #resumeAt: number;

  constructor(resumeAt: number) {
    this.#resumeAt = resumeAt;
  }

  get parent(): string | undefined {
    return this.#parent;
  }

  /** Characters had of a call that is not over: part of the reader's cursor. */
  get position(): number {
    return this.#key === null ? 0 : this.#sent;
  }

  /** The reader stands behind this stored signal now. `before`: it was behind it already when it connected. */
  pass(signal: Signal, before: boolean): void {
    if (!before) this.#resumeAt = 0;
    const { key, purpose, content, restarted } = signal.payload as { key: string; purpose: string; content: string; restarted?: string[] };
    if (key === this.#key && signal.name === 'thinking:complete') this.#thinkingChars = content.length;
    if (key === this.#key && (signal.name === 'harness:end' || signal.name === 'harness:error')) this.#key = null;
    // A call that was under way when the process died is made again and says everything anew.
    if (signal.name === 'session:resumed' && this.#key !== null && restarted?.includes(this.#key)) {
      this.#sent = before ? this.#resumeAt : 0;
      this.#thinkingChars = 0;
    }
    if (signal.name !== 'harness:start') return;
    this.#key = purpose === 'answer' ? key : null;
    this.#parent = signal.id;
    this.#sent = before ? this.#resumeAt : 0;
    this.#thinkingChars = 0;
  }

  /** Text the call has said beyond what the reader had. */
  takeRunning(running: RunningText | null): Piece[] {
    if (!running || running.key !== this.#key || running.chars <= this.#sent) return [];
    const pieces: Piece[] = [];
    let start = 0;
    running.blocks.forEach((block, index) => {
      const end = start + block.text.length;
      if (end > this.#sent) {
        pieces.push({ kind: block.kind, content: block.text.slice(Math.max(0, this.#sent - start)), index, offset: end });
        this.#sent = end;
      }
      start = end;
    });
    return pieces;
  }

  /** What is missing before a stored `thinking:complete` or `text:complete` may be shown. */
  takeRest(signal: Signal, running: RunningText | null): Piece[] {
    const { key, content } = signal.payload as { key: string; content: string };
    if (key !== this.#key) return [];
    if (running?.key === key) return this.takeRunning(running);
    const isThinking = signal.name === 'thinking:complete';
    const start = isThinking ? 0 : this.#thinkingChars;
    const end = start + content.length;
    if (end <= this.#sent) return [];
    const piece: Piece = {
      kind: isThinking ? 'thinking' : 'text',
      content: content.slice(Math.max(0, this.#sent - start)),
      index: isThinking || this.#thinkingChars === 0 ? 0 : 1,
      offset: end,
    };
    this.#sent = end;
    return [piece];
  }
}
