import type { Clock } from '../core/clock.ts';
import type { Embedder } from '../core/embedder.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { MemoryStore, QueryVector } from '../core/memory-store.ts';
import type { MemoryVectors, Unembedded } from '../store/memory-vectors.ts';

/** Faults in a row after which the embedder is left alone … */
const FAULTS_MAX = 3;
/** … for so long; unit: milliseconds. */
const PAUSE_AFTER_FAULTS_MS = 30_000;
/** Memories embedded at a time, and how much of each is read. */
const BATCH_MEMORIES = 32;
const TEXT_CHARS_MAX = 8_000;
const BATCH_TIMEOUT_MS = 30_000;
/** Between two looks for memories without a vector; unit: milliseconds. */
const LOOK_EVERY_MS = 2_000;

export interface MeaningDeps {
  readonly memories: MemoryStore;
  readonly vectors: MemoryVectors;
  /** Undefined: by words alone. */
  readonly embedder: Embedder | undefined;
  /** Longest wait for the vector of a query; unit: milliseconds. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface MeaningStatus {
  readonly provider: string;
  readonly model: string | null;
  readonly state: 'off' | 'ready' | 'failing';
  readonly vectors: number;
}

/** Recall by meaning on top of recall by words: a query waits for its vector a moment, and never fails for want of it. */
export interface Meaning {
  /** The same store; its `recall` asks the embedder first, where there is one. */
  readonly memories: MemoryStore;
  status(): Promise<MeaningStatus>;
  /** Begin to make the vectors that are missing. */
  start(): void;
  stop(): Promise<void>;
}

export function createMeaning(deps: MeaningDeps): Meaning {
  const { memories, vectors, embedder } = deps;
  if (!embedder) {
    const status = async (): Promise<MeaningStatus> => ({ provider: 'none', model: null, state: 'off', vectors: await vectors.count() });
    return { memories, status, start: () => undefined, stop: async () => undefined };
  }
  const guarded = new GuardedEmbedder(embedder, deps);
  const filler = new Filler(guarded, deps);
  return {
    memories: {
      ...memories,
      recall: async (reader, query) => {
        if (query.text.trim() === '' || query.wordsOnly) return memories.recall(reader, query);
        const asked = await guarded.query(query.text);
        if ('reason' in asked) return { degraded: asked.reason, ...(await memories.recall(reader, query)) };
        return memories.recall(reader, { ...query, vector: asked });
      },
    },
    status: async () => {
      const { provider, model } = embedder;
      return { provider, model, state: guarded.isResting ? 'failing' : 'ready', vectors: await vectors.count() };
    },
    start: () => filler.start(),
    stop: () => filler.stop(),
  };
}

/** An embedder that is left alone for a while after several faults in a row. */
class GuardedEmbedder {
  readonly #embedder: Embedder;
  readonly #deps: MeaningDeps;
  readonly #closing = new AbortController();
  /** Length of every vector: that of those that are kept, else of the first answer. */
  #dimensions: number | undefined;
  #faults = 0;
  #restsUntilMs = 0;

  constructor(embedder: Embedder, deps: MeaningDeps) {
    this.#embedder = embedder;
    this.#deps = deps;
  }

  get isResting(): boolean {
    return this.#deps.clock.now() < this.#restsUntilMs;
  }

  get model(): { readonly provider: string; readonly model: string } {
    return this.#embedder;
  }

  /** A query as a vector, or why there is none. */
  async query(text: string): Promise<QueryVector | { readonly reason: string }> {
    if (this.isResting) return { reason: 'the embedder failed repeatedly and is left alone for a while' };
    try {
      const [vector] = await this.embed([text.slice(0, TEXT_CHARS_MAX)], this.#deps.timeoutMs);
      const { provider, model } = this.#embedder;
      return { provider, model, dimensions: vector!.length, vector: vector! };
    } catch (error) {
      if (!isAppError(error)) throw error;
      return { reason: `the embedder failed: ${error.detail}` };
    }
  }

  async embed(texts: readonly string[], timeoutMs: number): Promise<number[][]> {
    try {
      const made = await this.#embedder.embed(texts, { signal: this.#closing.signal, timeoutMs });
      await this.#checkLength(made[0]!.length);
      this.#faults = 0;
      return made;
    } catch (error) {
      // A text that is refused says nothing about the embedder.
      if (!isAppError(error) || error.code === 'provider_refused') throw error;
      this.#faults += 1;
      if (this.#faults >= FAULTS_MAX) {
        this.#faults = 0;
        this.#restsUntilMs = this.#deps.clock.now() + PAUSE_AFTER_FAULTS_MS;
        this.#deps.log.warn(
          { err: error, pauseMs: PAUSE_AFTER_FAULTS_MS },
          'the embedder failed repeatedly; recall goes by words alone meanwhile',
        );
      }
      throw error;
    }
  }

  /** Vectors of different lengths have no likeness: nothing would be found, and nobody told why. @throws AppError provider_malformed */
  async #checkLength(length: number): Promise<void> {
    this.#dimensions ??= (await this.#deps.vectors.dimensions(this.model)) ?? length;
    if (length === this.#dimensions) return;
    throw new AppError('provider_malformed', {
      detail: `${this.model.model} answered with ${length} numbers, and the vectors of memories have ${this.#dimensions}; name the model that made them in embedding.model, or its length in embedding.dimensions`,
    });
  }

  close(): void {
    this.#closing.abort();
  }
}

/** Makes the vectors that are missing, a batch at a time, newest memories first. */
class Filler {
  readonly #embedder: GuardedEmbedder;
  readonly #deps: MeaningDeps;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(embedder: GuardedEmbedder, deps: MeaningDeps) {
    this.#embedder = embedder;
    this.#deps = deps;
  }

  start(): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#running = this.#fill().finally(() => this.start());
    }, LOOK_EVERY_MS);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    this.#embedder.close();
    await this.#running;
  }

  async #fill(): Promise<void> {
    try {
      while (!this.#isStopped && !this.#embedder.isResting) {
        const missing = await this.#deps.vectors.missing(this.#embedder.model, BATCH_MEMORIES);
        if (missing.length === 0) return;
        await this.#embed(missing);
      }
    } catch (error) {
      if (!this.#isStopped) this.#deps.log.debug({ err: error }, 'vectors could not be made; the next look tries again');
    }
  }

  async #embed(memories: readonly Unembedded[]): Promise<void> {
    try {
      await this.#keep(memories, await this.#vectorsOf(memories));
    } catch (error) {
      if (!isAppError(error) || error.code !== 'provider_refused') throw error;
      // One text was refused: the others must not wait for it for ever. It gets a vector like no other.
      const [only] = memories;
      if (memories.length === 1) await this.#keep([only!], [[0]]);
      else for (const memory of memories) await this.#embed([memory]);
    }
  }

  #vectorsOf(memories: readonly Unembedded[]): Promise<number[][]> {
    return this.#embedder.embed(
      memories.map(({ content }) => content.slice(0, TEXT_CHARS_MAX)),
      BATCH_TIMEOUT_MS,
    );
  }

  async #keep(memories: readonly Unembedded[], made: readonly number[][]): Promise<void> {
    const { provider, model } = this.#embedder.model;
    await this.#deps.vectors.keep(
      { provider, model, dimensions: made[0]!.length },
      memories.map(({ seq, contentHash }, index) => ({ seq, contentHash, vector: made[index]! })),
    );
  }
}
