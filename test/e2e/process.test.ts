import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { verifies } from '../conformance/verifies.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));

/** How long a connection that nothing answers is waited for; unit: milliseconds. */
const CONNECT_TIMEOUT_MS = 2_000;

let folder: string;
let running: SignetProcess | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signet-process-'));
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  rmSync(folder, { recursive: true, force: true });
});

/** Starts a daemon in the foreground that is expected to give up. */
async function refusedStart(env: Record<string, string> = {}): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [LAUNCHER, 'start', '--foreground'], {
    env: { PATH: process.env.PATH, SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_RUNTIME_PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const text = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk) => (text.stdout += chunk));
  child.stderr.on('data', (chunk) => (text.stderr += chunk));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...text };
}

/** Whether a connection to this address is taken. */
async function connects(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port, timeout: CONNECT_TIMEOUT_MS });
  try {
    return await new Promise((resolve) => {
      socket.once('connect', () => resolve(true));
      socket.once('timeout', () => resolve(false));
      socket.once('error', () => resolve(false));
    });
  } finally {
    socket.destroy();
  }
}

/** A process manager restarts what exits with anything but 0, and shows what stands on stderr. */
function expectRefusal(result: Awaited<ReturnType<typeof refusedStart>>, ...words: (string | RegExp)[]): void {
  expect(result.code).toBe(1);
  for (const word of words) expect(result.stderr).toMatch(word);
  // A person is told what to do, not shown our insides.
  expect(result.stderr).not.toMatch(/\n\s+at .*\.ts:\d+/);
}

verifies(
  ['runtime.server.stand-alone', 'runtime.localhost', 'daemon.localhost'],
  'a started daemon says where it listens, and that is on loopback',
  async () => {
    running = await startSignetProcess({ folder });
    await expect.poll(() => running!.output(), { timeout: 10_000 }).toContain('Signet is running.');
    expect(running.output()).toContain(`runtime   ${running.runtimeUrl}`);
    expect(running.output()).toContain(`daemon    ${running.daemonUrl}`);
    expect(new URL(running.runtimeUrl).hostname).toBe('127.0.0.1');
    // The printed name proves nothing: every other address of this machine is tried.
    const others = Object.values(networkInterfaces()).flatMap((list) => (list ?? []).filter(({ internal }) => !internal));
    for (const url of [running.runtimeUrl, running.daemonUrl]) {
      const port = Number(new URL(url).port);
      expect(await connects('127.0.0.1', port)).toBe(true);
      for (const host of ['127.0.0.2', '::1', ...others.map(({ address, scopeid }) => (scopeid ? `${address}%${scopeid}` : address))])
        expect(await connects(host, port), `${host} port ${port}`).toBe(false);
    }
    expect((await running.client.health()).status).toBe('healthy');
    running.process.kill('SIGTERM');
    await once(running.process, 'exit');
    expect([running.process.exitCode, running.process.signalCode]).toEqual([0, null]);
    await expect(running.client.health()).rejects.toMatchObject({ code: 'daemon_unreachable' });
  },
);

test('signet start --role runtime runs the runtime alone, and its sessions use the memory of the daemon elsewhere', async () => {
  running = await startSignetProcess({ folder });
  await running.daemon.call(daemonOperations.remember, { content: 'The harbour master is called Ines.' });
  const beside = join(folder, 'runtime');
  const env = { PATH: process.env.PATH, SIGNET_PATH: beside, SIGNET_DAEMON_URL: running.daemonUrl };
  const signet = (...args: string[]) => execFileSync(process.execPath, [LAUNCHER, ...args], { env, encoding: 'utf8' });
  try {
    expect(signet('start', '--role', 'runtime', '--runtime-port', '0')).toContain(running.daemonUrl);
    expect(JSON.parse(signet('status', '--json'))).toMatchObject({ running: true, daemonUrl: running.daemonUrl, daemonReachable: true });
    expect(signet('chat', '--print', 'recall harbour master')).toContain('Ines');
    // A restart keeps what it is: no daemon with an empty memory of its own.
    expect(signet('restart', '--runtime-port', '0')).toContain(running.daemonUrl);
    expect(JSON.parse(signet('status', '--json'))).toMatchObject({ health: 'healthy', reasons: [], daemonUrl: running.daemonUrl });
    const { sessions } = await running.daemon.call(daemonOperations.listClaims, {});
    expect(sessions).toHaveLength(1);
  } finally {
    signet('stop');
  }
  expect((await running.client.health()).status).toBe('healthy');
});

