import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { checkCycles, importsOf } from '../scripts/architecture/import-scan.ts';
import { shippedPackages } from '../scripts/architecture/installed-packages.ts';
import { checkLayers } from '../scripts/architecture/layer-rule.ts';
import { checkLengths, functionsOf } from '../scripts/architecture/length-rule.ts';
import { checkMachines } from '../scripts/architecture/machine-rule.ts';
import { checkLicences, checkPackages } from '../scripts/architecture/package-rule.ts';
import { readCode, readTexts } from '../scripts/architecture/source-files.ts';
import { maskSource } from '../scripts/architecture/source-mask.ts';
import { checkDefaultExports, checkFileNames, checkMachinePaths, checkOpenMarks } from '../scripts/architecture/style-rule.ts';

const ROOT = resolve(import.meta.dirname, '..');
const code = readCode(ROOT);
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

/** Sources made up for a test: each file with its lines. */
const files = (texts: Record<string, string>) => new Map(Object.entries(texts));
const lines = (count: number, line = 'work();') => Array(count).fill(line).join('\n');

describe('the project', () => {
  test('is read: the contract is among the sources', () => {
    expect([...code.keys()]).toContain('src/contract/errors.ts');
  });

  test('imports point to lower layers only', () => {
    expect(checkLayers(code)).toEqual([]);
  });

  test('has no import cycles', () => {
    expect(checkCycles(code)).toEqual([]);
  });

  test('imports every package from its home folder only', () => {
    expect(checkPackages(code, manifest)).toEqual([]);
  });

  test('exports by name', () => {
    expect(checkDefaultExports(code)).toEqual([]);
  });

  test('names files after what they hold', () => {
    expect(checkFileNames(code)).toEqual([]);
  });

  test('keeps files and functions short, or says why not', () => {
    expect(checkLengths(code)).toEqual([]);
  });

  test('leaves no open marks in the code', () => {
    expect(checkOpenMarks(code)).toEqual([]);
  });

  test('names no path of one machine in any file', () => {
    expect(checkMachinePaths(readTexts(ROOT))).toEqual([]);
  });

  test('keeps its statecharts pure', () => {
    expect(checkMachines(code)).toEqual([]);
  });

  test('ships packages under permissive licences only', () => {
    const shipped = shippedPackages(ROOT);
    expect(shipped.map(({ name }) => name)).toContain('fastify');
    expect(checkLicences(shipped)).toEqual([]);
  });
});

describe('layers', () => {
  test.each([
    ['a lower layer that imports a higher one', 'src/core/a.ts', '../http/b.ts'],
    ['two folders of one layer', 'src/store/a.ts', '../providers/b.ts'],
    ['core that imports a machine', 'src/core/a.ts', '../../machines/b.ts'],
    ['a folder that is in no layer', 'src/extra/a.ts', '../contract/b.ts'],
    ['an app that imports composition', 'src/daemon/a.ts', '../compose.ts'],
    ['the product that imports a test', 'src/core/a.ts', '../../test/helpers/b.ts'],
    ['an example that reaches into the product', 'examples/a.ts', '../src/store/b.ts'],
  ])('refuse %s', (_, file, specifier) => {
    expect(checkLayers(files({ [file]: `import type { B } from '${specifier}';` }))).toHaveLength(1);
  });

  test('allow lower layers and the own folder', () => {
    const text = "import { a } from '../contract/a.ts';\nimport { b } from './b.ts';\nimport { c } from '../../machines/c.ts';";
    expect(checkLayers(files({ 'src/runtime/a.ts': text }))).toEqual([]);
  });

  test('say file, line and the two layers', () => {
    expect(checkLayers(files({ 'src/contract/a.ts': "\nexport * from '../core/b.ts';" }))).toEqual([
      'src/contract/a.ts:2 imports src/core/b.ts: layer 0 (src/contract) may import lower layers only, and this is layer 1 (src/core)',
    ]);
  });
});

