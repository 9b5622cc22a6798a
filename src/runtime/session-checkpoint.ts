import { hash } from 'node:crypto';
import { sessionMachine } from '../../machines/session.machine.ts';
import { AppError } from '../core/errors.ts';
import { plainView, restoreView } from '../core/session-view.ts';
import type { Checkpoint } from '../core/signal-log.ts';
import { isOwn } from './machine-upgrade.ts';
import type { FoldedSession, ForeignPart, SessionCore, SessionSnapshot } from './session-state.ts';

/**
 * Of the text below. The signals a checkpoint stands for are gone, so it cannot be folded anew as a snapshot can: whoever changes what a
 * fold keeps raises this number and teaches `restoreCheckpoint` to read the older forms.
 */
const CHECKPOINT_FORMAT = 1;

/** Of the machine only value and context are kept, as in the seed of a fork; Maps stand as lists of entries. */
interface Stored {
  readonly core: Omit<SessionCore, 'snapshot' | 'causes' | 'conversation' | 'foreign'>;
  readonly value: unknown;
  readonly context: unknown;
  /** From which another version of the machine goes on. */
  readonly boundary: ForeignPart;
  readonly causes: [string, never][];
  readonly conversation: Omit<SessionCore['conversation'], 'waiting'>;
  readonly waiting: [string, never][];
  readonly view: Record<string, unknown>;
}

/** The fold at this point, to stand for all signals up to it. */
export function takeCheckpoint({ core, view }: FoldedSession, boundary: ForeignPart): Checkpoint {
  const { snapshot, causes, conversation, foreign: _inBoundary, ...rest } = core;
  const { waiting, ...spoken } = conversation;
  const { seed: _folded, ...created } = boundary.created;
  const stored: Stored = {
    core: rest,
    value: snapshot.value,
    context: snapshot.context,
    boundary: { ...boundary, created },
    causes: [...causes] as never,
    conversation: spoken,
    waiting: [...waiting] as never,
    view: plainView(view),
  };
  return { seq: core.seq, format: CHECKPOINT_FORMAT, body: JSON.stringify(stored) };
}

/** @throws AppError `storage_version` for a form that a newer program wrote */
export function restoreCheckpoint(checkpoint: Checkpoint): FoldedSession & { readonly boundary: ForeignPart } {
  const { seq, format, body } = checkpoint;
  if (format !== CHECKPOINT_FORMAT) {
    throw new AppError('storage_version', {
      detail: `the checkpoint at signal ${seq} has format ${format}, this program reads ${CHECKPOINT_FORMAT}; use the version that wrote it`,
    });
  }
  const { core, value, context, boundary, causes, conversation, waiting, view } = JSON.parse(body) as Stored;
  const own = isOwn(boundary.machine);
  const snapshot = sessionMachine.resolveState({ value: own ? (value as never) : 'idle', context: context as never }) as SessionSnapshot;
  return {
    core: {
      ...core,
      snapshot,
      causes: new Map(causes),
      conversation: { ...conversation, waiting: new Map(waiting) },
      ...(own ? {} : { foreign: boundary }),
    } as SessionCore,
    view: restoreView(view),
    boundary,
  };
}

/** What `log:pruned` says of a checkpoint. */
export function checkpointDigest({ body }: Checkpoint): string {
  return hash('sha256', body, 'base64url');
}
