import { expect, test } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import { startDaemon, type TestDaemon } from '../helpers/daemon-fixture.ts';

const DAY_MS = 86_400_000;
const project = '/shop';
const start = async (daemon: TestDaemon, more = {}) =>
  (await daemon.call(ops.hookSessionStart, { sessionKey: 'now', project, ...more })).inject;

async function keepFacts(daemon: TestDaemon, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    daemon.clock.ms += DAY_MS;
    await daemon.call(ops.remember, { content: `The parcel ${index} of the warehouse weighs much.`, project });
  }
}

test('old rules and preferences stand at the start of a session, before open threads and recent facts', async () => {
  const daemon = startDaemon();
  const rules = ['Lena prefers pnpm over npm.', 'Answer in German when Lena writes German.', 'Never run migrations by hand.'];
  for (const content of rules) await daemon.call(ops.remember, { content, project });
  await daemon.call(ops.remember, { content: 'The import of the catalogue is not finished yet.', project });
  await keepFacts(daemon, 40);
  const inject = await start(daemon);
  for (const rule of rules) expect(inject).toContain(rule);
  const places = ['Standing rules and preferences:', 'Never run', '\nRecent:', 'parcel 39'].map((text) => inject.indexOf(text));
  expect(places).toEqual([...places].sort((a, b) => a - b));
  expect(places).not.toContain(-1);
});

test('an open thread among the recent memories goes before the facts', async () => {
  const daemon = startDaemon();
  await keepFacts(daemon, 3);
  await daemon.call(ops.remember, { content: 'The import of the catalogue is not finished yet.', project });
  await keepFacts(daemon, 20);
  const inject = await start(daemon);
  expect(inject.indexOf('\nOpen:\n- The import')).toBeGreaterThan(-1);
  expect(inject.indexOf('\nOpen:')).toBeLessThan(inject.indexOf('\nRecent:'));
});

test('with more rules than lines: pins first, then those rated well; ill-rated ones last, and likings keep lines beside rules', async () => {
  const daemon = startDaemon();
  const ids: string[] = [];
  for (let index = 0; index < 12; index += 1) {
    ids.push((await daemon.call(ops.remember, { content: `Never touch the shelf number ${index}.`, project })).id);
    daemon.clock.ms += DAY_MS;
  }
  await daemon.call(ops.remember, { content: 'Lena prefers pnpm over npm.', project });
  await daemon.call(ops.remember, {
    content: 'The roof may never be walked on.',
    pinned: true,
    createdAt: '2020-01-01T00:00:00Z',
    project,
  });
  await daemon.call(ops.memoryFeedback, { sessionKey: 's', feedback: { [ids[0]!]: 1, [ids[11]!]: -1 } });
  const inject = await start(daemon);
  expect(inject).toMatch(/Standing rules and preferences:\n- The roof may never/);
  expect(inject).toContain('shelf number 0.');
  expect(inject).toContain('pnpm');
  expect(inject.split('Recent:')[0]).not.toContain('shelf number 11.');
});

test('a preference of another project names it; its rules and facts stay there', async () => {
  const daemon = startDaemon();
  await daemon.call(ops.remember, { content: 'Lena prefers dark maps.', project: '/projects/garden' });
  await daemon.call(ops.remember, { content: 'Never water the cactus.', project: '/projects/garden' });
  const inject = await start(daemon);
  expect(inject).toMatch(/Lena prefers dark maps\. \(preference, [\d-]+, project garden\)/);
  expect(inject).not.toContain('cactus');
});

test('a superseded rule is not shown; its successor is', async () => {
  const daemon = startDaemon();
  await daemon.call(ops.remember, { content: 'Always use black for formatting Python code.', project });
  daemon.clock.ms += DAY_MS;
  await daemon.call(ops.remember, { content: 'Always use ruff instead of black for formatting Python code.', project });
  const inject = await start(daemon);
  expect(inject).toContain('ruff');
  expect(inject).not.toContain('use black');
});