describe('imports', () => {
  test('are found in every form, over several lines, with their line', () => {
    const text =
      "import 'a';\nimport {\n  b,\n} from 'b';\nexport * from \"c\";\nexport type { D } from 'd';\nconst e = await import('e');\ntype F = import('f').F;";
    expect(importsOf(text).map(({ specifier, line, typeOnly }) => [specifier, line, typeOnly])).toEqual([
      ['a', 1, false],
      ['b', 2, false],
      ['c', 5, false],
      ['d', 6, true],
      ['e', 7, false],
      ['f', 8, false],
    ]);
  });

  test('are not found in comments, strings and templates', () => {
    const text =
      "// import 'a';\n/* import 'b'; */\nconst c = \"import 'c';\";\nconst d = `\nimport 'd';\n${1}\nimport 'e';`;\nexport const f = 'g';";
    expect(importsOf(text)).toEqual([]);
  });

  test('in a circle are told once, as the way round', () => {
    const circle = files({
      'src/core/a.ts': "import './b.ts';",
      'src/core/b.ts': "import type { C } from './c.ts';",
      'src/core/c.ts': "import './a.ts';",
      'src/core/d.ts': "import './a.ts';",
    });
    expect(checkCycles(circle)).toEqual(['import cycle: src/core/a.ts -> src/core/b.ts -> src/core/c.ts -> src/core/a.ts']);
  });
});

describe('packages', () => {
  const own = { dependencies: { fastify: '5' }, devDependencies: { vitest: '5', '@types/ws': '8' } };

  test.each([
    ['a package away from home', 'src/core/a.ts', "import fastify from 'fastify';"],
    ['a home by its sub-path', 'src/runtime/a.ts', "import { Client } from '@modelcontextprotocol/sdk/client/index.js';"],
    ['node:sqlite outside of the store', 'src/daemon/a.ts', "import { DatabaseSync } from 'node:sqlite';"],
    ['a package without a home', 'src/core/a.ts', "import lodash from 'lodash';"],
    ['a test tool in the product', 'src/core/a.ts', "import { test } from 'vitest';"],
    ['a package that is not declared', 'test/a.test.ts', "import { x } from 'left-pad';"],
    ['more than types of a package that only lends types', 'src/http/a.ts', "import { WebSocket } from 'ws';"],
  ])('refuse %s', (_name, file, text) => {
    expect(checkPackages(files({ [file]: text }), own)).toHaveLength(1);
  });

  test('allow packages at home, node built-ins, declared ones in tests and lent types', () => {
    const good = files({
      'src/http/a.ts': "import fastify from 'fastify';\nimport type { WebSocket } from 'ws';\nimport { join } from 'node:path';",
      'test/a.test.ts': "import { test } from 'vitest';\nimport type { WebSocket } from 'ws';\nimport { DatabaseSync } from 'node:sqlite';",
    });
    expect(checkPackages(good, own)).toEqual([]);
  });

  test('refuse a new dependency that has no home', () => {
    expect(checkPackages(files({}), { dependencies: { lodash: '4' } })).toEqual([
      'package.json: the dependency lodash has no home; give it one in scripts/architecture/package-rule.ts',
    ]);
  });

  test.each(['AGPL-3.0-only', 'GPL-3.0', 'SSPL-1.0', 'MIT AND GPL-2.0', ''])('refuse the licence "%s"', (license) => {
    expect(checkLicences([{ name: 'guest', license }])).toHaveLength(1);
  });

  test.each(['MIT', '(MIT OR GPL-3.0)', 'BSD-3-Clause AND MIT'])('accept the licence "%s"', (license) => {
    expect(checkLicences([{ name: 'guest', license }])).toEqual([]);
  });
});

describe('style', () => {
  test('refuses a default export, except in a configuration file', () => {
    const bad = files({
      'src/core/a.ts': 'export default 1;',
      'src/core/b.ts': 'export { a as default };',
      'scripts/vitest.config.ts': 'export default {};',
    });
    expect(checkDefaultExports(bad)).toEqual([
      'src/core/a.ts:1 has a default export; name it',
      'src/core/b.ts:1 has a default export; name it',
    ]);
  });

  test.each([
    'src/core/utils.ts',
    'src/http/helpers/a.ts',
    'src/core/types.ts',
    'src/core/index.ts',
    'machines/common.ts',
    'src/core/signalLog.ts',
  ])('refuses the file name %s', (file) => {
    expect(checkFileNames(files({ [file]: '' }))).toHaveLength(1);
  });

  test('accepts names that say something, and the public entry', () => {
    expect(
      checkFileNames(
        files({ 'src/index.ts': '', 'machines/session.machine.ts': '', 'src/core/signal-log.ts': '', 'test/helpers/clock.ts': '' }),
      ),
    ).toEqual([]);
  });

  test.each(['TO', 'FIX'])('refuses the open mark that begins with %s', (start) => {
    expect(checkOpenMarks(files({ 'src/core/a.ts': `// ${start}${start === 'TO' ? 'DO' : 'ME'}: later` }))).toHaveLength(1);
  });

  test.each([
    ['', 'work', 'main', 'a'],
    ['', 'home', 'someone', 'a'],
    ['', 'root', '.config'],
    ['..', 'shared', 'a'],
  ])('refuses the path /%s/%s of one machine', (...parts) => {
    expect(checkMachinePaths(files({ 'docs/a.md': `See ${parts.join('/')}.` }))).toHaveLength(1);
  });

  test('accepts routes and paths below the home folder', () => {
    expect(checkMachinePaths(files({ 'docs/a.md': 'GET /api/work/main, ~/.agents, src/root/a.ts, /rooted' }))).toEqual([]);
  });
});

