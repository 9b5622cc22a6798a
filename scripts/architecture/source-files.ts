import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';

/** Path from the repository's root, with forward slashes, to the text of the file. */
export type Sources = ReadonlyMap<string, string>;

/** Folders whose TypeScript the rules read. */
const CODE_FOLDERS = ['src', 'machines', 'test', 'bench', 'examples', 'scripts'];
/** Not part of the project, or made by it. */
const SKIPPED = new Set(['node_modules', '.git', 'dist', 'coverage']);
/** Larger files are data, not text; unit: bytes. */
const TEXT_BYTES_MAX = 1_048_576;

/** Every TypeScript file of the code folders; folders that do not exist are left out. */
export function readCode(root: string): Sources {
  return new Map([...readTexts(root)].filter(([path]) => path.endsWith('.ts') && CODE_FOLDERS.includes(path.split('/')[0]!)));
}

/** Every text file of the project, hidden ones included. */
export function readTexts(root: string): Sources {
  const texts = new Map<string, string>();
  for (const path of listFiles(root, root)) {
    const bytes = readFileSync(join(root, path));
    if (bytes.length <= TEXT_BYTES_MAX && !bytes.includes(0)) texts.set(path, bytes.toString('utf8'));
  }
  return texts;
}

function listFiles(root: string, folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => !SKIPPED.has(entry.name))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return listFiles(root, path);
      return entry.isFile() ? [relative(root, path).split(sep).join('/')] : [];
    })
    .sort();
}
