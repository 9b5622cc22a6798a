import type { Adoption, AdoptionProgress, RunningAdoption } from './memory-adopt.ts';
import type { Access } from './memory-store-access.ts';

/** How it ended, or why it broke off: the next start goes on. */
export type AdoptionEnd = Adoption | { readonly fault: unknown };

/** The rest of a database that is taken over, in slices between requests. */
export interface StoreAdoption {
  /** Undefined when it is over. */
  readonly progress: AdoptionProgress | undefined;
  /** Called when it is over, at once if it is already; never after `close`. */
  whenOver(told: (end: AdoptionEnd) => void): void;
  close(): void;
}

export function createAdoption(begun: RunningAdoption | AdoptionEnd, { note }: Pick<Access, 'note'>): StoreAdoption {
  let end: AdoptionEnd | undefined = 'step' in begun ? undefined : begun;
  let told: ((end: AdoptionEnd) => void) | undefined;
  let slice: NodeJS.Immediate | undefined;
  let isClosed = false;
  const running = 'step' in begun ? begun : undefined;
  const finish = (how: AdoptionEnd): void => {
    end = how;
    running?.close();
    told?.(how);
  };
  const goOn = async (): Promise<void> => {
    slice = undefined;
    try {
      const whole = await note(() => running?.step());
      // Closed in the meantime: nobody is there to be told.
      if (isClosed) return;
      if (whole) finish(whole);
      else slice = setImmediate(goOn);
    } catch (fault) {
      if (!isClosed) finish({ fault });
    }
  };
  if (running) slice = setImmediate(goOn);
  return {
    get progress() {
      return end === undefined ? running?.progress : undefined;
    },
    whenOver: (listener) => {
      told = listener;
      if (end !== undefined) listener(end);
    },
    close: () => {
      if (isClosed) return;
      isClosed = true;
      clearImmediate(slice);
      if (end === undefined) running?.close();
    },
  };
}
