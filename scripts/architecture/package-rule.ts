import { importsOf, packageOf } from './import-scan.ts';
import type { Sources } from './source-files.ts';

/** Where in the product each package may be imported. A run-time dependency that is not here has no home, and fails. */
export const HOMES: Readonly<Record<string, readonly string[]>> = {
  '@anthropic-ai/sdk': ['src/providers/'],
  '@fastify/websocket': ['src/http/'],
  '@modelcontextprotocol/sdk': ['src/mcp/'],
  '@opentelemetry/api': ['src/runtime/'],
  '@opentelemetry/exporter-trace-otlp-http': ['src/runtime/'],
  '@opentelemetry/sdk-trace': ['src/runtime/'],
  ajv: ['src/tools/'],
  chokidar: ['src/daemon/'],
  commander: ['src/cli/'],
  fastify: ['src/http/'],
  'jsonc-parser': ['src/daemon/'],
  openai: ['src/providers/'],
  pino: ['src/log.ts'],
  'prom-client': ['src/runtime/'],
  xstate: ['machines/', 'src/runtime/'],
  yaml: ['src/daemon/', 'src/cli/'],
  zod: ['src/contract/'],
  'node:sqlite': ['src/store/'],
};

/** Types of a package that comes with another one: `import type` only. */
const TYPES_ONLY: Readonly<Record<string, readonly string[]>> = { ws: ['src/http/'], vitest: ['src/vitest.ts'] };

/** Node's own modules with a home; all others are free in the product, except in `machines`, which stays pure. */
const isFreeBuiltin = (name: string): boolean => name.startsWith('node:') && !(name in HOMES);

export interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

/** Problems with who imports which package: homes in the product, declared packages everywhere else. */
export function checkPackages(sources: Sources, manifest: Manifest): string[] {
  const homeless = Object.keys(manifest.dependencies ?? {}).filter((name) => !(name in HOMES));
  return [
    ...homeless.map((name) => `package.json: the dependency ${name} has no home; give it one in scripts/architecture/package-rule.ts`),
    ...[...sources].flatMap(([file, text]) => checkFile(file, text, manifest)),
  ];
}

function checkFile(file: string, text: string, manifest: Manifest): string[] {
  const isProduct = file.startsWith('src/') || file.startsWith('machines/');
  return importsOf(text).flatMap(({ specifier, line, typeOnly }) => {
    const name = packageOf(specifier);
    if (name === undefined || isFreeBuiltin(name)) return [];
    if (isProduct) return checkHome(`${file}:${line}`, file, name, typeOnly);
    const declared = name.startsWith('node:') || isDeclared(name, typeOnly, manifest);
    return declared ? [] : [`${file}:${line} imports ${name}, which package.json does not declare`];
  });
}

function checkHome(place: string, file: string, name: string, typeOnly: boolean): string[] {
  const homes = HOMES[name] ?? (typeOnly ? TYPES_ONLY[name] : undefined);
  if (homes?.some((home) => file.startsWith(home))) return [];
  return [`${place} imports ${name}: ${homes ? `its home is ${homes.join(' and ')}` : 'it has no home in the product'}`];
}

function isDeclared(name: string, typeOnly: boolean, { dependencies = {}, devDependencies = {} }: Manifest): boolean {
  const has = (key: string): boolean => key in dependencies || key in devDependencies;
  return has(name) || (typeOnly && has(`@types/${name}`));
}

export interface LicensedPackage {
  readonly name: string;
  /** SPDX expression as its package.json has it; '' when there is none. */
  readonly license: string;
}

/** Licences that oblige us to no more than to name them. */
const PERMISSIVE = new Set(['MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'BlueOak-1.0.0', 'CC0-1.0', 'Unlicense']);

/** Problems with the licences of what ships: every package must be usable under a permissive one. */
export function checkLicences(packages: readonly LicensedPackage[]): string[] {
  return packages
    .filter(({ license }) => !isPermissive(license))
    .map(({ name, license }) => `${name} is licensed ${license || 'not at all'}`);
}

/** `A OR B` needs one of them, `A AND B` both. */
function isPermissive(expression: string): boolean {
  const bare = expression.replace(/[()]/g, ' ').trim();
  return bare.split(/\s+OR\s+/).some((choice) => choice.split(/\s+AND\s+/).every((name) => PERMISSIVE.has(name.trim())));
}
