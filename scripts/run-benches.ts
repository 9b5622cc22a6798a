import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** One benchmark may take this long; unit: milliseconds. */
const BENCH_TIMEOUT_MS = 600_000;
const FOLDER = resolve(import.meta.dirname, '..', 'bench');

// Usage: npm run bench [-- part-of-a-name ...]. Each file of bench/ is a program that prints its figures; exits 1 when one fails.
const wanted = process.argv.slice(2);
const files = (existsSync(FOLDER) ? readdirSync(FOLDER) : [])
  .filter((name) => name.endsWith('.ts') && (wanted.length === 0 || wanted.some((part) => name.includes(part))))
  .sort();

if (files.length === 0) process.stdout.write(`no benchmark in ${FOLDER} has such a name\n`);
for (const name of files) {
  process.stdout.write(`\n${name}\n`);
  const { status, error } = spawnSync(process.execPath, [join(FOLDER, name)], { stdio: 'inherit', timeout: BENCH_TIMEOUT_MS });
  if (status === 0) continue;
  process.stderr.write(`${name} failed: ${error?.message ?? `exit code ${status}`}\n`);
  process.exitCode = 1;
}
