import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { bundledPackages, sbomText } from './supply-chain.mjs';

// Plain JavaScript, so that an old Node gets a sentence instead of a syntax error.

const NODE_MAJOR_MIN = 24;
const ROOT = resolve(import.meta.dirname ?? '.', '..');
const DIST = join(ROOT, 'dist');
/** What the bundle was made from; compared by `--if-stale`. */
const STAMP = join(DIST, '.built-from');
/** Entries by the name of their file in dist/. The last two are worker threads, so they must be files of their own. */
const ENTRIES = {
  main: 'src/main.ts',
  index: 'src/index.ts',
  vitest: 'src/vitest.ts',
  'signal-writer': 'src/store/signal-writer.ts',
  'memory-checkpoint-worker': 'src/store/memory-checkpoint-worker.ts',
};
/** Everything that can change the bundle. */
const SOURCES = ['src', 'machines', 'package.json', 'package-lock.json', 'tsconfig.json', 'scripts/build.mjs', 'scripts/supply-chain.mjs'];

/**
 * `import … from 'node:http'` makes Node read every export of that module, and one of them loads the whole of undici: a sixth of the daemon's
 * start and 3 MiB of its memory, measured. So the bundle takes what it uses by another way.
 */
const HTTP_WITHOUT_FACADE = {
  name: 'http-without-facade',
  resolveId: (id, _importer, { kind }) => (id === 'node:http' && kind === 'import-statement' ? '\0node-http' : undefined),
  load: (id) =>
    id === '\0node-http' ? "export const { Agent, createServer, request } = process.getBuiltinModule('node:http');" : undefined,
};

const NAMED = { keepNames: { function: true, class: true } };
/**
 * V8 keeps the source of what it runs: 4 MiB less of the daemon's memory, measured. Functions keep their names, so that a stack names them as they
 * are written; the maps beside the chunks name files and lines, and are read when a stack is printed.
 */
const SMALL_WITH_NAMES = { compress: NAMED, mangle: NAMED, codegen: { removeWhitespace: true } };

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
/** Characters that asciiText makes of one beyond ASCII, besides the first. */
const ESCAPE_CHARS = 5;

const major = Number(process.versions.node.split('.')[0]);
if (major < NODE_MAJOR_MIN) {
  const advice = 'npm brings it along on Linux (npm ci, without --omit=optional); elsewhere install it from nodejs.org';
  console.error(`Signet needs Node ${NODE_MAJOR_MIN} or newer, this is ${process.version}: ${advice}.`);
  process.exit(1);
}

// A published package holds dist/ and no sources: there is nothing to build.
if (existsSync(join(ROOT, 'src'))) {
  const stamp = digestSources();
  const isFresh = existsSync(STAMP) && readFileSync(STAMP, 'utf8') === stamp;
  if (!process.argv.includes('--if-stale') || !isFresh) await build(stamp);
}

/** Bundle the product with its dependencies into dist/*.js. The stamp comes last: a build that breaks off is made again. */
async function build(stamp) {
  const started = performance.now();
  const { rolldown } = await import('rolldown');
  mkdirSync(DIST, { recursive: true });
  rmSync(STAMP, { force: true });
  const bundle = await rolldown({
    cwd: ROOT,
    input: ENTRIES,
    platform: 'node',
    // Its entry for require() loads its parts by a name no bundler can see.
    resolve: { alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' } },
    logLevel: 'warn',
    plugins: [HTTP_WITHOUT_FACADE],
    // Of a fault in a dependency's own comments nobody here can do anything.
    onLog: (level, log, report) => (log.id?.includes('node_modules') ? undefined : report(level, log)),
  });
  const { output } = await bundle.write({
    dir: DIST,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    sourcemap: 'hidden',
    minify: SMALL_WITH_NAMES,
  });
  await bundle.close();
  const chunks = output.filter((part) => part.type === 'chunk');
  for (const { fileName, code, map } of chunks) {
    // A chunk that only imports others has no map.
    const { sources = [], names = [], mappings = '' } = map ?? {};
    writeFileSync(join(DIST, fileName), `${asciiText(code)}\n//# sourceMappingURL=${fileName}.map\n`);
    writeFileSync(join(DIST, `${fileName}.map`), JSON.stringify({ version: 3, sources, names, mappings: asciiMappings(code, mappings) }));
  }
  const packages = bundledPackages(
    ROOT,
    output.flatMap((part) => (part.type === 'chunk' ? part.moduleIds : [])),
  );
  writeFileSync(join(DIST, 'packages.json'), `${JSON.stringify(packages, null, 2)}\n`);
  writeFileSync(join(DIST, 'sbom.cdx.json'), sbomText(ROOT, packages));
  removeOthers(new Set(chunks.flatMap(({ fileName }) => [fileName, `${fileName}.map`])));
  writeFileSync(STAMP, stamp);
  const bytes = output.reduce((sum, part) => sum + (part.type === 'chunk' ? part.code.length : 0), 0);
  console.error(`built dist/ in ${Math.round(performance.now() - started)} ms, ${Math.round(bytes / 1024)} KiB`);
}

/** One character beyond ASCII makes Node keep a whole file with two bytes a character: 1 MiB of the daemon's memory, measured. */
function asciiText(code) {
  return code.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The mappings of a chunk after asciiText: columns behind an escape move; sources and names stay. A segment begins with its column. */
function asciiMappings(code, mappings) {
  const lines = code.split('\n');
  return mappings
    .split(';')
    .map((segments, line) => {
      const escaped = [...(lines[line] ?? '').matchAll(/[\u0080-\uffff]/g)].map(({ index }) => index);
      if (escaped.length === 0 || segments === '') return segments;
      let [column, moved, passed] = [0, 0, 0];
      return segments
        .split(',')
        .map((segment) => {
          const { value, rest } = readNumber(segment);
          column += value;
          while (escaped[passed] < column) passed += 1;
          const delta = column + passed * ESCAPE_CHARS - moved;
          moved += delta;
          return `${writeNumber(delta)}${rest}`;
        })
        .join(',');
    })
    .join(';');
}

/** @source ECMA-426, base64 VLQ */
function readNumber(segment) {
  let [value, shift, place, digit] = [0, 0, 0, 0];
  do {
    digit = BASE64.indexOf(segment[place]);
    value += (digit & 31) << shift;
    shift += 5;
    place += 1;
  } while (digit & 32);
  return { value: value & 1 ? -(value >> 1) : value >> 1, rest: segment.slice(place) };
}

function writeNumber(number) {
  let value = number < 0 ? (-number << 1) | 1 : number << 1;
  let text = '';
  do {
    const digit = value & 31;
    value >>>= 5;
    text += BASE64[value > 0 ? digit | 32 : digit];
  } while (value > 0);
  return text;
}

/** Chunks of earlier builds. Folders (dist/types, dist/web) belong to others. */
function removeOthers(written) {
  for (const name of readdirSync(DIST)) {
    if (/\.js(\.map)?$/.test(name) && !written.has(name)) rmSync(join(DIST, name));
  }
}

function digestSources() {
  const hash = createHash('sha256');
  for (const file of SOURCES.flatMap((place) => listFiles(join(ROOT, place)))) {
    hash
      .update(`${relative(ROOT, file)}\0`)
      .update(readFileSync(file))
      .update('\0');
  }
  return hash.digest('hex');
}

function listFiles(place) {
  if (!existsSync(place)) return [];
  if (statSync(place).isFile()) return [place];
  return readdirSync(place, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}
