import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDaemon } from '../bench/rig/child-process.ts';

const PACKAGE = '@modelcontextprotocol/conformance@0.1.16';
/** Those that ask for what this server has; the others call tools, prompts and resources of a server made for the suite. */
const SCENARIOS = [
  'server-initialize',
  'ping',
  'tools-list',
  'resources-list',
  'resources-subscribe',
  'resources-unsubscribe',
  'dns-rebinding-protection',
];
/** One scenario may take this long, the download of the suite included; unit: milliseconds. */
const SCENARIO_TIMEOUT_MS = 180_000;

// Usage: node scripts/build.mjs --if-stale && node scripts/mcp-conformance.ts [scenario ...]
// Runs the public conformance suite of MCP, by npx from a temporary folder, against the built daemon. Exits with 1 when a scenario fails.
const folder = mkdtempSync(join(tmpdir(), 'signet-conformance-'));
const workspace = join(folder, 'workspace');
const daemon = await startDaemon({ folder: workspace });
// Resources to be listed.
writeFileSync(join(workspace, 'SOUL.md'), 'Calm and exact.\n');
const { port } = JSON.parse(readFileSync(join(workspace, '.daemon', 'daemon.json'), 'utf8')) as { port: number };
const wanted = process.argv.slice(2);
let failed = 0;
for (const scenario of wanted.length > 0 ? wanted : SCENARIOS) {
  const args = ['--yes', PACKAGE, 'server', '--url', `http://127.0.0.1:${port}/mcp`, '--scenario', scenario];
  const child = spawn('npx', args, { cwd: folder, stdio: 'inherit', timeout: SCENARIO_TIMEOUT_MS });
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) failed += 1;
}
await daemon.close();
rmSync(folder, { recursive: true, force: true });
process.stdout.write(failed === 0 ? '\nall scenarios passed\n' : `\n${failed} scenarios failed\n`);
process.exitCode = failed === 0 ? 0 : 1;
