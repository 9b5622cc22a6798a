import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runCli } from '../../src/cli/program.ts';
import { resolveSettings } from '../../src/config.ts';
import { writeDaemonInfo } from '../../src/store/workspace-lock.ts';
import { openFakeRuntime } from './fake-runtime.ts';

// The real command line in a real process; only the daemon it starts is a small one. SIGNET_FAKE chooses how that behaves.
process.exitCode = await runCli(
  {
    version: '9.9.9',
    stdout: process.stdout,
    stderr: process.stderr,
    stdin: process.stdin,
    env: process.env,
    cwd: process.cwd(),
    launcher: fileURLToPath(import.meta.url),
    startDaemon,
    checkStart: async (env) => void resolveSettings(env),
    onInterrupt(handler) {
      process.on('SIGINT', handler);
      return () => process.off('SIGINT', handler);
    },
  },
  process.argv.slice(2),
);

async function startDaemon(env: Readonly<Record<string, string | undefined>>): Promise<void> {
  if (env.SIGNET_FAKE === 'crash') throw new Error('the fake daemon was told to crash');
  const folder = env.SIGNET_PATH!;
  if (env.SIGNET_FAKE === 'mute') return holdMute(folder);
  const runtime = await openFakeRuntime({ port: Number(env.SIGNET_RUNTIME_PORT ?? 0), workspace: folder });
  mkdirSync(join(folder, '.daemon'), { recursive: true });
  const startedAt = new Date().toISOString();
  writeDaemonInfo(folder, { pid: process.pid, version: '9.9.9', host: '127.0.0.1', port: 1, runtimePort: runtime.port, startedAt });
  console.log(JSON.stringify({ level: 30, time: Date.now(), msg: 'fake daemon is up', provider: env.SIGNET_PROVIDER }));
  await new Promise<void>((resolve) => {
    process.on('SIGTERM', () => env.SIGNET_FAKE !== 'stubborn' && resolve());
  });
  rmSync(join(folder, '.daemon', 'daemon.json'), { force: true });
  await runtime.close();
}

/** It says where it is, takes connections and never answers; only a signal ends it. */
async function holdMute(folder: string): Promise<void> {
  const server = createServer(() => {}).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  writeDaemonInfo(folder, { pid: process.pid, version: '9.9.9', host: '127.0.0.1', port: 1, runtimePort: port, startedAt: '' });
  await once(server, 'close');
}
