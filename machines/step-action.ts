import type { AnyMachineSnapshot, EventObject } from 'xstate';

/** Its type, as an executor of actions sees it. */
export const STEP_ACTION = 'signet.step';

/** What happens in one transition, as a pure function of context and event: context members that change, and what is emitted, in order. */
export type PureStepFunction<C, E, O> = (context: C, event: E) => { readonly set?: Partial<C>; readonly say?: readonly O[] };

interface StepAction<C, E, O> {
  (): void;
  readonly type: string;
  resolve(scope: unknown, snapshot: AnyMachineSnapshot, args: { context: C; event: E }): [AnyMachineSnapshot, readonly O[] | undefined];
  execute(scope: { emit(output: O): void }, said: readonly O[] | undefined): void;
}

/**
 * A pure step as one XState action. The same can be said with `enqueueActions`, `assign` and `emit`; then each of them copies context and
 * snapshot once more, which made up a tenth of a turn. `resolve` and `execute` are how XState's own actions are built.
 */
export function stepAction<C extends object, E extends EventObject, O extends EventObject>(step: PureStepFunction<C, E, O>): () => void {
  const action: StepAction<C, E, O> = Object.assign(() => undefined, {
    type: STEP_ACTION,
    resolve(_scope: unknown, snapshot: AnyMachineSnapshot, { context, event }: { context: C; event: E }) {
      const { set, say } = step(context, event);
      const moved = set ? ({ ...snapshot, context: { ...context, ...set } } as AnyMachineSnapshot) : snapshot;
      return [moved, say] as [AnyMachineSnapshot, readonly O[] | undefined];
    },
    execute(scope: { emit(output: O): void }, said: readonly O[] | undefined) {
      for (const output of said ?? []) scope.emit(output);
    },
  });
  return action;
}
