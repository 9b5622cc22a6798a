import { hash } from 'node:crypto';
import { createPureMachine, type PureMachine, type PureStep } from '../../machines/pure-step.ts';
import { type SessionMachine, sessionMachine } from '../../machines/session.machine.ts';
import type { InputEvent, OutputEvent } from '../../machines/session-context.ts';
import type { PayloadOf, SignalName } from '../contract/catalog.ts';
import type { SealedSignal, Signal } from '../contract/signal.ts';
import { EMPTY_CONVERSATION, foldConversation } from '../core/conversation.ts';
import { foldForeign, foreignAfter, foreignFrom, upgradedSnapshot, upgradeOutputs } from './machine-upgrade.ts';
import { seededConversation, seededOutputs, seededSnapshot } from './session-seed.ts';
import type { Cause, InputDraft, SessionCore, SessionSnapshot, SystemFact } from './session-state.ts';
import { keepCause, SignalRecorder } from './signal-recorder.ts';

export interface Folding {
  /**
   * The state after one input, and the signals to commit for it: the input itself, then everything the machine says to it, in order.
   * Pure: the same core, draft and time give the same signals, byte for byte. Throws what a guard or an action throws.
   */
  advance(core: SessionCore | null, draft: InputDraft, now: number): { core: SessionCore; signals: SealedSignal[] };
  /** The state after one stored signal: what `advance` and `note` recorded, read back. Pure. */
  foldCore(core: SessionCore | null, signal: Signal): SessionCore;
}

/** Advancing and folding by one machine; another one than the program's own is for looking what it would have done. */
export function createFolding(machine: SessionMachine): Folding {
  const pure = createPureMachine<SessionMachine, InputEvent, OutputEvent>(machine);
  return {
    advance(core, draft, now) {
      if (core === null) {
        if (draft.name !== 'session:created') throw new Error(`a session begins with session:created, not ${draft.name}`);
        const begun = begin(pure, draft.payload, now);
        return record(emptyCore(draft.payload, now, begun.snapshot), draft, begun, now, []);
      }
      const at = Math.max(now, core.at);
      const event = { type: draft.name, at, payload: draft.payload } as InputEvent;
      if (draft.name === 'session:upgraded') {
        const { foreign: _past, ...own } = { ...core, snapshot: upgradedSnapshot(draft.payload) };
        const step = pure.next(own.snapshot, event);
        return record(own, draft, { ...step, said: [...upgradeOutputs(draft.payload, at), ...step.said] }, at, []);
      }
      return record(core, draft, pure.next(core.snapshot, event), at, activeStates(core.snapshot.value));
    },
    foldCore(core, signal) {
      const at = Date.parse(signal.timestamp);
      if (core === null) {
        if (signal.name !== 'session:created') throw new Error(`a session's log begins with session:created, not ${signal.name}`);
        const created = signal.payload as unknown as PayloadOf<'session:created'>;
        const { foreign } = foreignFrom(created);
        if (foreign) return refold({ ...emptyCore(created, at, pure.begin({ at, created }).snapshot), foreign }, signal, at);
        return refold(emptyCore(created, at, begin(pure, created, at).snapshot), signal, at);
      }
      if (signal.name === 'session:upgraded') return refoldUpgraded(pure, core, signal, at);
      if (core.foreign) return refold({ ...core, foreign: foldForeign(core.foreign, signal) }, signal, at);
      if (signal.source.kind !== 'input') return refold(core, signal, at);
      const event = { type: signal.name, at, payload: signal.payload } as unknown as InputEvent;
      return refold({ ...core, snapshot: pure.next(core.snapshot, event).snapshot }, signal, at);
    },
  };
}

/** By the machine of this program. */
export const { advance, foldCore } = createFolding(sessionMachine);

/** A fact of the supervisor or the log about this session; the machine is not told. Pure. */
export function note(core: SessionCore, fact: SystemFact, now: number): { core: SessionCore; signals: SealedSignal[] } {
  const recorder = new SignalRecorder(core, core.snapshot.context, Math.max(now, core.at));
  recorder.fact(fact);
  return { core: recorder.finish(core.snapshot, false), signals: recorder.signals };
}

