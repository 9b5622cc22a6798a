import { leafOf, type Move, type SessionSnapshot } from './moves.ts';
import type { Path } from './paths.ts';

/** A part of the chart, small enough to go through all of its simple paths. */
export interface Region {
  readonly name: string;
  readonly takes: (move: Move, snapshot: SessionSnapshot) => boolean;
}

/**
 * Outcomes that wait for the same commit are written together or not at all: when one of them has won the race against an abort,
 * the others come with it, and nothing is left for the grace to run out on.
 */
export function isPossible(path: Path): boolean {
  return !path.some(({ move }, index) => move.type === 'abort timer' && path[index - 1]?.move.type.startsWith('late'));
}

/** The way of a turn on which nothing happens besides. */
const CALM: ReadonlySet<string> = new Set(['prompt', 'hook answers', 'tool answers', 'answer']);
const FIRST_RESEARCH = 'user-prompt-submit';

export const REGIONS: readonly Region[] = [
  {
    name: 'a session without turns',
    takes: ({ type }, { context }) => context.turns === 0 && !type.endsWith('prompt') && type !== 'reject',
  },
  {
    name: 'a prompt while the session starts, and its research',
    takes: ({ type }, { context, value }) =>
      context.turns <= 1 &&
      (leafOf(value) === 'idle' ? type === 'prompt' && context.turns === 0 : at(value, 'starting', 'turn.researching')),
  },
  {
    name: 'everything that can stop a turn',
    takes: ({ type }, { context, value }) => {
      if (context.turns > 1 || (leafOf(value) === 'idle' && context.turns === 1)) return false;
      if (at(value, 'turn.researching', 'aborting', 'ending')) return type !== 'steer' && type !== 'reject';
      return at(value, 'turn.generating.calling') ? ['abort', 'end', 'interrupt'].includes(type) : CALM.has(type);
    },
  },
  {
    name: 'model calls, retries and fallbacks',
    takes: inTurn('turn.generating', [
      'answer',
      'invalid answer',
      'overloaded',
      'refused',
      'overflow',
      'backoff timer',
      'steer',
      'abort',
      'settle',
      'late answer',
    ]),
  },
  {
    name: 'tools and approvals',
    takes: inTurn('turn.', [
      'wants tools',
      'wants approval',
      'wants forbidden',
      'tool answers',
      'allow',
      'allow always',
      'deny',
      'approval timer',
      'answer',
    ]),
  },
  {
    name: 'compaction in a turn',
    takes: inTurn('turn.', ['wants tools, huge', 'tool answers', 'hook answers', 'answer', 'empty answer', 'overloaded', 'backoff timer']),
  },
];

/** One turn, calm until its model is called; then the named moves. */
function inTurn(prefix: string, types: readonly string[]): Region['takes'] {
  return ({ type }, { context, value }) => {
    const leaf = leafOf(value);
    if (context.turns === 0)
      return CALM.has(type) && context.mailbox.length === 0 && (leaf === 'starting' ? type === 'hook answers' : true);
    if (context.turns > 1 || leaf === 'idle') return false;
    if (leaf === 'turn.researching')
      return (
        type === (context.pending.some((owed) => owed.kind === 'hook' && owed.hook === FIRST_RESEARCH) ? 'hook answers' : 'tool answers')
      );
    return (leaf.startsWith(prefix) || leaf === 'aborting') && types.includes(type);
  };
}

function at(value: unknown, ...leaves: readonly string[]): boolean {
  return leaves.includes(leafOf(value));
}
