import { describe, expect, test } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import { changes, lookAlikes, moreChanges, moreLookAlikes, type Pair } from '../fixtures/changes.ts';
import { startDaemon, type TestDaemon } from '../helpers/daemon-fixture.ts';

const HOUR_MS = 3_600_000;

const keep = async (daemon: TestDaemon, content: string, more = {}) => {
  daemon.clock.ms += HOUR_MS;
  return (await daemon.call(ops.remember, { content, ...more })).id;
};
const successor = async (daemon: TestDaemon, id: string) => (await daemon.call(ops.getMemory, { id })).superseded_by;

/** All older memories of all pairs, then the newer ones; each pair in a project of its own. Answers the pairs that are linked. */
async function linked(pairs: readonly Pair[]): Promise<Pair[]> {
  const daemon = startDaemon();
  const older: string[] = [];
  for (const [index, [content]] of pairs.entries()) older.push(await keep(daemon, content, { project: `/${index}` }));
  const newer: string[] = [];
  for (const [index, [, content]] of pairs.entries()) newer.push(await keep(daemon, content, { project: `/${index}` }));
  const found: Pair[] = [];
  for (const [index, pair] of pairs.entries()) if ((await successor(daemon, older[index]!)) === newer[index]) found.push(pair);
  return found;
}

describe('a memory that tells of a change', () => {
  test('is linked to what does not hold any more, told in many ways', async () => {
    const all = [...changes, ...moreChanges];
    const found = await linked(all);
    expect(all.filter((pair) => !found.includes(pair)).length).toBeLessThanOrEqual(4);
  });

  test('a look-alike takes the place of nothing', async () => {
    expect(await linked([...lookAlikes, ...moreLookAlikes])).toEqual([]);
  });

  test('finds what it replaces among all memories of a project, and nothing else', async () => {
    const daemon = startDaemon();
    const older = new Map<string, string>();
    for (const [content] of [...changes, ...lookAlikes]) if (!older.has(content)) older.set(content, await keep(daemon, content));
    const wrong: string[] = [];
    for (const [content, told] of changes) {
      const { supersedes } = await daemon.call(ops.getMemory, { id: await keep(daemon, told) });
      const told_ = [...older].find(([, id]) => id === supersedes)?.[0];
      if (told_ !== undefined && told_ !== content && told_.replace(/\.$/, '') !== content.replace(/\.$/, ''))
        wrong.push(`${told_} <- ${told}`);
    }
    expect(wrong.length, wrong.join('\n')).toBeLessThanOrEqual(2);
  });
});

describe('what speaks of the memory right before', () => {
  test('takes its place in the same session', async () => {
    const daemon = startDaemon();
    await keep(daemon, 'The meeting room is called Aquarium.', { sessionKey: 's' });
    const older = await keep(daemon, 'Retry the upload 3 times.', { sessionKey: 's' });
    const newer = await keep(daemon, 'Scrap that, make it 4 instead.', { sessionKey: 's' });
    expect(await successor(daemon, older)).toBe(newer);
  });

  test('and of no other session', async () => {
    const daemon = startDaemon();
    const older = await keep(daemon, 'Retry the upload 3 times.', { sessionKey: 's' });
    await keep(daemon, 'Scrap that, make it 4 instead.', { sessionKey: 'other' });
    expect(await successor(daemon, older)).toBeNull();
  });
});

test('a change reaches over to a memory of no project, never to one of another project or another agent', async () => {
  const daemon = startDaemon();
  const anywhere = await keep(daemon, 'Tomas lives in Graz.');
  const elsewhere = await keep(daemon, 'The build server is called heron.', { project: '/a' });
  const others = await keep(daemon, 'The test server is called egret.', { agentId: 'dot', project: '/b' });
  const moved = await keep(daemon, 'Tomas relocated to Linz.', { project: '/b' });
  await keep(daemon, 'The build server was renamed, it is called rook.', { project: '/b' });
  await keep(daemon, 'The test server was renamed, it is called rook.', { project: '/b', agentId: 'rose' });
  expect(await successor(daemon, anywhere)).toBe(moved);
  expect(await successor(daemon, elsewhere)).toBeNull();
  expect(await successor(daemon, others)).toBeNull();
});

test('talk, questions and long texts take the place of nothing', async () => {
  const daemon = startDaemon();
  const older = await keep(daemon, 'Tomas lives in Graz.');
  for (const content of [
    'Has Tomas moved from Graz to Linz?',
    'Hey Sam! Tomas moved from Graz! How are you?',
    `Tomas moved from Graz to Linz. ${'The weather was fine. '.repeat(40)}`,
  ]) {
    await keep(daemon, content);
    expect(await successor(daemon, older), content).toBeNull();
  }
});
