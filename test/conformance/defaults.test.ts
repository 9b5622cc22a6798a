import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import { connectHttp } from '../helpers/mcp-connection.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';
import { verifies } from './verifies.ts';

const DEFAULTS = { daemon: 3850, runtime: 7700 };
const TEST_TIMEOUT_MS = 60_000;

let running: SignetProcess | undefined;
const folders: string[] = [];
afterEach(async () => {
  await running?.close();
  running = undefined;
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A process with these variables and no others but its workspace: an empty one counts as not set. */
function start(env: Readonly<Record<string, string>>): Promise<SignetProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'signet-defaults-'));
  folders.push(folder);
  return startSignetProcess({ folder, env: { SIGNET_PORT: '', SIGNET_RUNTIME_PORT: '', ...env } });
}

async function isFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  const server = createServer();
  const free = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, host, () => resolve(true));
  });
  if (free) await new Promise((resolve) => server.close(resolve));
  return free;
}

/** A port that nothing listens on now. */
async function freePort(host: string): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

verifies(
  ['runtime.port.default', 'daemon.port.default', 'mcp.http.address'],
  'a start without any setting listens on 3850 and 7700, and MCP answers below the first',
  async () => {
    if ((await isFree(DEFAULTS.daemon)) && (await isFree(DEFAULTS.runtime))) {
      running = await start({});
      expect(await (await fetch('http://localhost:3850/health')).json()).toMatchObject({ pid: running.process.pid });
      expect(await (await fetch('http://localhost:7700/health')).json()).toMatchObject({ pid: running.process.pid });
      const mcp = await connectHttp('http://localhost:3850');
      expect(await mcp.call('diagnostics')).toMatchObject({ status: 'healthy' });
      await mcp.close();
    } else {
      // Another daemon of this machine has them: the refusal names the port that was wanted.
      await expect(start({})).rejects.toThrow(/port (3850|7700)/);
    }
  },
  TEST_TIMEOUT_MS,
);

verifies(
  ['mcp.env.signet-port', 'mcp.env.signet-host', 'runtime.port.configurable'],
  'SIGNET_HOST, SIGNET_PORT and SIGNET_RUNTIME_PORT move the servers',
  async () => {
    const host = (await isFree(0, '::1')) ? '::1' : '127.0.0.3';
    const [port, runtimePort] = [await freePort(host), await freePort(host)];
    running = await start({ SIGNET_HOST: host, SIGNET_PORT: String(port), SIGNET_RUNTIME_PORT: String(runtimePort) });
    const at = host.includes(':') ? `[${host}]` : host;
    const { pid } = running.process;
    for (const one of [port, runtimePort]) {
      expect(await (await fetch(`http://${at}:${one}/health`)).json()).toMatchObject({ pid });
      await expect(fetch(`http://127.0.0.1:${one}/health`)).rejects.toThrow();
    }
    const mcp = await connectHttp(`http://${at}:${port}`);
    expect(await mcp.call('diagnostics')).toMatchObject({ status: 'healthy' });
    await mcp.close();
  },
  TEST_TIMEOUT_MS,
);
