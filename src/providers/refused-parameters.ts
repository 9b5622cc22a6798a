import type { CompletionOptions } from '../core/provider.ts';

/** What a call may ask of a model beside the conversation, and a model may refuse. */
export const PARAMETERS = ['temperature', 'topP', 'stopSequences', 'thinkingTokens', 'maxTokens'] as const;
export type Parameter = (typeof PARAMETERS)[number];

/** Fields of a wire's body that a parameter becomes; the text of a refusal names one of them. */
export type WireNames = Readonly<Record<Parameter, readonly string[]>>;

/** Models of one provider whose refusals are remembered; beyond it all may be told anew. */
const MODELS_MAX = 1_000;
/** Fields that only OpenAI's newer models take in place of `max_tokens`. */
const COMPLETION_TOKENS = 'max_completion_tokens';
/** What is wrong is a value, not that there is one. */
const OF_RANGE =
  /\brange\b|\b(less|greater|lower|higher|more|fewer) than\b|\bbetween\b|\bat (most|least)\b|\b(maximum|minimum)\b|\btoo (large|small|high|low|many|long)\b|must be (<|>|≤|≥)|whitespace/i;
/** The fault stands in the conversation, whatever words the text of it holds. */
const OF_CONVERSATION = /^(messages|input|tools|system|contents?)\b[.[]/;
const REFUSING = new Set([400, 422]);

interface Refused {
  readonly parameters: Set<Parameter>;
  /** It takes `max_completion_tokens` where others take `max_tokens`. */
  completionTokens: boolean;
  /** Parameters that were told of in the log. */
  readonly told: Set<Parameter>;
}

export interface RefusedParametersOptions {
  readonly provider: string;
  readonly names: WireNames;
  readonly warn: (fields: object, message: string) => void;
}

/** What was sent in the end, and what came of it. */
export interface Adapted<T> {
  readonly answer: T;
  readonly sent: CompletionOptions;
}

/**
 * What models of one provider refuse, as their answers tell it: a refused parameter is left out, the request made once more, and the model
 * is not asked for it again while the process runs.
 */
export class RefusedParameters {
  readonly #options: RefusedParametersOptions;
  readonly #models = new Map<string, Refused>();

  constructor(options: RefusedParametersOptions) {
    this.#options = options;
  }

  /** The model takes `max_completion_tokens`. */
  wantsCompletionTokens(model: string): boolean {
    return this.#models.get(model)?.completionTokens ?? false;
  }

  /** A parameter that is known beforehand to be refused, or not to go with another one, was left out. Told once for each model. */
  leftOut(model: string, parameter: Parameter): void {
    const { told } = this.#of(model);
    if (told.has(parameter)) return;
    told.add(parameter);
    const { provider, warn } = this.#options;
    warn({ provider, model, parameter }, 'the model does not take a parameter; it is left out');
  }

  /** Sends, and once more for each parameter that the model refuses. Throws what the last request was refused with. */
  async ask<T>(model: string, options: CompletionOptions, send: (options: CompletionOptions) => Promise<T>): Promise<Adapted<T>> {
    const once = new Set<Parameter>();
    for (;;) {
      const known = this.#models.get(model)?.parameters ?? new Set<Parameter>();
      const sent = without(options, new Set([...known, ...once]));
      try {
        return { answer: await send(sent), sent };
      } catch (error) {
        if (!this.#learn(model, error, sent, once)) throw error;
      }
    }
  }

  /** Is there something to leave out that was not left out before? */
  #learn(model: string, error: unknown, sent: CompletionOptions, once: Set<Parameter>): boolean {
    const fault = refusalOf(error);
    if (!fault) return false;
    const { names, provider, warn } = this.#options;
    const refused = this.#of(model);
    if (sent.maxTokens !== undefined && names.maxTokens.includes(COMPLETION_TOKENS) && !refused.completionTokens) {
      if (fault.message.includes(COMPLETION_TOKENS)) {
        refused.completionTokens = true;
        return true;
      }
    }
    let found = PARAMETERS.filter((name) => sent[name] !== undefined && names[name].some((field) => isNamed(fault, field)));
    // Either would do alone.
    if (/\bboth\b/i.test(fault.message) && found.includes('temperature') && found.includes('topP')) found = ['topP'];
    const isRange = OF_RANGE.test(fault.message);
    // More tokens than the model can write: as many as it can. Stop sequences it does not take are looked for here. Any other value that is
    // out of range is for the caller to mend.
    if (isRange) found = found.filter((name) => name === 'maxTokens' || name === 'stopSequences');
    for (const parameter of found) {
      once.add(parameter);
      if (!isRange) {
        refused.parameters.add(parameter);
        refused.told.add(parameter);
      }
      warn({ provider, model, parameter, reason: fault.message.slice(0, 200) }, 'the model refused a parameter; it is asked without it');
    }
    return found.length > 0;
  }

  #of(model: string): Refused {
    const known = this.#models.get(model);
    if (known) return known;
    if (this.#models.size >= MODELS_MAX) this.#models.clear();
    const fresh: Refused = { parameters: new Set(), completionTokens: false, told: new Set() };
    this.#models.set(model, fresh);
    return fresh;
  }
}

function without(options: CompletionOptions, left: ReadonlySet<Parameter>): CompletionOptions {
  if (left.size === 0) return options;
  return Object.fromEntries(Object.entries(options).filter(([name]) => !left.has(name as Parameter)));
}

interface Fault {
  readonly message: string;
  readonly param: string;
}

/** Undefined for what is not the refusal of a field of the request. Both SDKs give the status and the body of the answer. */
function refusalOf(error: unknown): Fault | undefined {
  if (!(error instanceof Error) || !('status' in error) || !REFUSING.has(error.status as number)) return undefined;
  let body: unknown = 'error' in error ? error.error : undefined;
  while (isObject(body) && isObject(body.error)) body = body.error;
  const { message, param, detail } = isObject(body) ? body : {};
  const words = [message, detail, body].find((one) => typeof one === 'string') as string | undefined;
  const fault = {
    message: words ?? (isObject(detail) || Array.isArray(detail) ? JSON.stringify(detail) : error.message),
    param: textOf(param),
  };
  return OF_CONVERSATION.test(fault.message) || OF_CONVERSATION.test(fault.param) ? undefined : fault;
}

/** Common words count only where they stand as the name of a field. */
function isNamed({ message, param }: Fault, field: string): boolean {
  if (param === field || param.startsWith(`${field}.`)) return true;
  const escaped = field.replaceAll('.', '\\.');
  const pattern = /[_.]|temperature/.test(field) ? `\\b${escaped}\\b` : `['"\`]${escaped}['"\`.]|^${escaped}(\\.|:| (is|must|cannot|does))`;
  return new RegExp(pattern).test(message);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
