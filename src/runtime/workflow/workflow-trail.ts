import type { Signal } from '../../contract/signal.ts';
import type { WorkflowPayloadOf } from '../../contract/workflow-signals.ts';
import { deepFreeze } from '../../core/deep-freeze.ts';
import { activationOf } from './workflow-core.ts';

type State = Readonly<Record<string, unknown>>;

interface Step {
  readonly agent: string;
  readonly cause: number | null;
  readonly chain: number;
  readonly activatedAt: number;
  /** Log-wide number of the result that ended it. */
  endedAt: number | null;
}

/** Where a signal comes from, as seen at its place in the log. */
export interface Origin {
  /** The run itself: its stream, or a session it activated. */
  readonly own: boolean;
  readonly activation: number | null;
  readonly agent: string | undefined;
  readonly chain: number;
  /** Agents with an unfinished activation in the signal's chain. */
  readonly within: readonly string[];
}

/** What the router must know of the run's past: the state at every place it has not passed, and who caused whom. Folded from the run's stream. */
export class WorkflowTrail {
  readonly #stream: string;
  readonly #ownSession: RegExp;
  readonly #steps = new Map<number, Step>();
  /** Activations by session, for sessions that see several. */
  readonly #shared = new Map<string, number[]>();
  #states: { readonly gseq: number; readonly state: State }[] = [];
  #lastResult = { activation: 0, gseq: 0 };

  constructor(workflow: string) {
    this.#stream = `workflow:${workflow}`;
    this.#ownSession = new RegExp(`^${workflow}_a(\\d+)(?:_\\d+)?$`);
  }

  /** The next signal of the run's stream. */
  take({ name, payload, gseq }: Signal): void {
    if (name === 'workflow:start') this.#states.push({ gseq, state: deepFreeze(structuredClone(payload.state as State)) });
    else if (name === 'workflow:result') this.#lastResult = { activation: payload.activation as number, gseq };
    else if (name === 'agent:activated') this.#activate(payload as WorkflowPayloadOf<'agent:activated'>, gseq);
    else if (name === 'agent:completed' || (name === 'agent:failed' && payload.willRetry === false)) {
      const step = this.#steps.get(payload.activation as number);
      if (step) step.endedAt = this.#lastResult.activation === payload.activation ? this.#lastResult.gseq : gseq;
    } else if (name.startsWith('state:')) {
      const value = deepFreeze(structuredClone(payload.newValue));
      this.#states.push({ gseq, state: Object.freeze({ ...this.#states.at(-1)?.state, [payload.key as string]: value }) });
    }
  }

  stateAt(gseq: number): State {
    return this.#states.findLast((entry) => entry.gseq <= gseq)?.state ?? {};
  }

  /** The router has passed this place; states before it are not asked for again. */
  pass(gseq: number): void {
    const first = this.#states.findLastIndex((entry) => entry.gseq <= gseq);
    if (first > 0) this.#states.splice(0, first);
  }

  originOf(signal: Signal): Origin {
    const own = signal.stream === this.#stream;
    const activations = own ? single(activationOf(signal.source)) : this.#inSession(signal);
    const activation = activations.at(-1) ?? null;
    const step = activation === null ? undefined : this.#steps.get(activation);
    return {
      own: own || activations.length > 0,
      activation,
      agent: step?.agent ?? signal.source.agent,
      chain: step?.chain ?? 0,
      within: [...new Set(activations.flatMap((number) => this.#unfinished(number, signal.gseq)))],
    };
  }

  #activate({ activation, agent, cause, chain, session }: WorkflowPayloadOf<'agent:activated'>, gseq: number): void {
    this.#steps.set(activation, { agent, cause, chain, activatedAt: gseq, endedAt: null });
    if (!this.#ownSession.test(session)) this.#shared.set(session, [...(this.#shared.get(session) ?? []), activation]);
  }

  /** In a session that others use as well, what is written while an activation is under way there counts as its doing. */
  #inSession({ source, gseq }: Signal): number[] {
    if (source.session === undefined) return [];
    const match = this.#ownSession.exec(source.session);
    if (match) return this.#steps.has(Number(match[1])) ? [Number(match[1])] : [];
    return (this.#shared.get(source.session) ?? []).filter((number) => {
      const { activatedAt, endedAt } = this.#steps.get(number)!;
      return activatedAt < gseq && (endedAt === null || endedAt > gseq);
    });
  }

  #unfinished(activation: number, gseq: number): string[] {
    const agents: string[] = [];
    for (let number: number | null = activation; number !== null; ) {
      const step: Step | undefined = this.#steps.get(number);
      if (!step) break;
      if (step.endedAt === null || step.endedAt > gseq) agents.push(step.agent);
      number = step.cause;
    }
    return agents;
  }
}

function single(value: number | null): number[] {
  return value === null ? [] : [value];
}
