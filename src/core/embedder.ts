/** Turns texts into vectors, by a model elsewhere. It never retries. */
export interface Embedder {
  readonly provider: string;
  readonly model: string;
  /**
   * One vector a text, in order, all of one length.
   *
   * @throws AppError provider_timeout, provider_failed, provider_refused (the text is at fault), provider_malformed
   */
  embed(texts: readonly string[], options: EmbedOptions): Promise<number[][]>;
}

export interface EmbedOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** Called with the tokens of the texts, when the answer tells them. */
  readonly onTokens?: (tokens: number) => void;
}
