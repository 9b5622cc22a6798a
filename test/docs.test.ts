import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readCode, readTexts } from '../scripts/architecture/source-files.ts';
import { maskSource } from '../scripts/architecture/source-mask.ts';
import { ENVIRONMENT, environmentNames } from '../scripts/docs/environment.ts';
import { generatedPages } from '../scripts/docs/generated-pages.ts';
import { table } from '../scripts/docs/markdown.ts';
import { typeText } from '../scripts/docs/schema-text.ts';

const ROOT = resolve(import.meta.dirname, '..');
const LINK = /\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)\s]*)?\)/g;
const RUN_SCRIPT = /\bnpm run ([a-z:-]+)/g;

const pages = await generatedPages(ROOT);
const product = [...readCode(ROOT)].filter(([file]) => file.startsWith('src/'));
const prose = [...readTexts(ROOT)].filter(([file]) => file.endsWith('.md'));

test.each([...pages.keys()])('%s is what the sources say now (npm run docs)', (path) => {
  expect(readFileSync(join(ROOT, path), 'utf8')).toBe(pages.get(path));
});

describe('environment variables', () => {
  const read = new Set(product.flatMap(([, text]) => environmentNames(maskSource(text, { keepStrings: true }))));
  const documented = ENVIRONMENT.map(({ name }) => name);

  test('that the program reads are all documented', () => {
    expect([...read].filter((name) => !documented.includes(name))).toEqual([]);
  });

  test('that are documented are all read', () => {
    expect(documented.filter((name) => !read.has(name))).toEqual([]);
  });

  test('are found as members, keys and strings, not as constants', () => {
    const text =
      "import { OPENAI_HOST } from 'x';\nconst OPENAI_URL = OPENAI_HOST;\nenv.SIGNET_ONE; env['SIGNET_TWO']; const { SIGNET_THREE: a } = env; fetch(OPENAI_URL);";
    expect(environmentNames(text)).toEqual(['SIGNET_ONE', 'SIGNET_THREE', 'SIGNET_TWO']);
  });
});

describe('written pages', () => {
  test('link to files that exist', () => {
    const dead = prose.flatMap(([file, text]) =>
      [...text.matchAll(LINK)]
        .map((match) => join(dirname(file), match[1]!))
        .filter((target) => !existsSync(join(ROOT, target)))
        .map((target) => `${file}: ${target}`),
    );
    expect(dead).toEqual([]);
  });

  test('name npm scripts that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const unknown = prose.flatMap(([file, text]) =>
      [...text.matchAll(RUN_SCRIPT)].filter((match) => !(match[1]! in scripts)).map((match) => `${file}: ${match[0]}`),
    );
    expect(unknown).toEqual([]);
  });
});

describe('generated text', () => {
  test.each([
    [{ type: 'integer', minimum: 1, maximum: 16 }, 'integer 1..16'],
    [{ type: 'integer', minimum: 0, maximum: 9_007_199_254_740_991 }, 'integer >= 0'],
    [{ enum: ['full', 'normal'] }, '"full" | "normal"'],
    [{ anyOf: [{ type: 'string', maxLength: 9 }, { type: 'null' }] }, 'string of at most 9 characters | null'],
    [{ type: 'array', items: { type: 'string' }, maxItems: 3 }, 'string[] (at most 3)'],
    [{ type: 'object', additionalProperties: { type: 'number' } }, 'map of number'],
    [{ type: 'object', properties: { a: { type: 'string' }, b: {} }, required: ['a'] }, '{a: string, b?: any}'],
  ])('writes %j as %s', (schema, text) => {
    expect(typeText(schema)).toBe(text);
  });

  test('keeps a table in one piece whatever its cells hold', () => {
    expect(table(['A'], [['x | y\nz']])).toBe('| A |\n|---|\n| x \\| y z |');
  });
});
