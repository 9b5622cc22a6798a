import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { thirdPartyText } from './supply-chain.mjs';

// Writes THIRD-PARTY.md from dist/packages.json, which the build leaves.

const ROOT = resolve(import.meta.dirname, '..');
const packages = JSON.parse(readFileSync(join(ROOT, 'dist/packages.json'), 'utf8'));
writeFileSync(join(ROOT, 'THIRD-PARTY.md'), thirdPartyText(ROOT, packages));
console.info(`THIRD-PARTY.md: ${packages.length} packages`);
