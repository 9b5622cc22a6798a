import { readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { LICENCES, sbomText, thirdPartyText } from '../../scripts/supply-chain.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const DEPENDENCIES_MAX = 12;
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const json = (path: string) => JSON.parse(read(path));
const { dependencies, devDependencies } = json('package.json');
const packages = json('dist/packages.json');

test('run-time dependencies are few, and each has a reason', () => {
  const names = Object.keys(dependencies);
  expect(names.length).toBeLessThanOrEqual(DEPENDENCIES_MAX);
  const reasons = [...read('docs/dependencies.md').matchAll(/^\| `([^`]+)` \| (.{10,}) \|/gm)].map(([, name]) => name!);
  const bundled = packages.map(({ name }: { name: string }) => name);
  const needed = [...names, ...Object.keys(devDependencies).filter((name) => bundled.includes(name))].sort();
  expect([...new Set(reasons)].sort()).toEqual(needed);
});

test('dist/ imports nothing but Node itself: it runs without node_modules', () => {
  const chunks = readdirSync(join(ROOT, 'dist')).filter((name) => name.endsWith('.js'));
  expect(chunks.length).toBeGreaterThan(3);
  const outside = chunks.flatMap((name) =>
    [...read(`dist/${name}`).matchAll(/(?:^|[;}])(?:import|export)\b[^;"'`()]*?["']([^"'\n]+)["']|\bimport\(["'`]([^"'`\n]+)["'`]\)/g)]
      .map(([, fixed, late]) => (fixed ?? late)!)
      .filter((specifier) => !/^\.{1,2}\//.test(specifier) && !builtinModules.includes(specifier.replace(/^node:/, '').split('/')[0]!))
      .filter((specifier) => !specifier.startsWith('node:'))
      .map((specifier) => `${name}: ${specifier}`),
  );
  expect(outside).toEqual([]);
});

test('the bill of materials names every bundled package with its hash, and is the same each time', () => {
  const sbom = json('dist/sbom.cdx.json');
  expect(read('dist/sbom.cdx.json')).toBe(sbomText(ROOT, packages));
  expect(sbom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6' });
  expect(sbom.components.length).toBeGreaterThan(50);
  for (const { name, version, purl, hashes } of sbom.components) {
    expect(purl).toBe(`pkg:npm/${name.replace('@', '%40')}@${version}`);
    expect(hashes[0]).toMatchObject({ alg: 'SHA-512', content: expect.stringMatching(/^[0-9a-f]{128}$/) });
  }
  expect(new Set(sbom.components.map((component: { purl: string }) => component.purl)).size).toBe(sbom.components.length);
});

test('THIRD-PARTY.md is what the bundle holds now (npm run third-party), under licences that allow it', () => {
  expect(read('THIRD-PARTY.md')).toBe(thirdPartyText(ROOT, packages));
  const others = packages.filter(({ license }: { license: string }) => !LICENCES.includes(license));
  expect(others).toEqual([]);
});

test('no package runs a script when it is installed: npm ci --ignore-scripts is enough', () => {
  const entries = Object.entries(json('package-lock.json').packages as Record<string, { hasInstallScript?: boolean }>);
  expect(entries.filter(([, entry]) => entry.hasInstallScript).map(([path]) => path)).toEqual([]);
  const { scripts } = json('package.json');
  for (const name of ['preinstall', 'install', 'postinstall', 'prepare']) expect(scripts).not.toHaveProperty(name);
});
