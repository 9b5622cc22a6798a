import { posix } from 'node:path';
import type { Sources } from './source-files.ts';
import { lineOf, maskSource } from './source-mask.ts';

/** `import x from 'a'`, `import 'a'`, `export * from 'a'`, over several lines too. Strings are kept by the mask, comments are not. */
const STATIC = /(?:^|[;}\n])[ \t]*((?:import|export)\b(?:[^;'"()=]*?\bfrom)?)\s*(['"])([^'"\n]+)\2/g;
/** `import('a')`, as a value or as a type. */
const DYNAMIC = /\bimport\s*\(\s*(['"])([^'"\n]+)\1/g;

export interface Import {
  readonly specifier: string;
  readonly line: number;
  /** `import type` or `export type`: erased, but it binds the files all the same. */
  readonly typeOnly: boolean;
}

/** What a file imports, in order, repeats included. Specifiers that are not literals cannot be seen. */
export function importsOf(text: string): Import[] {
  const code = maskSource(text, { keepStrings: true });
  const bare = maskSource(text);
  // What looks like an import inside a string is none: the masked text has no such word there.
  const isCode = (at: number, word: string): boolean => bare.slice(at, at + word.length) === word;
  const found: (Import & { at: number })[] = [];
  for (const match of code.matchAll(STATIC)) {
    const at = match.index + match[0].indexOf(match[1]!);
    if (!isCode(at, match[1]!.slice(0, 6))) continue;
    found.push({ at, specifier: match[3]!, line: lineOf(code, at), typeOnly: /^(import|export)\s+type\b/.test(match[1]!) });
  }
  for (const match of code.matchAll(DYNAMIC)) {
    if (isCode(match.index, 'import'))
      found.push({ at: match.index, specifier: match[2]!, line: lineOf(code, match.index), typeOnly: false });
  }
  return found.sort((a, b) => a.at - b.at).map(({ specifier, line, typeOnly }) => ({ specifier, line, typeOnly }));
}

/** Path of the file a relative specifier names, seen from `file`; undefined for packages. */
export function targetOf(file: string, specifier: string): string | undefined {
  return specifier.startsWith('.') ? posix.join(posix.dirname(file), specifier) : undefined;
}

/** Name of the package a specifier belongs to, `node:x` whole; undefined for relative ones. */
export function packageOf(specifier: string): string | undefined {
  if (specifier.startsWith('.')) return undefined;
  if (specifier.startsWith('node:')) return specifier;
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

/** One problem per cycle, as the chain of files; a cycle is told once, from its first file in alphabetical order. */
export function checkCycles(sources: Sources): string[] {
  const edges = new Map<string, string[]>();
  for (const [file, text] of sources) {
    const targets = importsOf(text).flatMap(({ specifier }) => targetOf(file, specifier) ?? []);
    edges.set(file, [...new Set(targets)].filter((target) => sources.has(target)).sort());
  }
  const problems: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, chain: readonly string[]): void => {
    const start = chain.indexOf(file);
    if (start >= 0) problems.push(`import cycle: ${[...chain.slice(start), file].join(' -> ')}`);
    if (start >= 0 || done.has(file)) return;
    for (const target of edges.get(file) ?? []) visit(target, [...chain, file]);
    done.add(file);
  };
  for (const file of [...edges.keys()].sort()) visit(file, []);
  return problems;
}
