import type { SnapshotFrom } from 'xstate';
import { createPureMachine } from '../../../machines/pure-step.ts';
import { type WorkflowMachine, workflowMachine } from '../../../machines/workflow.machine.ts';
import { TIMEOUT_TIMER, type WorkflowEvent, type WorkflowOutput } from '../../../machines/workflow-context.ts';
import type { PayloadOf } from '../../contract/catalog.ts';
import type { CauseRef, SealedSignal, Signal } from '../../contract/signal.ts';
import { signalSpec, type WorkflowNamesOfKind, type WorkflowPayloadOf } from '../../contract/workflow-signals.ts';
import { isoTime } from '../../core/clock.ts';
import { sealNext } from '../../core/signal-seal.ts';

type InputName = WorkflowNamesOfKind<'input'>;

/** A fact from outside, on its way into the stream of a workflow. */
export type WorkflowDraft =
  | { [N in InputName]: { readonly name: N; readonly payload: WorkflowPayloadOf<N>; readonly client?: string } }[InputName]
  | { readonly name: 'timer:fired'; readonly payload: PayloadOf<'timer:fired'>; readonly client?: string };

/** A fact that moves nothing. */
export interface WorkflowFact {
  readonly name: WorkflowNamesOfKind<'system'>;
  readonly payload: WorkflowPayloadOf<WorkflowNamesOfKind<'system'>>;
}

/** A workflow at one point of its stream. A value: advancing makes a new one. */
export interface WorkflowCore {
  readonly id: string;
  readonly snapshot: SnapshotFrom<WorkflowMachine>;
  readonly started: WorkflowPayloadOf<'workflow:start'>;
  readonly seq: number;
  readonly digest: string;
  /** Time of the last signal in ms; a stream's time never runs back. */
  readonly at: number;
  readonly start: CauseRef;
  /** agent:activated of every activation, by number. */
  readonly activated: ReadonlyMap<number, CauseRef>;
  /** How it ended. */
  readonly end: WorkflowPayloadOf<'workflow:end'> | null;
}

/** Names the activation a signal of the stream comes from, in `source.actor`. */
const ACTIVATION_ACTOR = 'activation/';
const pure = createPureMachine<WorkflowMachine, WorkflowEvent, WorkflowOutput>(workflowMachine);

/** The first signals of a workflow. Pure. */
export function beginWorkflow(started: WorkflowPayloadOf<'workflow:start'>, now: number, client: string) {
  const { snapshot } = pure.begin({ at: now, started });
  const writer = new Writer(emptyCore(started, snapshot, now), now);
  writer.input({ name: 'workflow:start', payload: started, client }, null);
  const { timeoutMs } = started.limits;
  writer.output({ type: 'timer:set', payload: { id: TIMEOUT_TIMER, ms: timeoutMs, dueAt: isoTime(now + timeoutMs) } });
  return writer.finish(snapshot);
}

/** The state after one input, and the signals to commit for it. Pure: the same core, draft and time give the same signals, byte for byte. */
export function advanceWorkflow(core: WorkflowCore, draft: WorkflowDraft, now: number): { core: WorkflowCore; signals: SealedSignal[] } {
  const at = Math.max(now, core.at);
  const { snapshot, said } = pure.next(core.snapshot, { type: draft.name, at, payload: draft.payload } as WorkflowEvent);
  const writer = new Writer(core, at);
  writer.input(draft, causeOf(core, draft));
  for (const output of said) writer.output(output);
  return writer.finish(snapshot);
}

/** A fact about the workflow that its machine is not told. Pure. */
export function noteWorkflow(core: WorkflowCore, fact: WorkflowFact, now: number): { core: WorkflowCore; signals: SealedSignal[] } {
  const writer = new Writer(core, Math.max(now, core.at));
  writer.input(fact, core.start);
  return writer.finish(core.snapshot);
}

/**
 * The last signal of a run that its machine cannot end: a fault of this program in the router. Pure.
 *
 * @param state  what is told of the state; another one than the run's when that is what cannot be written
 */
export function endBroken(
  core: WorkflowCore,
  error: { code: string; message: string },
  now: number,
  state: Readonly<Record<string, unknown>>,
) {
  const at = Math.max(now, core.at);
  const { activations, skipped, usage, costUsd, startedAt } = core.snapshot.context;
  const metrics = { durationMs: at - startedAt, activations, skipped, usage, costUsd };
  const writer = new Writer(core, at);
  writer.output({ type: 'workflow:end', payload: { reason: 'error', state, metrics, error }, cause: core.start });
  return writer.finish(core.snapshot);
}

