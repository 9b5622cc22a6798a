import { execFile } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { compileCacheFolder } from '../../bin/trusted-folder.js';
import { VERSION } from '../../src/contract/version.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));
const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const run = promisify(execFile);
/** Offsets in the head of a file of Node's compile cache; each number has four bytes. */
const CODE_SIZE_AT = 4;
const CODE_HASH_AT = 12;
const NOBODY = 65_534;

let folder: string;
let shared: string;
/** Compiled code of another program, made to look like that of dist/main.js: what another user of this machine can make as well. */
let planted: { readonly place: string; readonly bytes: Buffer };

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signet-compile-cache-'));
  const source = readFileSync(MAIN);
  const place = await cacheFileOf(MAIN, 'honest', source);
  const evil = join(folder, 'evil.mjs');
  // V8 compares the length of the source, Node its length and checksum: both can be forged.
  const code = "process.stdout.write('PLANTED');process.exit(0);//";
  writeFileSync(evil, code.padEnd(source.length, ' '));
  const bytes = readFileSync(join(folder, 'evil', await cacheFileOf(evil, 'evil', readFileSync(evil))));
  bytes.writeUInt32LE(source.length, CODE_SIZE_AT);
  bytes.writeUInt32LE(crc32(source), CODE_HASH_AT);
  planted = { place, bytes };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
beforeEach(() => {
  shared = mkdtempSync(join(folder, 'shared-'));
});

/** Path within the cache folder of the file that Node keeps for a module. */
async function cacheFileOf(module: string, cacheName: string, source: Buffer): Promise<string> {
  const cache = join(folder, cacheName);
  const script = `import m from 'node:module'; m.enableCompileCache(${JSON.stringify(cache)}); process.argv[2] = '--version';
    process.on('exit', () => m.flushCompileCache()); await import(${JSON.stringify(pathToFileURL(module).href)});`;
  await run(process.execPath, ['--input-type=module', '-e', script], { env: { HOME: folder } });
  const files = readdirSync(cache, { recursive: true, encoding: 'utf8' });
  const found = files.find((file) => {
    const path = join(cache, file);
    return dirname(file) !== '.' && readFileSync(path).readUInt32LE(CODE_HASH_AT) === crc32(source);
  });
  if (!found) throw new Error(`Node made no cache for ${module}: ${files.join(', ')}`);
  return found;
}

function plant(cache: string): void {
  const path = join(cache, planted.place);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, planted.bytes);
}

async function startWith(env: Readonly<Record<string, string>>): Promise<string> {
  const { stdout } = await run(process.execPath, [LAUNCHER, '--version'], { env: { HOME: folder, TMPDIR: shared, ...env } });
  return stdout.trim();
}

test('the planted code runs where Node is told to trust its folder', async () => {
  plant(shared);
  expect(await startWith({ NODE_COMPILE_CACHE: shared })).toBe('PLANTED');
});

test('compiled code in the shared temporary folder is neither read nor written', async () => {
  const cache = join(shared, 'node-compile-cache');
  plant(cache);
  chmodSync(shared, 0o1777);
  expect(await startWith({})).toBe(VERSION);
  expect(readFileSync(join(cache, planted.place)).equals(planted.bytes)).toBe(true);
  expect(readdirSync(shared)).toEqual(['node-compile-cache']);
});

test('the cache of the user is private, and used', async () => {
  const env = { XDG_CACHE_HOME: join(shared, 'cache') };
  expect(await startWith(env)).toBe(VERSION);
  const cache = compileCacheFolder(env, folder)!;
  expect(cache).toContain('cache/signet/compile-cache');
  expect(existsSync(join(cache, planted.place))).toBe(true);
  plant(cache);
  expect(await startWith(env)).toBe('PLANTED');
});

/** Each leaves a folder for compiled code where another user could write. */
const REACHABLE: Readonly<Record<string, (cache: string) => void>> = {
  'a folder that others may write': (cache) => chmodSync(cache, 0o770),
  'a folder that others may read': (cache) => chmodSync(cache, 0o755),
  'a folder above that others may write': (cache) => chmodSync(dirname(cache), 0o777),
  'a link to a folder': (cache) => {
    rmSync(cache, { recursive: true });
    mkdirSync(join(shared, 'elsewhere'), { mode: 0o700 });
    symlinkSync(join(shared, 'elsewhere'), cache);
    plant(cache);
  },
  'a file': (cache) => {
    rmSync(cache, { recursive: true });
    writeFileSync(cache, '');
  },
};

test.each(Object.entries(REACHABLE))('%s is not used as a cache', async (_what, open) => {
  const env = { XDG_CACHE_HOME: join(shared, 'cache') };
  const cache = compileCacheFolder(env, folder)!;
  plant(cache);
  open(cache);
  expect(compileCacheFolder(env, folder)).toBeUndefined();
  expect(await startWith(env)).toBe(VERSION);
});

test.runIf(process.geteuid?.() === 0)('a folder of another user is not used as a cache (as root)', async () => {
  const env = { XDG_CACHE_HOME: join(shared, 'cache') };
  const cache = compileCacheFolder(env, folder)!;
  plant(cache);
  chownSync(cache, NOBODY, NOBODY);
  expect(await startWith(env)).toBe(VERSION);
  chownSync(cache, 0, 0);
  chownSync(dirname(cache), NOBODY, NOBODY);
  expect(await startWith(env)).toBe(VERSION);
});
