import type { ProviderConfig } from '../contract/config.ts';
import type { EmbeddingConfig } from '../contract/embedding-config.ts';
import type { Usage } from '../contract/provider.ts';
import type { Embedder } from '../core/embedder.ts';
import type { CompletionChunk, CompletionOptions, CompletionResult, Message, Provider } from '../core/provider.ts';
import type { CallAccount, CallOutcome, UsageLedger } from '../core/usage.ts';
import { createEmbedder, embeddingPrice } from './embedder.ts';
import type { Environment } from './from-config.ts';
import { estimateCost, priceFor } from './prices.ts';
import type { ProbedProvider } from './settings.ts';

/** A running answer is noted anew when it has grown by so many tokens: what a killed process used is known to that many. */
const NOTED_TOKENS = 256;
/** Rough length of a token, for embedders that do not count. */
const CHARS_PER_TOKEN = 4;
/** What a call that names no purpose is counted under. */
const UNNAMED: CallAccount = { purpose: 'other' };
const METERED = new WeakSet<Provider>();

export interface Meter {
  readonly ledger: UsageLedger;
  /** Prices of the configuration, by provider. */
  readonly providers: Readonly<Record<string, Pick<ProviderConfig, 'models'>>>;
}

export interface PricedCall {
  readonly provider: Pick<Provider, 'id' | 'kind'>;
  /** As it was asked for, and as the provider names what answered. */
  readonly asked: string;
  readonly answered: string;
  readonly usage: Usage;
}

/** US dollars of one call by configuration, then by the table; null without a price. */
export function costOf(providers: Meter['providers'], { provider, asked, answered, usage }: PricedCall): number | null {
  if (provider.kind === 'demo') return estimateCost(usage, { input: 0, output: 0 });
  const own = providers[provider.id]?.models;
  return estimateCost(
    usage,
    own?.[answered]?.price ?? own?.[asked]?.price ?? priceFor(asked, usage.inputTokens) ?? priceFor(answered, usage.inputTokens),
  );
}

/** The same provider, whose every request is in the ledger before it is sent. One that is metered already comes back as it is. */
export function meterProvider(provider: Provider, meter: Meter): Provider {
  if (METERED.has(provider)) return provider;
  const { id, kind, defaultModel } = provider;
  const metered: Provider = {
    id,
    kind,
    defaultModel,
    complete: (messages, options) => complete(provider, meter, messages, options),
    stream: (messages, options) => stream(provider, meter, messages, options),
    available: () => provider.available(),
    models: () => provider.models(),
    ...('probe' in provider ? { probe: () => (provider as ProbedProvider).probe() } : {}),
  };
  METERED.add(metered);
  return metered;
}

/** The embedder agent.yaml asks for, whose calls are counted; undefined for none. Nothing is called. */
export function createCountedEmbedder(config: EmbeddingConfig, env: Environment, ledger: UsageLedger): Embedder | undefined {
  const embedder = createEmbedder(config, env);
  return embedder && meterEmbedder(embedder, ledger, embeddingPrice(config, embedder));
}

/** The same embedder; what it is asked is counted as `embedding`. `pricePerMillion`: US dollars per million tokens, null when unknown. */
function meterEmbedder(embedder: Embedder, ledger: UsageLedger, pricePerMillion: number | null): Embedder {
  const { provider, model } = embedder;
  return {
    provider,
    model,
    async embed(texts, options) {
      const call = ledger.begin({ purpose: 'embedding', provider, model });
      let tokens: number | undefined;
      let estimated: true | undefined;
      const end = (outcome: CallOutcome): void => {
        const usage: Usage | null =
          tokens === undefined ? null : { inputTokens: tokens, outputTokens: 0, ...(estimated ? { estimated } : {}) };
        const costUsd = pricePerMillion === null || tokens === undefined ? null : (tokens * pricePerMillion) / 1_000_000;
        ledger.end(call, { outcome, usage, costUsd });
      };
      try {
        const vectors = await embedder.embed(texts, {
          ...options,
          onTokens: (count) => {
            tokens = count;
          },
        });
        if (tokens === undefined) {
          tokens = Math.ceil(texts.reduce((sum, text) => sum + text.length, 0) / CHARS_PER_TOKEN);
          estimated = true;
        }
        end('ok');
        return vectors;
      } catch (error) {
        end(options.signal.aborted ? 'aborted' : 'failed');
        throw error;
      }
    },
  };
}

async function complete(
  provider: Provider,
  meter: Meter,
  messages: readonly Message[],
  options: CompletionOptions = {},
): Promise<CompletionResult> {
  const call = new MeteredCall(provider, meter, options);
  try {
    const result = await provider.complete(messages, call.options);
    call.answered(result);
    return result;
  } finally {
    call.close();
  }
}

async function* stream(
  provider: Provider,
  meter: Meter,
  messages: readonly Message[],
  options: CompletionOptions = {},
): AsyncGenerator<CompletionChunk> {
  const call = new MeteredCall(provider, meter, options);
  try {
    for await (const chunk of provider.stream(messages, call.options)) {
      if (chunk.type === 'done') call.answered(chunk.result);
      yield chunk;
    }
  } finally {
    call.close();
  }
}

/** The requests of one call of a provider: one, unless it has to ask again without a parameter that a model refuses. */
class MeteredCall {
  readonly options: CompletionOptions;
  readonly #provider: Provider;
  readonly #meter: Meter;
  readonly #asked: string;
  readonly #account: CallAccount;
  #open: number | null = null;
  #usage: Usage | null = null;
  #noted = 0;
  /** Requests of this call so far. */
  #sent = 0;

  constructor(provider: Provider, meter: Meter, options: CompletionOptions) {
    this.#provider = provider;
    this.#meter = meter;
    this.#asked = options.model ?? provider.defaultModel;
    this.#account = options.account ?? UNNAMED;
    this.options = {
      ...options,
      onSend: () => {
        this.#send();
        options.onSend?.();
      },
      onUsage: (usage) => {
        this.#take(usage);
        options.onUsage?.(usage);
      },
    };
    // One that does not say when it sends is taken to send at once.
    if (!provider.tellsSend) this.#send();
  }

  answered({ usage, model }: CompletionResult): void {
    this.#usage = usage;
    this.#end('ok', model);
  }

  /** Ends what has no answer: the caller stopped it, or it failed. */
  close(): void {
    this.#end(this.options.signal?.aborted ? 'aborted' : 'failed', this.#asked);
  }

  #send(): void {
    // An earlier request of this call was refused.
    this.#end('failed', this.#asked);
    this.#usage = null;
    this.#noted = 0;
    const attempt = (this.#account.attempt ?? 1) + this.#sent;
    this.#sent += 1;
    this.#open = this.#meter.ledger.begin({ ...this.#account, attempt, provider: this.#provider.id, model: this.#asked });
  }

  #take(usage: Usage): void {
    const isFirst = this.#usage === null;
    this.#usage = usage;
    if (this.#open === null || (!isFirst && usage.outputTokens - this.#noted < NOTED_TOKENS)) return;
    this.#noted = usage.outputTokens;
    this.#meter.ledger.note(this.#open, usage, this.#cost(this.#asked));
  }

  #end(outcome: CallOutcome, answered: string): void {
    if (this.#open === null) return;
    this.#meter.ledger.end(this.#open, { outcome, usage: this.#usage, costUsd: this.#cost(answered) });
    this.#open = null;
  }

  #cost(answered: string): number | null {
    if (this.#usage === null) return null;
    return costOf(this.#meter.providers, { provider: this.#provider, asked: this.#asked, answered, usage: this.#usage });
  }
}
