import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

// Compares the Node that npm installs beside the package with the archive that the Node project publishes.
// Ends with 0 and "same", with 1 and "DIFFERENT", or with 2 and "not checked" and why.

const ROOT = resolve(import.meta.dirname, '..');
const TIMEOUT_MS = 120_000;
const name = process.argv[2] ?? `node-${process.platform}-${process.arch}`;
const binary = join(ROOT, 'node_modules', name, 'bin', 'node');

process.exitCode = await check();

async function check() {
  if (!existsSync(binary)) return say(2, `${name}: not checked (it is not installed)`);
  const { version } = JSON.parse(readFileSync(join(ROOT, 'node_modules', name, 'package.json'), 'utf8'));
  const base = `https://nodejs.org/dist/v${version}`;
  const archive = `node-v${version}-${name.replace('node-', '')}.tar.gz`;
  const folder = mkdtempSync(join(tmpdir(), 'signet-check-node-'));
  try {
    const sums = String(await download(`${base}/SHASUMS256.txt`));
    const expected = new RegExp(`^([0-9a-f]{64})  ${archive.replaceAll('.', '\\.')}$`, 'm').exec(sums)?.[1];
    const bytes = await download(`${base}/${archive}`);
    if (expected === undefined || sumOf(bytes) !== expected)
      return say(1, `${name} ${version}: DIFFERENT, the archive does not have its published sum`);
    writeFileSync(join(folder, archive), bytes);
    execFileSync('tar', ['-xzf', archive, '--strip-components=2', `${archive.replace('.tar.gz', '')}/bin/node`], { cwd: folder });
    const [published, installed] = [join(folder, 'node'), binary].map((path) => sumOf(readFileSync(path)));
    if (published === installed) return say(0, `${name} ${version}: same as the published one, sha256 ${installed}`);
    return say(1, `${name} ${version}: DIFFERENT, published ${published}, installed ${installed}`);
  } catch (error) {
    return say(
      2,
      `${name} ${version}: not checked (${error.cause?.code ?? error.message}); installed sha256 ${sumOf(readFileSync(binary))}`,
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function download(url) {
  const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  return Buffer.from(await response.arrayBuffer());
}

function sumOf(bytes) {
  return createHash('sha256').update(bytes).digest('hex');
}

function say(code, text) {
  console.info(text);
  return code;
}