test('Ctrl-C that arrives twice, as npm hands it on, still ends in order', async () => {
  running = await startSignetProcess({ folder });
  const exited = once(running.process, 'exit');
  // A shell is on time where a busy test would be late: the second one is for a process that is not gone yet.
  execFileSync('sh', ['-c', `kill -INT ${running.process.pid}; sleep 0.005; kill -INT ${running.process.pid}`]);
  await exited;
  expect([running.process.exitCode, running.process.signalCode]).toEqual([0, null]);
  expect(running.output()).toContain('stopped');
});

test('a second daemon on the same workspace refuses and names the first, which is not disturbed', async () => {
  running = await startSignetProcess({ folder });
  const result = await refusedStart();
  expectRefusal(result, `pid ${running.process.pid}`, new URL(running.daemonUrl).port, 'workspace_locked');
  expect((await running.client.health()).status).toBe('healthy');
});

test('a workspace is free again at once after kill -9', async () => {
  running = await startSignetProcess({ folder });
  await running.kill();
  running = await startSignetProcess({ folder });
  expect((await running.client.health()).pid).toBe(running.process.pid);
});

describe('a start gives up with a reason', () => {
  test.each([
    ['SIGNET_PORT', 'SIGNET_PORT'],
    ['SIGNET_RUNTIME_PORT', 'SIGNET_RUNTIME_PORT'],
  ])('when the port of %s is taken', async (variable, hint) => {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const result = await refusedStart({ [variable]: String(port) });
    server.close();
    expectRefusal(result, 'port_taken', String(port), hint);
    // Nothing is left locked: the next start works.
    running = await startSignetProcess({ folder });
    expect((await running.client.health()).status).toBe('healthy');
  });

  test('when the workspace cannot be written', async () => {
    writeFileSync(join(folder, 'file'), '');
    expectRefusal(await refusedStart({ SIGNET_PATH: join(folder, 'file', 'workspace') }), 'workspace_unwritable', join(folder, 'file'));
    writeFileSync(join(folder, 'data'), 'in the way');
    expectRefusal(await refusedStart(), 'workspace_unwritable', join(folder, 'data'));
  });

  test.each(['SIGNET_PORT', 'SIGNET_RUNTIME_PORT'])('when %s is no port', async (variable) => {
    expectRefusal(await refusedStart({ [variable]: '99999' }), variable, '99999', 'config_invalid');
  });

  test('when the default provider is not there', async () => {
    expectRefusal(await refusedStart({ SIGNET_PROVIDER: 'nobody' }), 'SIGNET_PROVIDER', 'nobody', 'demo');
  });
});

describe('a damaged database', () => {
  test.each(['signals.db', 'memory.db'])('%s is refused, kept as it is, and a way out is told', async (name) => {
    running = await startSignetProcess({ folder });
    await running.client.session.create({});
    await running.close();
    running = undefined;
    const file = join(folder, 'data', name);
    const garbage = Buffer.alloc(statSync(file).size, 'garbage ');
    writeFileSync(file, garbage);
    expectRefusal(await refusedStart(), 'storage_corrupt', file, /restore|move|backup|recover/i);
    expect(readFileSync(file).equals(garbage)).toBe(true);
    // What was told works: with the file out of the way the daemon starts anew.
    rmSync(file);
    running = await startSignetProcess({ folder });
    expect((await running.client.health()).status).toBe('healthy');
  });

  test.each(['signals.db', 'memory.db'])('%s that lost its end is refused', async (name) => {
    running = await startSignetProcess({ folder });
    await running.client.session.create({});
    await running.close();
    running = undefined;
    const file = join(folder, 'data', name);
    truncateSync(file, Math.floor(statSync(file).size / 2));
    const size = statSync(file).size;
    expectRefusal(await refusedStart(), 'storage_corrupt', file);
    expect(statSync(file).size).toBe(size);
  });
});

verifies('runtime.config.schema', 'a wrong key in agent.yaml is refused with file, line, column and the key that was meant', async () => {
  writeFileSync(join(folder, 'agent.yaml'), 'daemon:\n  logLevel: info\nruntime:\n  limits:\n    turnTimeoutMS: 5000\n');
  expectRefusal(await refusedStart(), 'agent.yaml:5:5', 'turnTimeoutMS', 'turnTimeoutMs');
  writeFileSync(join(folder, 'agent.yaml'), 'runtime:\n  limits:\n    roundsMax: many\n');
  expectRefusal(await refusedStart(), 'agent.yaml:3:5', 'roundsMax');
  writeFileSync(join(folder, 'agent.yaml'), 'runtime: [\n');
  expectRefusal(await refusedStart(), /agent\.yaml:[12]:\d+/);
});

test('a daemon at rest gives memory back, and goes on answering', async () => {
  running = await startSignetProcess({ folder, env: { SIGNET_LOG_LEVEL: 'debug' } });
  await expect.poll(() => running!.output(), { timeout: 30_000 }).toContain('memory was given back');
  expect((await running.client.health()).status).toBe('healthy');
});
