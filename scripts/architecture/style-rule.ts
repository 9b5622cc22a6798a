import type { Sources } from './source-files.ts';
import { lineOf, maskSource } from './source-mask.ts';

/** Names that say nothing of what a file holds. */
const EMPTY_NAMES = new Set(['utils', 'util', 'helpers', 'helper', 'common', 'types', 'misc', 'shared']);
const BARREL = 'src/index.ts';
const DEFAULT_EXPORT = /\bexport\s+default\b|\bexport\s*\{[^}]*\bas\s+default\b/g;
const OPEN_MARK = /\b(?:TO(?:DO)|FIX(?:ME)|XX(?:X))\b/g;
/** Folders of one person's machine, and of the place where the project happens to be worked on. */
const MACHINE_PATH = /(?:\.\.\/shared|(?<![\w.-])\/(?:work\/(?:main|shared)|root|home\/\w+|Users\/\w+))(?![\w-])/g;

/** `export default` outside of configuration files. */
export function checkDefaultExports(sources: Sources): string[] {
  return [...sources]
    .filter(([file]) => !/\.config\.(ts|mjs|cjs)$/.test(file))
    .flatMap(([file, text]) => matches(maskSource(text), DEFAULT_EXPORT, (line) => `${file}:${line} has a default export; name it`));
}

/** Files of the product whose name says nothing, and barrels beside the public entry. */
export function checkFileNames(sources: Sources): string[] {
  return [...sources.keys()]
    .filter((file) => file.startsWith('src/') || file.startsWith('machines/'))
    .flatMap((file) => {
      const name = file.split('/').at(-1)!;
      if (name === 'index.ts' && file !== BARREL) return [`${file} is a barrel; only ${BARREL} may be one`];
      const words = file
        .split('/')
        .slice(1)
        .map((part) => part.replace(/\.ts$/, ''));
      if (words.some((word) => EMPTY_NAMES.has(word))) return [`${file} is named after nothing it holds`];
      return /^[a-z0-9]+([.-][a-z0-9]+)*\.ts$/.test(name) ? [] : [`${file} is not in kebab-case`];
    });
}

/** Marks of unfinished work in code. */
export function checkOpenMarks(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) => matches(text, OPEN_MARK, (line, mark) => `${file}:${line} is left open: ${mark}`));
}

/** Paths that exist on one machine only, in any text file. */
export function checkMachinePaths(texts: Sources): string[] {
  return [...texts].flatMap(([file, text]) =>
    matches(text, MACHINE_PATH, (line, path) => `${file}:${line} names a path of one machine: ${path}`),
  );
}

function matches(text: string, pattern: RegExp, say: (line: number, found: string) => string): string[] {
  return [...text.matchAll(pattern)].map((match) => say(lineOf(text, match.index), match[0]));
}
