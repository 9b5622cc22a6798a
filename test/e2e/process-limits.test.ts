import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readDaemonInfo } from '../../src/store/workspace-lock.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));

let folder: string;
let running: SignetProcess | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signet-limits-'));
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  rmSync(folder, { recursive: true, force: true });
});

function reader(port: number): Socket & { answer: Promise<string> } {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {}); // A refused connection may be reset behind its answer.
  const answer = once(socket, 'data').then(([chunk]) => String(chunk));
  socket.write('GET /events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n');
  return Object.assign(socket, { answer });
}

test.skipIf(process.platform === 'win32')(
  'with 256 descriptors, 300 readers do not end the daemon: those too many are told so',
  async () => {
    running = await startSignetProcess({ folder, limits: { descriptors: 256 } });
    const { port } = new URL(running.runtimeUrl);
    const readers = Array.from({ length: 300 }, () => reader(Number(port)));
    try {
      const heads = await Promise.all(readers.map((each) => each.answer));
      const open = heads.filter((head) => head.startsWith('HTTP/1.1 200'));
      const refused = heads.filter((head) => /^HTTP\/1\.1 503[\s\S]*\r\nretry-after: \d+\r\n/.test(head));
      expect(open.length).toBeGreaterThan(50);
      expect(open.length + refused.length).toBe(300);
      // What needs files still gets them: the process is asked about itself, and a memory is written.
      const status = execFileSync('sh', ['-c', `ls /proc/${running.process.pid}/fd 2>/dev/null | wc -l`]);
      expect(Number(status)).toBeLessThan(200);
    } finally {
      for (const each of readers) each.destroy();
    }
    await expect.poll(async () => (await running!.client.health()).status, { timeout: 10_000 }).toBe('healthy');
    expect(running.process.exitCode).toBeNull();
  },
);

test('a daemon whose lock was deleted takes it back, and keeps a second one out', async () => {
  running = await startSignetProcess({ folder });
  rmSync(join(folder, '.daemon'), { recursive: true });
  await expect.poll(() => readDaemonInfo(folder)?.pid, { timeout: 10_000 }).toBe(running.process.pid);
  const second = spawn(process.execPath, [LAUNCHER, 'start', '--foreground'], {
    env: { PATH: process.env.PATH, SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_RUNTIME_PORT: '0' },
    stdio: 'ignore',
  });
  expect((await once(second, 'exit'))[0]).toBe(1);
  expect((await running.client.health()).status).toBe('healthy');
});

test('a daemon whose lock is another file ends at once with the reason, and leaves the files of the other one alone', async () => {
  running = await startSignetProcess({ folder });
  const other = JSON.stringify({ pid: 1, version: '1', host: '127.0.0.1', port: 1, runtimePort: 2, startedAt: '2026-01-01T00:00:00.000Z' });
  const exited = once(running.process, 'exit');
  // Both in one moment, as a second daemon that starts between two looks of the first.
  execFileSync('sh', ['-c', 'rm .daemon/lock.db; : > .daemon/lock.db'], { cwd: folder });
  writeFileSync(join(folder, '.daemon', 'daemon.json'), other);
  expect((await exited)[0]).toBe(1);
  expect(running.output()).toContain('workspace_locked');
  expect(running.output()).toContain('pid 1');
  expect(readFileSync(join(folder, '.daemon', 'daemon.json'), 'utf8')).toBe(other);
});

test('with the channel of a process manager open, SIGINT ends the daemon at once', async () => {
  const child = spawn(process.execPath, [LAUNCHER, 'start', '--foreground'], {
    env: {
      PATH: process.env.PATH,
      SIGNET_PATH: folder,
      SIGNET_PORT: '0',
      SIGNET_RUNTIME_PORT: '0',
      // As pm2 does: its wrapper listens, which keeps the channel and so the process.
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent('process.on("message",()=>{})')}`,
    },
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  const [message] = await once(child, 'message');
  expect(message).toBe('ready');
  const exited = once(child, 'exit');
  const began = performance.now();
  child.kill('SIGINT');
  expect((await exited)[0]).toBe(0);
  expect(performance.now() - began).toBeLessThan(15_000);
});
