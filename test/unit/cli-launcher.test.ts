import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));
const PACKAGES = fileURLToPath(new URL('../../node_modules', import.meta.url));
const PROCESS_TIMEOUT_MS = 20_000;
/** Makes a Node claim an older version, so that the launcher looks for the bundled one. */
const OLD = 'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.1.0"}})';

let root: string;

/** A package of its own: the launcher, and a program that tells how it was started. */
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'signet-launcher-'));
  mkdirSync(join(root, 'bin'));
  mkdirSync(join(root, 'src'));
  for (const file of ['signet.js', 'clean-environment.js', 'trusted-folder.js'])
    copyFileSync(join(dirname(LAUNCHER), file), join(root, 'bin', file));
  writeFileSync(join(root, 'package.json'), '{"type":"module"}');
  writeFileSync(
    join(root, 'src', 'main.ts'),
    `const [first, ...rest] = process.argv.slice(2);
     if (first === 'wait') process.on('SIGTERM', () => process.exit(7)), setInterval(() => {}, 1000);
     else if (first === 'die') process.kill(process.pid, 'SIGKILL');
     else process.exitCode = Number(first);
     console.log('source', process.versions.node.split('.')[0], [first, ...rest].join('|'));`,
  );
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function launch(args: readonly string[], old = false): ChildProcess {
  const options = { env: { PATH: process.env.PATH, HOME: root }, stdio: ['ignore', 'pipe', 'pipe'] as ['ignore', 'pipe', 'pipe'] };
  return spawn(process.execPath, [...(old ? ['--import', OLD] : []), join(root, 'bin', 'signet.js'), ...args], options);
}

async function run(args: readonly string[], old = false) {
  const child = launch(args, old);
  let out = '';
  let err = '';
  child.stdout?.on('data', (chunk) => (out += chunk));
  child.stderr?.on('data', (chunk) => (err += chunk));
  const [code, signal] = await once(child, 'close');
  return { code, signal, out, err };
}

test(
  'runs the source where nothing is built, and the build where it is',
  async () => {
    expect(await run(['3', 'a b'])).toEqual({ code: 3, signal: null, out: 'source 24 3|a b\n', err: '' });
    mkdirSync(join(root, 'dist'));
    writeFileSync(join(root, 'dist', 'main.js'), "console.log('built')");
    expect((await run(['0'])).out).toBe('built\n');
  },
  PROCESS_TIMEOUT_MS,
);

test(
  'says what is missing when there is neither',
  async () => {
    rmSync(join(root, 'src'), { recursive: true });
    expect(await run(['0'])).toMatchObject({ code: 1, err: expect.stringContaining('the program is missing') });
  },
  PROCESS_TIMEOUT_MS,
);

test(
  'an old Node hands over to the bundled one: arguments, output and exit code pass through',
  async () => {
    symlinkSync(PACKAGES, join(root, 'node_modules'));
    expect(await run(['5', 'x'], true)).toEqual({ code: 5, signal: null, out: 'source 24 5|x\n', err: '' });
    expect(await run(['die'], true)).toMatchObject({ code: null, signal: 'SIGKILL' });
  },
  PROCESS_TIMEOUT_MS,
);

test(
  'an old Node forwards signals',
  async () => {
    symlinkSync(PACKAGES, join(root, 'node_modules'));
    const child = launch(['wait'], true);
    const ended = once(child, 'close');
    await once(child.stdout!, 'data');
    child.kill('SIGTERM');
    expect(await ended).toEqual([7, null]);
  },
  PROCESS_TIMEOUT_MS,
);

test(
  'an old Node without a bundled one says which is needed',
  async () => {
    const { code, err } = await run(['0'], true);
    expect(code).toBe(1);
    expect(err).toContain('Node 24 or newer is needed, this is 20.1.0');
  },
  PROCESS_TIMEOUT_MS,
);

test(
  'ends quietly when nobody reads what it prints any more',
  async () => {
    const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
    const child = spawn(process.execPath, [main, '--help'], { env: { PATH: process.env.PATH }, stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.destroy();
    let err = '';
    child.stderr.on('data', (chunk) => (err += chunk));
    const [code, signal] = await once(child, 'close');
    expect({ code, signal, err }).toEqual({ code: 0, signal: null, err: '' });
  },
  PROCESS_TIMEOUT_MS,
);
