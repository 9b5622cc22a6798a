import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { readableStack } from '../../src/core/readable-stack.ts';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const DIST = join(ROOT, 'dist');

/** Where a text of a source stands in the built files, as frames name it. */
function placesOf(text: string): string[] {
  return readdirSync(DIST).flatMap((name) => {
    if (!name.endsWith('.js')) return [];
    const code = readFileSync(join(DIST, name), 'utf8');
    const at = code.indexOf(text);
    if (at < 0) return [];
    return [`${pathToFileURL(join(DIST, name)).href}:${code.slice(0, at).split('\n').length}:${at - code.lastIndexOf('\n', at - 1)}`];
  });
}

function lineOf(file: string, text: string): number {
  return (
    readFileSync(join(ROOT, file), 'utf8')
      .split('\n')
      .findIndex((line) => line.includes(text)) + 1
  );
}

test.each([
  ['src/tools/tool-service.ts', 'no tool or MCP server named'],
  ['src/runtime/effects/tool-effect.ts', 'whether it had an effect is not known, so it is not repeated'],
  ['src/store/tool-store.ts', 'repair it or move it away, then start again'],
])('a frame of the build names file and line of %s', (file, text) => {
  const places = placesOf(text);
  expect(places.length).toBeGreaterThan(0);
  for (const place of places) {
    const error = new Error('broken');
    error.stack = `Error: broken\n    at act (${place})\n    at node:internal/timers:1:2`;
    const [first, frame, last] = readableStack(error).split('\n');
    expect([first, last]).toEqual(['Error: broken', '    at node:internal/timers:1:2']);
    expect(frame).toMatch(new RegExp(`^ {4}at act \\(${file}:${lineOf(file, text)}:\\d+\\)$`));
  }
});

test('causes follow, and a file of others stays as it is', () => {
  const cause = new TypeError('inner');
  cause.stack = 'TypeError: inner\n    at x (/elsewhere/main.js:1:5)';
  const error = new Error('outer', { cause });
  error.stack = 'Error: outer';
  expect(readableStack(error)).toBe('Error: outer\ncaused by: TypeError: inner\n    at x (/elsewhere/main.js:1:5)');
});

test('a process that ends by a fault prints a stack in lines of the source, and no built text', () => {
  // Standing in for a bug: a command that prints throws, and so does the timer after it, which nothing catches.
  const preload = "process.stdout.write = () => { setImmediate(() => { throw fault; }); const fault = new Error('no such stream'); };";
  const env = { ...process.env, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}` };
  const ended = spawnSync(process.execPath, [join(ROOT, 'bin', 'signet.js'), '--version'], { env, encoding: 'utf8' });
  expect(ended.status).toBe(1);
  expect(ended.stderr).toContain('Error: no such stream');
  expect(ended.stderr).toMatch(/at .*\(?src\/main\.ts:\d+:\d+/);
  expect(ended.stderr.length).toBeLessThan(4_000);
});

test('maps are found by Node as well', () => {
  const text = "import { readFileSync } from 'node:fs'; import { SourceMap } from 'node:module';";
  const code = `${text} const map = new SourceMap(JSON.parse(readFileSync('dist/main.js.map', 'utf8'))); console.log(map.payload.sources.length > 0)`;
  expect(execFileSync(process.execPath, ['--input-type=module', '-e', code], { cwd: ROOT, encoding: 'utf8' })).toBe('true\n');
});
