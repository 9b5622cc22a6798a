import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { generatedPages } from './docs/generated-pages.ts';

const USAGE = `Usage: node scripts/generate-docs.ts [--check]

Writes the pages of docs/ that are made from the contract and the statecharts.
  --check  write nothing; exit 1 and name the pages that are stale
`;

const ROOT = resolve(import.meta.dirname, '..');
const { values } = parseArgs({ options: { check: { type: 'boolean' }, help: { type: 'boolean' } } });

if (values.help) process.stdout.write(USAGE);
else await updatePages(values.check ?? false);

async function updatePages(check: boolean): Promise<void> {
  const pages = [...(await generatedPages(ROOT))];
  const stale = pages.filter(([path, text]) => !existsSync(join(ROOT, path)) || readFileSync(join(ROOT, path), 'utf8') !== text);
  if (check && stale.length > 0) {
    process.stderr.write(`stale: ${stale.map(([path]) => path).join(', ')}; run: npm run docs\n`);
    process.exitCode = 1;
    return;
  }
  for (const [path, text] of stale) {
    mkdirSync(dirname(join(ROOT, path)), { recursive: true });
    writeFileSync(join(ROOT, path), text);
  }
  process.stdout.write(`${stale.length} of ${pages.length} pages were stale\n`);
}
