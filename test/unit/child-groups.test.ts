import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { silentLogger } from '../../src/core/logger.ts';
import { openChildGroups } from '../../src/store/child-groups.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';

const STUBBORN = "process.on('SIGTERM', () => {}); process.stdout.write('here'); setInterval(() => {}, 1000)";
/** Starts one like itself in the same group, and ends. */
const LEAVES_CHILD = `const { spawn } = require('node:child_process'); const child = spawn(process.execPath, ['-e', ${JSON.stringify(STUBBORN)}], { stdio: ['ignore', 'pipe', 'ignore'] }); child.stdout.once('data', () => process.stdout.write(String(child.pid), () => process.exit()))`;

function workspace(): string {
  const folder = tempFolder();
  mkdirSync(join(folder, '.daemon'), { recursive: true });
  return folder;
}

async function startGroup(folder: string, script: string): Promise<{ child: ChildProcess; said: string }> {
  const groups = openChildGroups(folder, silentLogger);
  const env = { ...process.env, ...groups.environment };
  const child = spawn(process.execPath, ['-e', script], { detached: true, stdio: ['ignore', 'pipe', 'ignore'], env });
  onTestFinished(() => {
    try {
      process.kill(-child.pid!, 'SIGKILL');
    } catch {
      // Ended already, as most of them should be.
    }
  });
  groups.add(child.pid!, 'MCP server lab');
  const [said] = await once(child.stdout!, 'data');
  return { child, said: String(said) };
}

function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

test.runIf(process.platform === 'linux')('a process that an earlier daemon left is ended, also one that ignores SIGTERM', async () => {
  const folder = workspace();
  const { child } = await startGroup(folder, STUBBORN);
  const exited = once(child, 'exit');

  expect(await openChildGroups(folder, silentLogger).endLeftovers()).toBe(1);
  expect((await exited)[1]).toBe('SIGKILL');
});

test.runIf(process.platform === 'linux')('a grandchild is ended though the process that started it has gone', async () => {
  const folder = workspace();
  const { child, said } = await startGroup(folder, LEAVES_CHILD);
  if (child.exitCode === null) await once(child, 'exit');
  expect(isAlive(Number(said))).toBe(true);

  expect(await openChildGroups(folder, silentLogger).endLeftovers()).toBe(1);
  expect(isAlive(Number(said))).toBe(false);
});

test.runIf(process.platform === 'linux')('a process that has got the number of one that was noted is left alone', async () => {
  const folder = workspace();
  const { child } = await startGroup(folder, STUBBORN);
  const path = join(folder, '.daemon', 'children.json');
  const note = JSON.parse(readFileSync(path, 'utf8'));
  const change = (change: object) => writeFileSync(path, JSON.stringify({ ...note, ...change }));

  change({ groups: [{ ...note.groups[0], startedAt: '1' }] });
  expect(await openChildGroups(folder, silentLogger).endLeftovers()).toBe(0);
  change({ boot: 'another boot' });
  expect(await openChildGroups(folder, silentLogger).endLeftovers()).toBe(0);
  writeFileSync(path, 'no note');
  expect(await openChildGroups(folder, silentLogger).endLeftovers()).toBe(0);
  expect(isAlive(child.pid!)).toBe(true);
});

test.runIf(process.platform === 'linux')('one that has ended in order is not noted any more', async () => {
  const folder = workspace();
  const groups = openChildGroups(folder, silentLogger);
  groups.add(process.pid, 'this one');
  groups.remove(process.pid);
  expect(JSON.parse(readFileSync(join(folder, '.daemon', 'children.json'), 'utf8')).groups).toEqual([]);
});
