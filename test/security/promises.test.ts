import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');
const PAGE = readFileSync(join(ROOT, 'docs/security.md'), 'utf8');
/** A row of the table of promises: what is promised, three modes, and a test: `file: "words of its name"`. */
const ROW = /^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| (test\/[^:|]+): "([^"|]+)" \|$/gm;

const promises = [...PAGE.matchAll(ROW)].map(([, promise, , , , file, name]) => ({ promise: promise!, file: file!, name: name! }));

test('every row of the table of promises names a test', () => {
  const table = PAGE.slice(PAGE.indexOf('## What each mode promises'), PAGE.indexOf('## What it does not promise'));
  const rows = table.split('\n').filter((line) => line.startsWith('|')).length;
  expect(promises.length).toBe(rows - 2);
});

test.each(promises)('$promise: its test exists', ({ file, name }) => {
  expect(existsSync(join(ROOT, file)), file).toBe(true);
  // The first argument of a call: a test, a describe, or one of their tables.
  const literals = [...readFileSync(join(ROOT, file), 'utf8').matchAll(/\(\s*(['"`])((?:(?!\1)[^\n])*)\1\s*,/g)].map(([, , text]) => text!);
  expect(literals.filter((text) => text.includes(name))).not.toEqual([]);
});

test('SECURITY.md begins with the threat model', () => {
  const [, , first] = readFileSync(join(ROOT, 'SECURITY.md'), 'utf8').split('\n');
  expect(first).toMatch(/^\*\*Threat model\.\*\* Trusted: the user who runs Signet/);
});
