import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type DaemonInfo, lockWorkspace, makeFolder, readDaemonInfo, writeDaemonInfo } from '../../src/store/workspace-lock.ts';

const MODULE = new URL('../../src/store/workspace-lock.ts', import.meta.url).href;
const HOLDER = `
  import { lockWorkspace } from ${JSON.stringify(MODULE)};
  const info = { pid: process.pid, version: '1.0.0', host: '127.0.0.1', port: 3850, runtimePort: 7700, startedAt: '2026-01-01T00:00:00.000Z' };
  const lock = lockWorkspace(process.argv[1], info);
  process.on('message', () => { lock.release(); process.exit(0); });
  process.send('locked');
`;

const mine: DaemonInfo = {
  pid: process.pid,
  version: '1.0.0',
  host: '127.0.0.1',
  port: null,
  runtimePort: null,
  startedAt: '2026-01-02T00:00:00.000Z',
};

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'workspace-lock-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function startHolder(folder: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', HOLDER, folder], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  expect(await once(child, 'message')).toEqual(['locked', undefined]);
  return child;
}

test('a second process is refused with the pid and port of the first, and may start once that has released', async () => {
  const folder = temporaryFolder();
  const holder = await startHolder(folder);

  expect(() => lockWorkspace(folder, mine)).toThrow(
    expect.objectContaining({
      code: 'workspace_locked',
      detail: `another daemon runs on ${folder} (pid ${holder.pid}, port 3850); stop it first, or use another workspace folder`,
      extra: { pid: holder.pid, port: 3850 },
    }),
  );
  expect(readDaemonInfo(folder)?.pid).toBe(holder.pid);
  holder.send('release');
  expect(await once(holder, 'exit')).toEqual([0, null]);
  expect(readDaemonInfo(folder)).toBeNull();

  const lock = lockWorkspace(folder, mine);
  expect(readDaemonInfo(folder)).toEqual(mine);
  lock.release();
});

test('a process killed with -9 leaves the workspace free, and its info is replaced', async () => {
  const folder = temporaryFolder();
  const holder = await startHolder(folder);
  holder.kill('SIGKILL');
  await once(holder, 'exit');
  expect(readDaemonInfo(folder)?.pid).toBe(holder.pid);

  const lock = lockWorkspace(folder, mine);

  expect(readDaemonInfo(folder)?.pid).toBe(process.pid);
  lock.release();
});

test('a stopped process still holds the workspace', async () => {
  const folder = temporaryFolder();
  const holder = await startHolder(folder);
  holder.kill('SIGSTOP');

  expect(() => lockWorkspace(folder, mine)).toThrow(expect.objectContaining({ code: 'workspace_locked' }));
  expect(readDaemonInfo(folder)?.pid).toBe(holder.pid);
});

test('one process cannot hold a workspace twice; releasing twice is harmless and frees nobody else', () => {
  const folder = temporaryFolder();
  const first = lockWorkspace(folder, mine);
  expect(() => lockWorkspace(folder, mine)).toThrow('still starting');
  first.release();
  const second = lockWorkspace(folder, mine);
  first.release();

  expect(readDaemonInfo(folder)).toEqual(mine);
  expect(() => lockWorkspace(folder, mine)).toThrow(expect.objectContaining({ code: 'workspace_locked' }));
  second.release();
  expect(existsSync(join(folder, '.daemon', 'daemon.json'))).toBe(false);
});

test('the ports are written in one step, only for the owner, and leave no other file', () => {
  const folder = temporaryFolder();
  const lock = lockWorkspace(folder, mine);
  writeDaemonInfo(folder, { ...mine, port: 3850, runtimePort: 7700 });

  expect(readDaemonInfo(folder)).toEqual({ ...mine, port: 3850, runtimePort: 7700 });
  expect(statSync(join(folder, '.daemon', 'daemon.json')).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(folder, '.daemon')).sort()).toEqual(['.gitignore', 'daemon.json', 'lock.db']);
  lock.release();
});

test('info that is absent, broken or of another shape reads as none', () => {
  const folder = temporaryFolder();
  expect(readDaemonInfo(folder)).toBeNull();
  lockWorkspace(folder, mine).release();
  for (const text of ['', '{"pid":', 'null', '[]', '{"pid":"1"}', JSON.stringify({ ...mine, port: '3850' })]) {
    writeFileSync(join(folder, '.daemon', 'daemon.json'), text);
    expect(readDaemonInfo(folder)).toBeNull();
  }
});

test('a folder that cannot be written and a damaged lock file are refused by name', () => {
  const folder = temporaryFolder();
  const file = join(folder, 'file');
  writeFileSync(file, '');
  expect(() => lockWorkspace(file, mine)).toThrow(
    expect.objectContaining({ code: 'workspace_unwritable', detail: expect.stringContaining(file) }),
  );

  lockWorkspace(folder, mine).release();
  const path = join(folder, '.daemon', 'lock.db');
  writeFileSync(path, 'not a database '.repeat(100));
  expect(() => lockWorkspace(folder, mine)).toThrow(
    expect.objectContaining({ code: 'storage_corrupt', detail: expect.stringContaining(path) }),
  );
});

test('missing folders are made for their owner alone, and those that exist are left as they are', () => {
  const folder = temporaryFolder();
  makeFolder(join(folder, 'a', 'b'));
  makeFolder(join(folder, 'a', 'b'));
  expect([join(folder, 'a'), join(folder, 'a', 'b')].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o700]);
});

// In a process of its own: what hangs here blocks the thread.
test.runIf(process.platform === 'linux')('a workspace in /proc is refused, not tried for ever', async () => {
  const script = `import { lockWorkspace } from ${JSON.stringify(MODULE)};
    try { lockWorkspace('/proc/x', {}); } catch (error) { process.send([error.code, error.detail]); }`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [[code, detail]] = await once(child, 'message');
  expect([code, detail]).toEqual(['workspace_unwritable', expect.stringContaining('/proc/x')]);
});

test.runIf(process.geteuid?.() === 0)(
  'a folder that another user left in a shared folder is no workspace; a volume of another user is (as root)',
  () => {
    const shared = temporaryFolder();
    const folder = join(shared, 'planted', 'agents');
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'agent.yaml'), 'runtime: { mcpServers: { evil: { command: /bin/sh } } }');
    chownSync(join(shared, 'planted'), 65_534, 65_534);
    const lock = lockWorkspace(folder, mine);
    lock.release();

    chmodSync(shared, 0o1777);
    expect(() => lockWorkspace(folder, mine)).toThrow(
      expect.objectContaining({ code: 'workspace_unwritable', detail: expect.stringContaining('belongs to another user (uid 65534)') }),
    );
  },
);
