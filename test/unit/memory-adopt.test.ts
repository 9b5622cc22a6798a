import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import { verifies } from '../conformance/verifies.ts';
import { startDaemon, tempFolder } from '../helpers/daemon-fixture.ts';
import { writeExistingDatabase } from '../helpers/existing-database.ts';

const OLD = { created_at: '2025-01-02T03:04:05.000Z', updated_at: '2025-01-03T00:00:00.000Z' };
const memories = [
  {
    id: 'm1',
    content: 'Nicholai prefers bun over npm',
    type: 'preference',
    importance: 0.8,
    tags: 'tools,js',
    pinned: 1,
    who: 'claude-code',
    ...OLD,
  },
  { id: 'm2', content: 'The old office was in Berlin', is_deleted: 1, deleted_at: '2025-03-01T00:00:00.000Z', version: 2, ...OLD },
  { id: 'm3', content: 'Summary of a session', type: 'session_summary', tags: '["session","summary"]', project: '/p', ...OLD },
  { id: 'm4', content: 'nicholai prefers Bun over npm.', who: null, created_at: '2025-01-05 10:00:00', updated_at: '2025-01-05 10:00:00' },
  { id: 'm5', content: ' ', ...OLD },
];
const history = [
  {
    id: 'h1',
    memory_id: 'm1',
    event: 'created',
    new_content: 'Nicholai likes bun',
    changed_by: 'daemon',
    created_at: '2025-01-02T03:04:05.000Z',
  },
  {
    ...{ id: 'h2', memory_id: 'm1', event: 'updated', old_content: 'Nicholai likes bun', new_content: 'Nicholai prefers bun over npm' },
    ...{ changed_by: 'operator', reason: 'more exact', created_at: '2025-01-03T00:00:00.000Z' },
  },
];

function digest(folder: string): string[] {
  return readdirSync(folder)
    .sort()
    .map(
      (name) =>
        `${name} ${createHash('sha256')
          .update(readFileSync(join(folder, name)))
          .digest('hex')}`,
    );
}

verifies(
  ['agents.upgrade.existing-memories', 'agents.schema.upgrade'],
  'the memories of an existing daemon are there at the first start: ids, times, tags, pins, history, soft deletes',
  async () => {
    const folder = tempFolder();
    writeExistingDatabase(folder, { memories, history });
    const before = digest(join(folder, 'memory'));
    const daemon = startDaemon({}, folder);

    const kept = await daemon.call(ops.getMemory, { id: 'm1' });
    expect(kept).toMatchObject({
      ...{
        content: 'Nicholai prefers bun over npm',
        type: 'preference',
        importance: 0.8,
        tags: 'tools,js',
        pinned: true,
        who: 'claude-code',
      },
      ...{ agentId: 'default', scope: 'global', created_at: '2025-01-02T03:04:05.000Z', updated_at: '2025-01-03T00:00:00.000Z' },
    });
    expect(kept.history).toMatchObject([
      { event: 'created', changedBy: 'daemon' },
      { event: 'updated', reason: 'more exact', oldContent: 'Nicholai likes bun' },
    ]);
    expect(await daemon.call(ops.getMemory, { id: 'm3' })).toMatchObject({ tags: 'session,summary', project: '/p' });
    // Told apart by their own daemon, although ours would have taken them for one.
    expect(await daemon.call(ops.getMemory, { id: 'm4' })).toMatchObject({ who: 'unknown', created_at: '2025-01-05T10:00:00.000Z' });
    await expect(daemon.call(ops.getMemory, { id: 'm2' })).rejects.toMatchObject({ code: 'memory_not_found' });
    expect(await daemon.call(ops.recoverMemory, { id: 'm2' })).toMatchObject({ status: 'recovered', newVersion: 3 });
    expect((await daemon.call(ops.recall, { query: 'bun npm' })).results.map((memory) => memory.id).sort()).toEqual(['m1', 'm4']);
    expect((await daemon.call(ops.listMemories, {})).total).toBe(4);

    expect(digest(join(folder, 'memory'))).toEqual(before);
    expect(daemon.logged).toContainEqual({
      level: 'info',
      fields: { category: 'memory', file: join('memory', 'memories.db'), memories: 4, skipped: 1 },
      message: 'the memories of the existing daemon were taken over',
    });
  },
);

test('a second start takes nothing over again, not even what was forgotten since', async () => {
  const folder = tempFolder();
  writeExistingDatabase(folder, { memories, history });
  const daemon = startDaemon({}, folder);
  await daemon.call(ops.deleteMemory, { id: 'm1', reason: 'changed my mind', force: true });
  daemon.reopen();
  expect((await daemon.call(ops.listMemories, {})).total).toBe(2);
  await expect(daemon.call(ops.getMemory, { id: 'm1' })).rejects.toMatchObject({ code: 'memory_not_found' });
});

test('what the existing daemon left in its write-ahead log is taken over as well, and stays there', async () => {
  const folder = tempFolder();
  const existing = writeExistingDatabase(folder, { memories, openWal: true });
  onTestFinished(() => existing.close());
  const before = digest(join(folder, 'memory'));
  const daemon = startDaemon({}, folder);
  expect((await daemon.call(ops.listMemories, {})).total).toBe(3);
  expect(digest(join(folder, 'memory'))).toEqual(before);
  expect(readdirSync(join(folder, 'data')).filter((name) => name.startsWith('adopt-'))).toEqual([]);
});

test('a database that cannot be read does not keep the daemon from starting, and is tried again', async () => {
  const folder = tempFolder();
  mkdirSync(join(folder, 'memory'));
  writeFileSync(join(folder, 'memory', 'memories.db'), 'this is no database, and long enough to be taken for a header by nobody at all');
  const daemon = startDaemon({}, folder);
  await daemon.call(ops.remember, { content: 'likes tea' });
  expect(daemon.logged.filter(({ level }) => level === 'error')).toHaveLength(1);
  daemon.reopen();
  expect(daemon.logged.filter(({ level }) => level === 'error')).toHaveLength(2);
  expect((await daemon.call(ops.listMemories, {})).total).toBe(1);
});

test('a large database is taken over while the daemon answers: it says how far, and a restart goes on where it was', async () => {
  const folder = tempFolder();
  const many = Array.from({ length: 2_000 }, (_, n) => ({ id: `old-${n}`, content: `the kettle number ${n} is in the cellar`, ...OLD }));
  writeExistingDatabase(folder, { memories: many, history });
  const daemon = startDaemon({}, folder);
  const { adoption } = await daemon.call(ops.daemonStatus, {});
  expect(adoption).toMatchObject({ rows: 2_000 });
  expect(adoption!.read).toBeLessThan(2_000);
  expect((await daemon.call(ops.getMemory, { id: 'old-3' })).content).toBe('the kettle number 3 is in the cellar');
  await daemon.call(ops.deleteMemory, { id: 'old-4', reason: 'gone', force: true });
  daemon.reopen();
  await expect.poll(async () => (await daemon.call(ops.daemonStatus, {})).adoption, { timeout: 60_000 }).toBeUndefined();
  expect((await daemon.call(ops.listMemories, {})).total).toBe(1_999);
  expect((await daemon.call(ops.recall, { query: 'kettle 1999' })).results[0]).toMatchObject({ id: 'old-1999' });
  expect(daemon.logged.map(({ message }) => message)).toContain('the memories of the existing daemon were taken over');
});
