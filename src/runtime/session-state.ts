import type { SnapshotFrom } from 'xstate';
import type { SessionMachine } from '../../machines/session.machine.ts';
import { type NamesOfKind, type PayloadOf, SIGNALS } from '../contract/catalog.ts';
import type { Usage } from '../contract/provider.ts';
import type { MachineRef } from '../contract/runtime.ts';
import type { Conversation } from '../core/conversation.ts';
import type { SessionView } from '../core/session-view.ts';

export type SessionSnapshot = SnapshotFrom<SessionMachine>;
export type InputName = NamesOfKind<'input'>;

/** A fact from outside, on its way into the log. */
export type InputDraft = { [N in InputName]: { readonly name: N; readonly payload: PayloadOf<N>; readonly client?: string } }[InputName];

/** A fact about a session that moves nothing. */
export type SystemFact = { [N in NamesOfKind<'system'>]: { readonly name: N; readonly payload: PayloadOf<N> } }[NamesOfKind<'system'>];

/** Does this move the session, or is it only noted? */
export function isInput(draft: InputDraft | SystemFact): draft is InputDraft {
  return SIGNALS[draft.name].kind === 'input';
}

/** A signal that others are put down to. */
export interface Cause {
  readonly id: string;
  readonly root: string;
  readonly depth: number;
}

/** What is kept of the part of a log that another version of the machine wrote, to go on from its last turn boundary. */
export interface ForeignPart {
  readonly machine: MachineRef;
  readonly created: PayloadOf<'session:created'>;
  /** Prompts that are not answered yet. */
  readonly prompts: readonly PayloadOf<'prompt:received'>[];
  /** Tools by the approval that asks for them. */
  readonly asked: Readonly<Record<string, string>>;
  readonly allowedTools: readonly string[];
  readonly compactions: number;
  /** Of the turn that is open. */
  readonly toolCalls: number;
  readonly usage: Usage;
  readonly costUsd: number | null;
  /** The session was to end. */
  readonly end: PayloadOf<'session:end'> | null;
}

/** A session at one point of its log. A value: advancing makes a new one, so a batch can be thought through before it is committed. */
export interface SessionCore {
  readonly id: string;
  readonly agent: string;
  readonly harness: string;
  /** Tools the session may use; null means all. */
  readonly allowedTools: readonly string[] | null;
  readonly snapshot: SessionSnapshot;
  readonly seq: number;
  readonly digest: string;
  /** Time of the last signal in ms; a stream's time never runs back. */
  readonly at: number;
  /** Time of the last transition in ms. */
  readonly since: number;
  /** Signals that later ones answer: `session`, `prompt:<id>`, keys of effects, `approval:<id>`, `timer:<id>`. */
  readonly causes: ReadonlyMap<string, Cause>;
  readonly conversation: Conversation;
  /** Set while the log is that of another version of the machine: its inputs are not for this one, and `snapshot` does not follow them. */
  readonly foreign?: ForeignPart;
}

/** A session rebuilt from its log: what it decides by, and what is shown of it. */
export interface FoldedSession {
  readonly core: SessionCore;
  readonly view: SessionView;
}