describe('lengths', () => {
  test('refuse a file of 451 lines, and take it with a reason', () => {
    expect(checkLengths(files({ 'src/core/a.ts': `${lines(451)}\n` }))).toEqual([
      'src/core/a.ts has 451 lines, more than 450; split it, or say why at its top: // long: reason',
    ]);
    expect(checkLengths(files({ 'src/core/a.ts': `// long: one table, read from top to bottom\n${lines(450)}\n` }))).toEqual([]);
    expect(checkLengths(files({ 'src/core/a.ts': `${lines(450)}\n` }))).toEqual([]);
  });

  test.each([
    ['function', 'export async function run<T>(a: T): Promise<{ b: T }> {', '}'],
    ['function with a long head', 'function run(\n  a: string,\n): void {', '}'],
    ['arrow function', 'const run = (a: string) => {', '};'],
    ['callback', "  it.on('close', async () => {", '  });'],
    ['method', '  async #run(a: string): Promise<void> {', '  }'],
    ['method with a long head', '  run(\n    a: string,\n  ): void {', '  }'],
  ])('refuse a %s of 101 lines, and take it with a reason above or one line less', (_name, head, end) => {
    const text = (count: number, above = '') =>
      files({ 'src/core/a.ts': `${above}\n${head}\n${lines(count - head.split('\n').length - 1)}\n${end}\n` });
    expect(checkLengths(text(101))).toEqual(['src/core/a.ts:2 is a function of 101 lines, more than 100']);
    expect(checkLengths(text(101, '// long: a list of routes reads better in one piece'))).toEqual([]);
    expect(checkLengths(text(100))).toEqual([]);
  });

  test.each([
    ['suite of tests', "describe('all', () => {", '});'],
    ['class', 'class Queue extends Base {', '}'],
    ['table', 'export const TABLE = {', '};'],
    ['call with an object', 'expect(run(1)).toEqual({', '});'],
    ['branch', 'if (a) {', '}'],
  ])('do not count a %s', (_name, head, end) => {
    expect(checkLengths(files({ 'test/a.test.ts': `${head}\n${lines(80)}\n${end}\n` }))).toEqual([]);
  });

  test('are not misled by braces in strings, templates, comments and regular expressions', () => {
    const text =
      'function run() {\n  const a = \'}\' + `}${`{${1}`}` + "{"; // }\n  return /[}/]\\}/.test(a) ? 1 / 2 : 3 / 4; /* } */\n}\nwork();\n';
    expect(functionsOf(text)).toEqual([{ start: 1, end: 4 }]);
  });
});

describe('machines', () => {
  test.each([
    ['an invoke', 'const a = { invoke: { src: 1 } };'],
    ['a timer', 'const a = { after: { 100: 1 } };'],
    ['the clock', 'const a = () => Date.now();'],
    ['the clock by another way', 'const a = () => new Date();'],
    ['the clock under another name', 'const a = Date;'],
    ['chance', 'const a = () => Math.random();'],
    ['a promise actor', 'const a = fromPromise(run);'],
    ['a module of node', "import { hash } from 'node:crypto';"],
  ])('refuse %s', (_name, text) => {
    expect(checkMachines(files({ 'machines/a.machine.ts': text }))).toHaveLength(1);
    expect(checkMachines(files({ 'src/core/a.ts': text }))).toEqual([]);
  });

  test('may speak of these things', () => {
    const text =
      "// invoke: and after: are never used; Date neither\nconst a = 'Math.random()';\nconst b = { 'turn:after': 1 };\nconst c = new Date(ms).toISOString();";
    expect(checkMachines(files({ 'machines/a.machine.ts': text }))).toEqual([]);
  });
});

test('masked source keeps every position', () => {
  const text = "const a = 'b\\'{';\nconst c = `d${e + `f`}g`; // h\n";
  expect(maskSource(text)).toBe("const a = '    ';\nconst c =     e +       ;     \n");
});
