import { importsOf, targetOf } from './import-scan.ts';
import type { Sources } from './source-files.ts';

/** Layers of the product, lowest first; folders that share a row do not import each other. `src` stands for the files directly in it. */
export const LAYERS: readonly (readonly string[])[] = [
  ['src/contract'],
  ['src/core', 'machines'],
  ['src/store', 'src/providers', 'src/http', 'src/client'],
  ['src/tools', 'src/mcp'],
  ['src/daemon', 'src/runtime', 'src/cli'],
  ['src'],
];

/** Outside the product: what each folder may import besides itself. */
const AROUND: Readonly<Record<string, readonly string[]>> = {
  scripts: ['src', 'machines', 'bench/rig'],
  test: ['src', 'machines', 'scripts', 'bench', 'examples', 'bin'],
  bench: ['src', 'machines', 'test/helpers'],
  examples: ['src/index.ts', 'src/client', 'src/contract', 'test/helpers'],
};

/** One problem per import that the table above does not allow. Type-only imports count. */
export function checkLayers(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) =>
    importsOf(text).flatMap(({ specifier, line }) => {
      const target = targetOf(file, specifier);
      if (target === undefined || mayImport(file, target)) return [];
      return [`${file}:${line} imports ${target}: ${reason(file, target)}`];
    }),
  );
}

function mayImport(file: string, target: string): boolean {
  const top = file.split('/')[0]!;
  // The program's version stands there.
  if (target === 'package.json') return file === 'src/contract/version.ts';
  if (target.split('/')[0] === top && top in AROUND) return true;
  const allowed = AROUND[top];
  if (allowed) return allowed.some((place) => target === place || target.startsWith(`${place}/`));
  const from = folderOf(file);
  const to = folderOf(target);
  if (from === undefined || to === undefined) return false;
  return from === to || layerOf(to) < layerOf(from);
}

/** The folder of the table that holds a file; undefined when it stands in none of them. */
function folderOf(path: string): string | undefined {
  const parts = path.split('/');
  if (parts[0] === 'machines') return 'machines';
  if (parts[0] !== 'src') return undefined;
  const folder = parts.length === 2 ? 'src' : `src/${parts[1]}`;
  return LAYERS.some((row) => row.includes(folder)) ? folder : undefined;
}

function layerOf(folder: string): number {
  return LAYERS.findIndex((row) => row.includes(folder));
}

function reason(file: string, target: string): string {
  const from = folderOf(file);
  const to = folderOf(target);
  if (from === undefined)
    return `${file.split('/')[0]} may import ${AROUND[file.split('/')[0]!]?.join(', ') ?? 'nothing: its folder is in no layer'}`;
  if (to === undefined) return 'the target is in no layer of the product';
  return `layer ${layerOf(from)} (${from}) may import lower layers only, and this is layer ${layerOf(to)} (${to})`;
}
