import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import { openMemoryStores } from '../../src/store/memory-store.ts';
import { memoryMigrations } from '../../src/store/memory-store-schema.ts';
import { closeDatabase, openDatabase } from '../../src/store/sqlite.ts';
import { START_MS, startDaemon, tempFolder } from '../helpers/daemon-fixture.ts';

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
  await claims.release('k', { holder: 'one' });
  await claims.release('k', { holder: 'one' });
  await claims.release('k', { holder: 'stranger' });
  expect(await claims.take({ ...request, holder: 'two' })).toMatchObject({ bypassed: true });
  await claims.release('k', { holder: 'two' });
  expect((await claims.list()).map((claim) => claim.key)).toEqual(['l']);
});

test('a release without a holder ends the claim for all of them', async () => {
  const { claims } = open();
  await claims.take({ ...request, holder: 'one' });
  await claims.take({ ...request, holder: 'two' });
  await claims.release('k');
  expect(await claims.get('k')).toBeUndefined();
  await claims.take({ ...request, holder: 'two' });
  await claims.release('k', { holder: 'two' });
  expect(await claims.get('k')).toBeUndefined();
});

test('holders of an expired claim do not hold the next one', async () => {
  const { claims, clock } = open();
  await claims.take({ ...request, holder: 'one' });
  clock.ms += 4 * HOUR_MS;
  await claims.take({ ...request, holder: 'two' });
  await claims.release('k', { holder: 'two' });
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

test('one key of two agents is two claims; who names no agent has a third one as soon as there are two', async () => {
  const { claims } = open();
  const take = (agentId: string, options = {}) => claims.take({ ...request, agentId, holder: agentId }, options);
  expect(await take('rose')).toMatchObject({ agentId: 'rose' });
  expect(await take('default')).toMatchObject({ agentId: 'rose' });
  expect(await take('dot', { restart: true })).toMatchObject({ agentId: 'dot', bypassed: false });
  await claims.setBypass('k', true, 'dot');
  expect(await take('rose')).toMatchObject({ agentId: 'rose', bypassed: false });
  expect(await take('default')).toMatchObject({ agentId: 'default', bypassed: true });
  expect((await claims.under('k')).map((claim) => claim.agentId).sort()).toEqual(['default', 'dot', 'rose']);
  await claims.release('k', { agentId: 'rose' });
  await claims.release('k', { agentId: 'dot', holder: 'dot' });
  expect((await claims.under('k')).map((claim) => claim.agentId)).toEqual(['default']);
  await expect(claims.take({ ...request, agentId: 'kim', runtimePath: 'legacy' })).rejects.toMatchObject({ code: 'session_claimed' });
  // A session that says its name later is the same session, holders and all.
  expect(await take('kim', { restart: true })).toMatchObject({ agentId: 'kim', bypassed: true });
  await claims.release('k', { holder: 'kim' });
  expect((await claims.under('k')).map((claim) => claim.agentId)).toEqual(['kim']);
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

test('claims of an older database go on, each with its holders', async () => {
  const folder = tempFolder();
  const before = memoryMigrations.findIndex(({ name }) => name === 'session claims by key and agent');
  const old = openDatabase(join(folder, 'memory.db'), { synchronous: 'NORMAL', migrations: memoryMigrations.slice(0, before) });
  old.exec(`INSERT INTO session_claims (key, harness, runtime_path, agent_id, claimed_at, last_seen_at, expires_at, bypassed)
    VALUES ('k', 'h', 'plugin', 'rose', ${START_MS}, ${START_MS}, ${START_MS + HOUR_MS}, 1);
    INSERT INTO claim_holders (key, holder) VALUES ('k', 'one'), ('k', 'two')`);
  closeDatabase(old);
  const { claims } = open(folder);
  expect(await claims.under('k')).toMatchObject([{ key: 'k', agentId: 'rose', bypassed: true }]);
  await claims.release('k', { holder: 'one' });
  expect(await claims.get('k')).toBeDefined();
  await claims.release('k', { holder: 'two' });
  expect(await claims.get('k')).toBeUndefined();
});

test('two agents under one key stay apart, and who names neither reads and writes as nobody', async () => {
  const daemon = startDaemon();
  for (const agentId of ['rose', 'dot']) {
    await daemon.call(ops.remember, { content: `the copper kettle of ${agentId}`, agentId, scope: 'private' });
    await daemon.call(ops.hookSessionStart, { sessionKey: 'main', agentId });
  }
  const asked = async (agentId?: string) =>
    (await daemon.call(ops.hookRecall, { sessionKey: 'main', agentId, query: 'copper kettle' })).results.map(({ content }) => content);
  expect(await asked('rose')).toEqual(['the copper kettle of rose']);
  expect(await asked('dot')).toEqual(['the copper kettle of dot']);
  expect(await asked()).toEqual([]);
  // Each ends its own claim; the one that is left is found by the key alone.
  await daemon.call(ops.hookSessionEnd, { sessionKey: 'main', agentId: 'rose' });
  expect(await asked()).toEqual(['the copper kettle of dot']);
});

describe('an end by a key alone', () => {
  const transcript = (content: string) => [{ role: 'user' as const, content }];

  async function startTwo() {
    const daemon = startDaemon();
    const hear = async (agentId: string, harness: string) => {
      daemon.clock.ms += 1;
      await daemon.call(ops.hookUserPromptSubmit, { sessionKey: 'main', agentId, harness, prompt: 'go on' });
    };
    await hear('rose', 'codex');
    await hear('dot', 'pi');
    const agents = async () => (await daemon.call(ops.listClaims, {})).sessions.map(({ agentId }) => agentId).sort();
    const said = async (agentId?: string) => (await daemon.call(ops.getTranscript, { key: 'main', agentId })).turns[0]?.content;
    return { ...daemon, hear, agents, said };
  }

  test('is that of the one agent that holds the key', async () => {
    const { call, said, agents } = await startTwo();
    await call(ops.hookSessionEnd, { sessionKey: 'main', agentId: 'dot' });
    await call(ops.hookSessionEnd, { sessionKey: 'main', transcript: transcript('good night, rose') });
    expect(await said('rose')).toBe('good night, rose');
    expect(await agents()).toEqual([]);
  });

  test('of several agents is that of the one heard of last, whatever hooks without an agent came between', async () => {
    const { call, hear, said, agents } = await startTwo();
    await hear('rose', 'codex');
    await call(ops.hookRemember, { sessionKey: 'main', content: 'tea at four' });
    expect(await agents()).toEqual(['dot', 'rose']);
    await call(ops.hookSessionEnd, { sessionKey: 'main', transcript: transcript('good night, rose') });
    expect(await said('rose')).toBe('good night, rose');
    expect(await agents()).toEqual(['dot']);
    for (const agentId of [undefined, 'dot']) await expect(said(agentId)).rejects.toMatchObject({ code: 'transcript_not_found' });
  });

  test('is that of the caller’s harness, where it has one', async () => {
    const { call, said, agents } = await startTwo();
    await call(ops.hookSessionEnd, { sessionKey: 'main', harness: 'codex', transcript: transcript('good night, rose') });
    expect(await said('rose')).toBe('good night, rose');
    expect(await agents()).toEqual(['dot']);
  });

  test('is nobody’s while one of the agents is bypassed, and keeps nothing', async () => {
    const { call, said, agents } = await startTwo();
    await call(ops.setBypass, { key: 'main', enabled: true });
    expect(await call(ops.hookSessionEnd, { sessionKey: 'main', transcript: transcript('hush') })).toMatchObject({ bypassed: true });
    expect(await agents()).toEqual(['dot', 'rose']);
    for (const agentId of [undefined, 'rose', 'dot']) await expect(said(agentId)).rejects.toMatchObject({ code: 'transcript_not_found' });
  });

  test('refuses the other path in mid-session', async () => {
    const daemon = startDaemon();
    for (const agentId of ['rose', 'dot']) await daemon.call(ops.hookSessionStart, { sessionKey: 'main', agentId, runtimePath: 'plugin' });
    const recall = (runtimePath: 'legacy' | 'plugin') => daemon.call(ops.hookRecall, { sessionKey: 'main', runtimePath, query: 'tea' });
    await expect(recall('legacy')).rejects.toMatchObject({ code: 'session_claimed' });
    expect(await recall('plugin')).toMatchObject({ count: 0 });
  });
});

test.each([
  ['start', ops.hookSessionStart, {}],
  ['prompt', ops.hookUserPromptSubmit, { prompt: 'go on' }],
  ['remember', ops.hookRemember, { content: 'tea at four' }],
] as const)('a %s hook that names no path goes on under a claim of the plugin, and keeps no plugin out', async (_, hook, body) => {
  const daemon = startDaemon();
  const send = (sessionKey: string, runtimePath?: 'plugin' | 'legacy') => daemon.call(hook, { sessionKey, runtimePath, ...body } as never);
  const pathOf = async (key: string) => (await daemon.call(ops.getClaim, { key })).runtimePath;
  await send('held', 'plugin');
  await send('held');
  expect(await pathOf('held')).toBe('plugin');
  await expect(send('held', 'legacy')).rejects.toMatchObject({ code: 'session_claimed' });
  // Who comes first without a path holds the session only until somebody names one.
  await send('free');
  expect(await pathOf('free')).toBe('legacy');
  await send('free', 'plugin');
  await send('free');
  expect(await pathOf('free')).toBe('plugin');
  await expect(send('free', 'legacy')).rejects.toMatchObject({ code: 'session_claimed' });
});
