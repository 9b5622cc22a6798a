import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LicensedPackage } from './package-rule.ts';

interface LockEntry {
  readonly dev?: boolean;
}

/** Every installed package that ships at run time, dependencies of dependencies included; those of other platforms are not installed. */
export function shippedPackages(root: string): LicensedPackage[] {
  const lock = readJson(join(root, 'package-lock.json')) as { packages: Record<string, LockEntry> };
  return Object.entries(lock.packages)
    .filter(([path, entry]) => path !== '' && !entry.dev && existsSync(join(root, path, 'package.json')))
    .map(([path]) => ({ name: path.replace(/^.*node_modules\//, ''), license: licenseOf(join(root, path, 'package.json')) }));
}

/** `license` as a string today, as an object or a list in old packages. */
function licenseOf(file: string): string {
  const { license, licenses } = readJson(file) as { license?: unknown; licenses?: unknown };
  const stated = license ?? (Array.isArray(licenses) ? licenses[0] : licenses);
  if (typeof stated === 'string') return stated;
  const type = (stated as { type?: unknown } | undefined)?.type;
  return typeof type === 'string' ? type : '';
}

function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, 'utf8'));
}
