import type { Random } from './random.ts';

/** How one seed treats its sessions. Seeds differ in kind, not only in dice: faults that never meet in even weather meet in some of them. */
export interface Weather {
  /** Weights of what the scheduler does next. */
  readonly steps: Readonly<Record<'land' | 'answer' | 'immediate' | 'time' | 'command' | 'fault', number>>;
  readonly commands: Readonly<
    Record<
      | 'prompt'
      | 'again'
      | 'decide'
      | 'abort'
      | 'cancel'
      | 'compact'
      | 'update'
      | 'bypass'
      | 'message'
      | 'end'
      | 'create'
      | 'look'
      | 'leave',
      number
    >
  >;
  readonly faults: Readonly<Record<'crash' | 'drain' | 'disk' | 'forward' | 'back' | 'bug' | 'echo', number>>;
  readonly model: Readonly<
    Record<'text' | 'tools' | 'empty' | 'overloaded' | 'failed' | 'refused' | 'cut' | 'overflow' | 'malformed', number>
  >;
  readonly tool: Readonly<Record<'ok' | 'error' | 'big', number>>;
  readonly hook: Readonly<Record<'ok' | 'bypassed' | 'failed' | 'late', number>>;
  /** Share of work that hears its abort at once; the rest ends when it likes. */
  readonly obedient: number;
  /** Share of work that takes very long. */
  readonly slow: number;
  /** Share of prompts with a short deadline of their own. */
  readonly hurried: number;
}

/** A weight around `usual`, now and then none or a lot. */
function vary<K extends string>(random: Random, usual: Readonly<Record<K, number>>, fixed: readonly NoInfer<K>[] = []): Record<K, number> {
  const entries = Object.entries(usual) as [K, number][];
  return Object.fromEntries(
    entries.map(([key, weight]) => {
      const factor = fixed.includes(key) ? 1 : random.pick([0, 0.5, 1, 1, 1, 2, 5]);
      return [key, weight * factor];
    }),
  ) as Record<K, number>;
}

export function drawWeather(random: Random): Weather {
  return {
    steps: vary(random, { land: 30, answer: 22, immediate: 10, time: 6, command: 14, fault: 0.8 }, [
      'land',
      'answer',
      'immediate',
      'command',
    ]),
    commands: vary(
      random,
      {
        prompt: 30,
        again: 4,
        decide: 12,
        abort: 5,
        cancel: 3,
        compact: 3,
        update: 2,
        bypass: 2,
        message: 3,
        end: 1.2,
        create: 1,
        look: 2,
        leave: 2,
      },
      ['prompt', 'decide'],
    ),
    faults: vary(random, { crash: 4, drain: 1, disk: 3, forward: 2, back: 2, bug: 1, echo: 3 }, ['crash']),
    model: vary(
      random,
      { text: 8, tools: 8, empty: 0.5, overloaded: 1.5, failed: 1, refused: 0.4, cut: 1, overflow: 0.7, malformed: 0.4 },
      ['text'],
    ),
    tool: vary(random, { ok: 6, error: 2, big: 1 }, ['ok']),
    hook: vary(random, { ok: 8, bypassed: 1, failed: 1, late: 1 }, ['ok']),
    obedient: random.pick([1, 0.9, 0.5]),
    slow: random.pick([0, 0.02, 0.2]),
    hurried: random.pick([0, 0.1, 0.5]),
  };
}

/** After the storm: everything answers, nothing fails any more. */
export const CALM: Pick<Weather, 'model' | 'tool' | 'hook'> = {
  model: { text: 1, tools: 0, empty: 0, overloaded: 0, failed: 0, refused: 0, cut: 0, overflow: 0, malformed: 0 },
  tool: { ok: 1, error: 0, big: 0 },
  hook: { ok: 1, bypassed: 0, failed: 0, late: 0 },
};
