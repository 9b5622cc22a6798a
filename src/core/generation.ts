import { type Generation, type GenerationChange, GenerationFields } from '../contract/generation.ts';

/** Names of the settings. */
export const GENERATION_NAMES = Object.keys(GenerationFields) as (keyof Generation)[];

/** The settings of several sources, the first one that has a field first; what nobody has is left out. */
export function mergeGeneration(...sources: readonly (GenerationChange | null | undefined)[]): Generation {
  return Object.fromEntries(
    GENERATION_NAMES.flatMap((name) => {
      const value = sources.find((source) => source?.[name] !== undefined && source[name] !== null)?.[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** The fields of a change alone, null among them; what the change does not name is left out. */
export function generationChange(change: GenerationChange): GenerationChange {
  return Object.fromEntries(GENERATION_NAMES.flatMap((name) => (change[name] === undefined ? [] : [[name, change[name]]])));
}

/** Puts a change into settings that are kept. */
export function applyGeneration(kept: GenerationChange, change: GenerationChange): void {
  const target = kept as Record<string, unknown>;
  for (const [name, value] of Object.entries(generationChange(change))) {
    if (value === null) delete target[name];
    else target[name] = value;
  }
}