function begin(pure: PureMachine<SessionMachine, InputEvent, OutputEvent>, created: PayloadOf<'session:created'>, at: number) {
  if (!created.seed) return pure.begin({ at, created });
  const snapshot = seededSnapshot(created.seed);
  return { snapshot, said: seededOutputs(snapshot), steps: [] };
}

function refoldUpgraded(
  pure: PureMachine<SessionMachine, InputEvent, OutputEvent>,
  core: SessionCore,
  signal: Signal,
  at: number,
): SessionCore {
  const payload = signal.payload as unknown as PayloadOf<'session:upgraded'>;
  const foreign = foreignAfter(core.foreign, payload);
  if (foreign) return refold({ ...core, foreign }, signal, at);
  const { foreign: _past, ...own } = core;
  const { snapshot } = pure.next(upgradedSnapshot(payload), { type: 'session:upgraded', at, payload });
  return refold({ ...own, snapshot }, signal, at);
}

function refold(core: SessionCore, signal: Signal, at: number): SessionCore {
  const causes = core.causes as Map<string, Cause>;
  keepCause(causes, signal.name as SignalName, signal.payload, { id: signal.id, root: signal.source.root, depth: signal.source.depth });
  return {
    ...core,
    causes,
    seq: signal.seq,
    digest: signal.digest ?? '',
    at,
    since: signal.name === 'session:transition' ? at : core.since,
    conversation: foldConversation(core.conversation, signal),
  };
}

function emptyCore(created: PayloadOf<'session:created'>, now: number, snapshot: SessionSnapshot): SessionCore {
  return {
    id: created.session,
    agent: created.agent,
    harness: created.harness,
    allowedTools: created.tools,
    snapshot,
    seq: 0,
    digest: '',
    at: now,
    since: now,
    causes: new Map(),
    conversation: created.seed ? seededConversation(created.seed) : EMPTY_CONVERSATION,
  };
}

function record(core: SessionCore, draft: InputDraft, step: PureStep<SessionMachine, OutputEvent>, at: number, from: string[]) {
  const recorder = new SignalRecorder(core, step.snapshot.context, at);
  recorder.input(draft);
  const moved = step.steps.some((edge) => edge.target[0] !== edge.source) || from.length === 0;
  const said: OutputEvent[] = core.seq === 0 ? [started(core), ...step.said] : [...step.said];
  if (moved) {
    const firstState = said.findIndex((output) => output.type.startsWith('session:') && output.type !== 'session:failed');
    said.splice(firstState < 0 ? said.length : firstState, 0, transitionOf(core, draft, step, at, from));
  } else if (said.length === 0 && step.steps.length === 0) {
    said.push({ type: 'session:ignored', payload: { event: draft.name, state: from.join(' ') } });
  }
  for (const output of said) recorder.output(output);
  return { core: recorder.finish(step.snapshot, moved), signals: recorder.signals };
}

function started(core: SessionCore): OutputEvent {
  return { type: 'supervisor:child:started', payload: { session: core.id, agent: core.agent, attempt: 1 } };
}

function transitionOf(
  core: SessionCore,
  draft: InputDraft,
  step: PureStep<SessionMachine, OutputEvent>,
  at: number,
  from: string[],
): OutputEvent {
  const { value, context } = step.snapshot;
  return {
    type: 'session:transition',
    payload: {
      from,
      to: activeStates(value),
      value,
      event: draft.name,
      steps: step.steps,
      dwellMs: at - core.since,
      state: hash('sha256', JSON.stringify([value, context]), 'base64url'),
    },
  };
}

/** Dotted paths of the active leaf states, as node ids. */
export function activeStates(value: unknown, prefix: string = sessionMachine.id): string[] {
  if (typeof value === 'string') return [`${prefix}.${value}`];
  return Object.entries(value as Record<string, unknown>).flatMap(([key, child]) => activeStates(child, `${prefix}.${key}`));
}
