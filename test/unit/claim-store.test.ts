import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openMemoryStores } from '../../src/store/memory-store.ts';
import { START_MS, tempFolder } from '../helpers/daemon-fixture.ts';

const HOUR_MS = 3_600_000;
const request = { key: 'k', runtimePath: 'plugin', harness: 'openclaw', agentId: 'default' } as const;
const line = { agentId: 'default', sessionKey: 'k' };

function open(folder = tempFolder()) {
  const clock = { ms: START_MS, now: () => clock.ms };
  const stores = openMemoryStores(join(folder, 'memory.db'), clock);
  onTestFinished(() => stores.close());
  return { ...stores, clock };
}

test('a live claim keeps the other path out, and says who holds it', async () => {
  const { claims, clock } = open();
  await claims.take(request);
  await expect(claims.take({ ...request, runtimePath: 'legacy' })).rejects.toMatchObject({
    code: 'session_claimed',
    detail: 'session claimed by plugin path',
  });
  clock.ms += 4 * HOUR_MS;
  expect(await claims.take({ ...request, runtimePath: 'legacy' })).toMatchObject({
    runtimePath: 'legacy',
    claimedAt: '2025-03-03T16:00:00.000Z',
  });
});

test('each hook moves the expiry on', async () => {
  const { claims, clock } = open();
  await claims.take(request);
  clock.ms += 3 * HOUR_MS;
  await claims.take(request);
  clock.ms += 3 * HOUR_MS;
  expect(await claims.get('k')).toMatchObject({
    claimedAt: '2025-03-03T12:00:00.000Z',
    lastSeenAt: '2025-03-03T15:00:00.000Z',
    expiresAt: '2025-03-03T19:00:00.000Z',
  });
  clock.ms += HOUR_MS;
  expect(await claims.get('k')).toBeUndefined();
  expect(await claims.list()).toEqual([]);
  expect(await claims.setBypass('k', true)).toBeUndefined();
});

test('bypass belongs to one claim: it outlives a restart, not a release', async () => {
  const folder = tempFolder();
  const before = open(folder);
  await before.claims.take(request);
  await before.claims.setBypass('k', true);
  before.close();
  const { claims } = open(folder);
  expect(await claims.get('k')).toMatchObject({ bypassed: true });
  expect(await claims.take(request, { restart: true })).toMatchObject({ bypassed: true });
  expect(await claims.counts()).toEqual({ active: 1, bypassed: 1 });
  await claims.release('k');
  await claims.release('k');
  expect(await claims.take(request)).toMatchObject({ bypassed: false });
});

test('a claim, and its bypass, stays until the last holder has left', async () => {
  const folder = tempFolder();
  const before = open(folder);
  await before.claims.take({ ...request, holder: 'one' });
  await before.claims.take({ ...request, holder: 'two' }, { restart: true });
  await before.claims.take({ ...request, key: 'l', holder: 'one' });
  await before.claims.setBypass('k', true);
  before.close();
  const { claims } = open(folder);
  await claims.release('k', 'one');
  await claims.release('k', 'one');
  await claims.release('k', 'stranger');
  expect(await claims.take({ ...request, holder: 'two' })).toMatchObject({ bypassed: true });
  await claims.release('k', 'two');
  expect((await claims.list()).map((claim) => claim.key)).toEqual(['l']);
});

test('a release without a holder ends the claim for all of them', async () => {
  const { claims } = open();
  await claims.take({ ...request, holder: 'one' });
  await claims.take({ ...request, holder: 'two' });
  await claims.release('k');
  expect(await claims.get('k')).toBeUndefined();
  await claims.take({ ...request, holder: 'two' });
  await claims.release('k', 'two');
  expect(await claims.get('k')).toBeUndefined();
});

test('holders of an expired claim do not hold the next one', async () => {
  const { claims, clock } = open();
  await claims.take({ ...request, holder: 'one' });
  clock.ms += 4 * HOUR_MS;
  await claims.take({ ...request, holder: 'two' });
  await claims.release('k', 'two');
  expect(await claims.get('k')).toBeUndefined();
});

test('lists newest first, by agent if asked', async () => {
  const { claims, clock } = open();
  await claims.take(request);
  clock.ms += 1;
  await claims.take({ ...request, key: 'l', agentId: 'dot' });
  expect((await claims.list()).map((claim) => claim.key)).toEqual(['l', 'k']);
  expect((await claims.list('dot')).map((claim) => claim.key)).toEqual(['l']);
});

test('the same key of two agents is two lines', async () => {
  const { sessions } = open();
  await sessions.end(line, { harness: 'h', project: '/p', tail: 'mine' });
  const other = { ...line, agentId: 'dot' };
  expect(await sessions.resume(other, true)).toBeUndefined();
  expect(await sessions.projectOf(other)).toBeUndefined();
  expect(await sessions.projectOf(line)).toBe('/p');
});

test('an end without words keeps the last words of the first one', async () => {
  const { sessions } = open();
  await sessions.end(line, { harness: 'h', project: '/p', tail: 'x' });
  await sessions.end(line, { harness: 'h' });
  expect(await sessions.projectOf(line)).toBe('/p');
  expect(await sessions.resume(line, false)).toEqual({ tail: 'x' });
  expect(await sessions.resume(line, false)).toBeUndefined();
});

test('injected memories are known for the turns asked for', async () => {
  const { sessions } = open();
  const hit = (memoryId: string) => [{ memoryId, score: 0.5, injected: true }];
  expect(await sessions.recordHits(line, hit('a'))).toBe(1);
  expect(await sessions.recordHits(line, [{ memoryId: 'b', score: 0.4, injected: false }])).toBe(2);
  expect(await sessions.recordHits(line, hit('c'))).toBe(3);
  expect([...(await sessions.recentlyInjected(line, 3))].sort()).toEqual(['a', 'c']);
  expect([...(await sessions.recentlyInjected(line, 2))]).toEqual(['c']);
});
