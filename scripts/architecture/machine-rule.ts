import { importsOf } from './import-scan.ts';
import type { Sources } from './source-files.ts';
import { lineOf, maskSource } from './source-mask.ts';

/** What would make a replay differ from the life it replays, or repeat work at a restart; see docs/decisions/0001. */
const IMPURE: readonly (readonly [RegExp, string])[] = [
  [/(?<![.\w$])invoke\s*:/g, 'invoke: a restart would run it again; derive the work from the state instead'],
  [/(?<![.\w$])after\s*:/g, 'after: timers do not survive a restart; a due time in the state does'],
  // `new Date(ms)` only writes a given time differently; without an argument it reads the clock.
  [/\bDate\b(?!\s*\(\s*[^)\s])|(?<!\bnew\s+)\bDate\s*\(|\bDate\s*\.\s*now\b/g, 'Date: time arrives in signals'],
  [/\bMath\s*\.\s*random\b/g, 'Math.random: chance arrives in signals'],
  [/\b(?:randomUUID|performance|setTimeout|setInterval|setImmediate|queueMicrotask|fetch|process|console)\b/g, 'the outside world'],
  [/\bfrom(?:Promise|Callback|Observable)\b/g, 'an actor with effects'],
];

/** Problems in `machines/`: statecharts are pure, so that folding a log always gives the same state. */
export function checkMachines(sources: Sources): string[] {
  return [...sources]
    .filter(([file]) => file.startsWith('machines/'))
    .flatMap(([file, text]) => {
      const code = maskSource(text);
      const impure = IMPURE.flatMap(([pattern, why]) =>
        [...code.matchAll(pattern)].map((match) => `${file}:${lineOf(code, match.index)} is not pure: ${why}`),
      );
      const builtins = importsOf(text)
        .filter(({ specifier }) => specifier.startsWith('node:'))
        .map(({ specifier, line }) => `${file}:${line} is not pure: it imports ${specifier}`);
      return [...impure, ...builtins];
    });
}
