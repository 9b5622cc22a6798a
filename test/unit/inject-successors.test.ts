import { describe, expect, test } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import type { RecalledMemory } from '../../src/contract/memory.ts';
import { packRecalled } from '../../src/daemon/inject-memories.ts';
import { startDaemon, type TestDaemon } from '../helpers/daemon-fixture.ts';

const DAY_MS = 86_400_000;
const key = 'abc';

const ask = async (daemon: TestDaemon, userMessage: string, more = {}) =>
  (await daemon.call(ops.hookUserPromptSubmit, { sessionKey: key, userMessage, ...more })).inject;

/** Remember in order, a day between each two; answers the ids. */
async function keep(
  daemon: TestDaemon,
  ...memories: readonly (string | { content: string; [more: string]: unknown })[]
): Promise<string[]> {
  const ids: string[] = [];
  for (const memory of memories) {
    const input = typeof memory === 'string' ? { content: memory } : memory;
    ids.push((await daemon.call(ops.remember, input)).id);
    daemon.clock.ms += DAY_MS;
  }
  return ids;
}

const OLD = 'The cache TTL is 600 seconds.';
const NEW = 'The cache TTL is 300 seconds.';

describe('a superseded memory in a prompt', () => {
  test('is never shown without its successor, however often the same is asked in one session', async () => {
    const daemon = startDaemon();
    await keep(daemon, OLD, NEW);
    for (let turn = 0; turn < 8; turn += 1) {
      const inject = await ask(daemon, 'what is the cache TTL?');
      expect(inject.includes('600') && !inject.includes('300'), `turn ${turn}: ${inject}`).toBe(false);
      if (turn === 0) expect(inject).toContain(NEW);
    }
  });

  test('stands behind its successor, marked, where it answers what the successor does not', async () => {
    const daemon = startDaemon();
    const team = 'Marek owns the product; Ayla does the design; Jonas runs terraform and the servers.';
    const [older] = await keep(daemon, team);
    await keep(daemon, { content: 'Ayla left; Bruno is the new designer.', supersedes: older });
    const lines = (await ask(daemon, 'who runs terraform on the servers?')).split('\n').filter((line) => line.startsWith('- '));
    expect(lines).toEqual([
      expect.stringContaining('Bruno is the new designer'),
      expect.stringMatching(/Jonas runs terraform.*superseded/),
    ]);
  });

  test('brings a successor that no word of the question finds', async () => {
    const daemon = startDaemon();
    const [older] = await keep(daemon, 'The standby database runs on the host heron.');
    await keep(daemon, { content: 'Everything of theirs is on egret from today.', supersedes: older });
    const inject = await ask(daemon, 'which host runs the standby database?');
    expect(inject).toContain('egret');
    expect(inject.indexOf('egret')).toBeLessThan(inject.includes('heron') ? inject.indexOf('heron') : Number.POSITIVE_INFINITY);
  });

  test('is left out when its successor was shown within the last turns', async () => {
    const daemon = startDaemon();
    const [older] = await keep(daemon, 'The standby database runs on the host heron.', 'The host of the wiki is called rook.');
    await keep(daemon, { content: 'The standby database runs on egret.', supersedes: older });
    await ask(daemon, 'where is the standby database?');
    const again = await ask(daemon, 'which host is called rook and which runs the standby database?');
    expect(again).toContain('rook');
    expect(again).not.toContain('heron');
  });

  test('is left out when the successor does not fit the budget', async () => {
    const long = { ...recalled('new', `The lamp of the door is blue. ${'It shines far. '.repeat(20)}`, 0.9) };
    const old = { ...recalled('old', 'Shed and lamp of the door: green', 0.9), superseded_by: 'new' };
    expect(packRecalled([old, long], 'shed', 60, 500).shown).toEqual([]);
    expect(packRecalled([old, long], 'shed', 600, 500).shown.map(({ id }) => id)).toEqual(['new', 'old']);
  });

  test('brings its successor out of another project, which is named', async () => {
    const daemon = startDaemon();
    const [older] = await keep(daemon, { content: 'The invoice numbers begin at 1000.', project: '/shop' });
    await keep(daemon, { content: 'The invoice numbers begin at 5000.', project: '/billing', supersedes: older });
    const inject = await ask(daemon, 'where do the invoice numbers begin?', { project: '/shop' });
    expect(inject).toContain('5000');
    expect(inject).toContain('project billing');
  });

  test('stays behind its successor when ratings lift it', async () => {
    const daemon = startDaemon();
    const [older, newer] = await keep(daemon, OLD, NEW);
    await daemon.call(ops.memoryFeedback, { sessionKey: key, feedback: { [older!]: 1, [newer!]: -1 } });
    const inject = await ask(daemon, 'what is the cache TTL?');
    expect(inject).toContain('300');
    if (inject.includes('600')) expect(inject.indexOf('300')).toBeLessThan(inject.indexOf('600'));
  });

  test('a private successor of a shared memory is brought to its agent, and to nobody else', async () => {
    const daemon = startDaemon();
    const [older] = await keep(daemon, 'The desk lamp is green.');
    await keep(daemon, { content: 'The desk lamp is violet.', agentId: 'dot', scope: 'private', supersedes: older });
    expect(await ask(daemon, 'which colour is the desk lamp?', { sessionKey: 'r', agentId: 'rose' })).not.toContain('violet');
  });
});

test('session start and the text of a recall never show a superseded memory alone', async () => {
  const daemon = startDaemon();
  await keep(daemon, OLD, NEW);
  expect((await daemon.call(ops.hookSessionStart, { sessionKey: 'other' })).inject).not.toContain('600');
  const { message } = await daemon.call(ops.hookRecall, { query: 'cache TTL' });
  expect(message).toMatch(/300 seconds[^\n]*\n[^\n]*600 seconds[^\n]*superseded/);
});

function recalled(id: string, content: string, score: number): RecalledMemory {
  const from = { project: null, source_type: 'manual', source_id: null, session_id: null, supersedes: null, superseded_by: null };
  const owner = { who: 'dot', agentId: 'default', scope: 'global' as const, type: 'fact', importance: 0.5, tags: null, pinned: false };
  const at = new Date(0).toISOString();
  const made = { id, content, ...owner, ...from, version: 1, created_at: at, updated_at: at, access_count: 0 };
  return { ...made, score, match: 'strong', source: 'keyword', content_length: content.length, truncated: false };
}