/** The state after one stored signal: what was recorded, read back. Pure. */
export function foldWorkflow(core: WorkflowCore | null, signal: Signal): WorkflowCore {
  const at = Date.parse(signal.timestamp);
  if (core === null) {
    if (signal.name !== 'workflow:start') throw new Error(`a workflow's log begins with workflow:start, not ${signal.name}`);
    const started = signal.payload as WorkflowPayloadOf<'workflow:start'>;
    return keep(emptyCore(started, pure.begin({ at, started }).snapshot, at), signal, at);
  }
  if (signal.source.kind !== 'input') return keep(core, signal, at);
  const event = { type: signal.name, at, payload: signal.payload } as WorkflowEvent;
  return keep({ ...core, snapshot: pure.next(core.snapshot, event).snapshot }, signal, at);
}

/** The activation a signal of the workflow's own stream comes from. */
export function activationOf({ actor }: Signal['source']): number | null {
  return actor?.startsWith(ACTIVATION_ACTOR) ? Number(actor.slice(ACTIVATION_ACTOR.length)) : null;
}

function emptyCore(started: WorkflowPayloadOf<'workflow:start'>, snapshot: WorkflowCore['snapshot'], at: number): WorkflowCore {
  const start = { signal: '', root: '', depth: 0 };
  return { id: started.workflow, snapshot, started, seq: 0, digest: '', at, start, activated: new Map(), end: null };
}

function keep(core: WorkflowCore, signal: SealedSignal, at: number): WorkflowCore {
  const cause = refOf(signal);
  const { activation } = signal.payload as { activation: number };
  return {
    ...core,
    seq: signal.seq,
    digest: signal.digest ?? '',
    at,
    start: signal.name === 'workflow:start' ? cause : core.start,
    activated: signal.name === 'agent:activated' ? new Map([...core.activated, [activation, cause]]) : core.activated,
    end: signal.name === 'workflow:end' ? (signal.payload as WorkflowPayloadOf<'workflow:end'>) : core.end,
  };
}

export function refOf({ id, source }: SealedSignal): CauseRef {
  return { signal: id, root: source.root, depth: source.depth };
}

function causeOf(core: WorkflowCore, draft: WorkflowDraft): CauseRef {
  if (draft.name === 'workflow:signal') {
    const { signal, root, depth } = draft.payload;
    return { signal, root, depth };
  }
  if (draft.name === 'workflow:result') return draft.payload.cause ?? core.activated.get(draft.payload.activation) ?? core.start;
  return core.start;
}

/** Writes the signals of one input: numbers, parents and digests. */
class Writer {
  readonly #signals: SealedSignal[] = [];
  readonly #at: number;
  #core: WorkflowCore;
  #cause: CauseRef | null = null;

  constructor(core: WorkflowCore, at: number) {
    this.#core = core;
    this.#at = at;
  }

  input(draft: WorkflowDraft | WorkflowFact, cause: CauseRef | null): void {
    const activation = draft.name === 'workflow:result' ? (draft.payload as { activation: number }).activation : undefined;
    const client = 'client' in draft ? draft.client : undefined;
    this.#cause = this.#write(draft.name, draft.payload, cause, { activation, client });
  }

  output({ type, payload, cause, agent, activation }: WorkflowOutput): void {
    this.#write(type, payload, cause ?? this.#cause, { agent, activation });
  }

  finish(snapshot: WorkflowCore['snapshot']): { core: WorkflowCore; signals: SealedSignal[] } {
    return { core: { ...this.#core, snapshot }, signals: this.#signals };
  }

  #write(
    name: string,
    payload: object,
    cause: CauseRef | null,
    by: { agent?: string | undefined; activation?: number | undefined; client?: string | undefined },
  ): CauseRef {
    const { id, seq, digest } = this.#core;
    const signal = sealNext(
      { stream: `workflow:${id}`, seq, digest },
      {
        name,
        payload: payload as Record<string, unknown>,
        timestamp: isoTime(this.#at),
        source: {
          kind: signalSpec(name).kind,
          workflow: id,
          ...(by.agent ? { agent: by.agent } : {}),
          ...(by.activation === undefined ? {} : { actor: `${ACTIVATION_ACTOR}${by.activation}` }),
          ...(by.client ? { client: by.client } : {}),
        },
        cause,
      },
    );
    this.#core = keep(this.#core, signal, this.#at);
    this.#signals.push(signal);
    return refOf(signal);
  }
}
