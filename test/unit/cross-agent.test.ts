import { describe, expect, test } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import type { InputOf } from '../../src/contract/operation.ts';
import { verifies } from '../conformance/verifies.ts';
import { startDaemon } from '../helpers/daemon-fixture.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const ROSTER = { 'agent.yaml': 'agents: { roster: [{ name: dot }, { name: rose }, { name: miles }] }' };

type Draft = InputOf<typeof ops.sendAgentMessage>;
type Inbox = InputOf<typeof ops.listAgentMessages>;

/** Sessions of several agents on one daemon. */
function startPeers(files: Record<string, string> = ROSTER) {
  const daemon = startDaemon(files);
  const begin = (sessionKey: string, agentId?: string, project?: string) =>
    daemon.call(ops.hookSessionStart, { harness: 'test', sessionKey, agentId, project });
  const end = (sessionKey: string) => daemon.call(ops.hookSessionEnd, { harness: 'test', sessionKey });
  const peers = async (input: InputOf<typeof ops.listPresence> = {}) =>
    (await daemon.call(ops.listPresence, input)).sessions.map(({ key }) => key).sort();
  const send = async (draft: Draft) => (await daemon.call(ops.sendAgentMessage, draft)).message;
  const inbox = async (input: Inbox = {}) => (await daemon.call(ops.listAgentMessages, input)).items.map(({ content }) => content);
  const prompt = (sessionKey: string, more: object = {}) =>
    daemon.call(ops.hookUserPromptSubmit, { harness: 'test', sessionKey, userMessage: 'go on', ...more });
  return { daemon, begin, end, peers, send, inbox, prompt };
}

describe('presence', () => {
  verifies(
    ['mcp.agent_peers.agent_id', 'mcp.agent_peers.include_self', 'mcp.agent_peers.session_key', 'mcp.agent_peers.active'],
    async () => {
      const { begin, end, peers } = startPeers();
      await begin('d1', 'dot');
      await begin('d2', 'dot');
      await begin('r1', 'rose');
      await begin('u1');
      expect(await peers({ agent_id: 'dot' })).toEqual(['r1', 'u1']);
      expect(await peers({ agentId: 'dot', include_self: 'true' })).toEqual(['d1', 'd2', 'r1', 'u1']);
      expect(await peers({ agent_id: 'dot', session_key: 'session:d1', include_self: true })).toEqual(['d2', 'r1', 'u1']);
      // Who names no agent asks as `default`; who names a session asks as its agent.
      expect(await peers()).toEqual(['d1', 'd2', 'r1']);
      expect(await peers({ session_key: 'd1' })).toEqual(['r1', 'u1']);
      await end('r1');
      expect(await peers({ agent_id: 'dot' })).toEqual(['u1']);
    },
  );

  verifies(['mcp.agent_peers.project', 'mcp.agent_peers.limit', 'mcp.agent_peers.result'], async () => {
    const { daemon, begin, peers } = startPeers();
    for (const [index, project] of ['/a', '/b', '/a', '/a'].entries()) {
      daemon.clock.ms += 1_000;
      await begin(`s${index}`, 'dot', project);
    }
    expect(await peers({ project: '/a' })).toEqual(['s0', 's2', 's3']);
    const { sessions, count } = await daemon.call(ops.listPresence, { project: '/a', limit: 2 });
    expect(count).toBe(2);
    expect(sessions).toMatchObject([
      { key: 's3', sessionKey: 's3', agentId: 'dot', harness: 'test', project: '/a', startedAt: '2025-03-03T12:00:04.000Z' },
      { key: 's2' },
    ]);
    expect((await daemon.call(ops.listPresence, { limit: 100_000 })).count).toBe(4);
    expect((await daemon.call(ops.listPresence, { limit: 0 })).count).toBe(1);
  });

  test('a session that nothing was heard of for four hours is gone; a hook keeps it', async () => {
    const { daemon, begin, peers, prompt } = startPeers();
    await begin('d1', 'dot');
    await begin('r1', 'rose');
    daemon.clock.ms += 3 * HOUR_MS;
    await prompt('d1');
    daemon.clock.ms += HOUR_MS + 1;
    expect(await peers()).toEqual(['d1']);
  });

  test('a client without hooks announces itself, with a key or without, and says goodbye', async () => {
    const { daemon, peers } = startPeers();
    const announce = (input: object) => daemon.call(ops.announcePresence, { harness: 'desk', ...input });
    const { presence } = await announce({ sessionKey: 'x1', agentId: 'dot', project: '/a', provider: 'anthropic', runtimePath: 'plugin' });
    expect(presence).toEqual({
      key: 'x1',
      sessionKey: 'x1',
      agentId: 'dot',
      harness: 'desk',
      project: '/a',
      provider: 'anthropic',
      runtimePath: 'plugin',
      startedAt: '2025-03-03T12:00:00.000Z',
      lastSeenAt: '2025-03-03T12:00:00.000Z',
    });
    daemon.clock.ms += 1_000;
    const again = await announce({ session_key: 'x1', agent_id: 'dot' });
    expect(again.presence).toMatchObject({ startedAt: '2025-03-03T12:00:00.000Z', lastSeenAt: '2025-03-03T12:00:01.000Z' });
    await expect(announce({ sessionKey: 'session:x1', agentId: 'rose' })).rejects.toMatchObject({ code: 'session_key_taken' });
    const unnamed = (await announce({ agentId: 'rose' })).presence;
    expect(unnamed).not.toHaveProperty('sessionKey');
    expect((await announce({ agentId: 'rose' })).presence.key).toBe(unnamed.key);
    expect(await peers()).toEqual([unnamed.key, 'x1'].sort());

    expect(await daemon.call(ops.removePresence, { sessionKey: 'session:x1' })).toEqual({ removed: true });
    expect(await daemon.call(ops.removePresence, { sessionKey: 'x1' })).toEqual({ removed: false });
    expect(await peers()).toEqual([unnamed.key]);
    daemon.clock.ms += 4 * HOUR_MS;
    expect(await peers()).toEqual([]);
  });

  test('a live session is not taken over by another agent; one that has gone is', async () => {
    const { daemon, begin } = startPeers();
    const announce = (agentId: string, sessionKey: string) =>
      daemon.call(ops.announcePresence, { harness: 'desk', agentId, sessionKey }).then(({ presence }) => presence.agentId);
    await begin('d1', 'dot');
    expect(await announce('dot', 'x1')).toBe('dot');
    for (const key of ['d1', 'x1']) await expect(announce('rose', key)).rejects.toMatchObject({ code: 'session_key_taken' });
    daemon.clock.ms += 4 * HOUR_MS;
    expect(await announce('rose', 'x1')).toBe('rose');
  });

  test('a session of hooks that said goodbye is back with its next hook', async () => {
    const { daemon, begin, peers, prompt } = startPeers();
    await begin('d1', 'dot');
    expect(await daemon.call(ops.removePresence, { sessionKey: 'd1' })).toEqual({ removed: true });
    expect(await peers()).toEqual([]);
    await prompt('d1');
    expect(await peers()).toEqual(['d1']);
  });

  test('survives a restart', async () => {
    const { daemon, begin, peers } = startPeers();
    await begin('d1', 'dot');
    await daemon.call(ops.announcePresence, { harness: 'desk', sessionKey: 'x1', agentId: 'rose' });
    daemon.reopen();
    expect(await peers()).toEqual(['d1', 'x1']);
  });
});

describe('sending', () => {
  verifies(
    [
      'mcp.agent_message_send.to_agent_id',
      'mcp.agent_message_send.from_agent_id',
      'mcp.agent_message_send.from_session_key',
      'mcp.agent_message_send.result',
    ],
    async () => {
      const { daemon, begin, send, inbox } = startPeers();
      await begin('d1', 'dot');
      await begin('r1', 'rose');
      await begin('r2', 'rose');
      const message = await send({ content: 'the build is red', from_agent_id: 'dot', from_session_key: 'd1', to_agent_id: 'rose' });
      expect(message).toEqual({
        id: expect.stringMatching(/^msg_/),
        seq: 1,
        createdAt: '2025-03-03T12:00:00.000Z',
        fromAgentId: 'dot',
        fromSessionKey: 'd1',
        toAgentId: 'rose',
        content: 'the build is red',
        type: 'info',
        broadcast: false,
        deliveryPath: 'local',
        deliveryStatus: 'delivered',
        recipients: 2,
      });
      for (const reader of [{ agent_id: 'rose' }, { session_key: 'r1' }, { agentId: 'rose', sessionKey: 'r2' }])
        expect(await inbox(reader)).toEqual(['the build is red']);
      for (const other of [{}, { agent_id: 'dot' }, { agent_id: 'miles' }, { agent_id: 'miles', session_key: 'r1' }])
        expect(await inbox(other)).toEqual([]);
      expect((await daemon.call(ops.listAgentMessages, { session_key: 'r1' })).count).toBe(1);
    },
  );

  verifies('mcp.agent_message_send.to_session_key', async () => {
    const { begin, send, inbox } = startPeers();
    await begin('r1', 'rose');
    await begin('r2', 'rose');
    expect(await send({ content: 'only you', toSessionKey: 'session:r1' })).toMatchObject({
      toAgentId: 'rose',
      toSessionKey: 'r1',
      recipients: 1,
    });
    expect(await inbox({ sessionKey: 'r1' })).toEqual(['only you']);
    expect(await inbox({ sessionKey: 'r2' })).toEqual([]);
    await expect(send({ content: 'x', toSessionKey: 'r1', toAgentId: 'dot' })).rejects.toMatchObject({ code: 'invalid_request' });
  });

  verifies(
    ['mcp.agent_message_send.broadcast', 'mcp.agent_message_inbox.include_broadcast', 'mcp.agent_message_inbox.include_sent'],
    async () => {
      const { begin, send, inbox } = startPeers();
      await begin('d1', 'dot');
      await begin('d2', 'dot');
      await begin('r1', 'rose');
      expect(await send({ content: 'freeze at noon', broadcast: true, fromSessionKey: 'd1' })).toMatchObject({
        broadcast: true,
        fromAgentId: 'dot',
        recipients: 2,
      });
      expect(await inbox({ sessionKey: 'r1' })).toEqual(['freeze at noon']);
      expect(await inbox({ sessionKey: 'd2' })).toEqual(['freeze at noon']);
      expect(await inbox({ sessionKey: 'd1' })).toEqual([]);
      expect(await inbox({ agentId: 'dot' })).toEqual([]);
      expect(await inbox({ sessionKey: 'd1', include_sent: true })).toEqual(['freeze at noon']);
      expect(await inbox({ agentId: 'dot', includeSent: true })).toEqual(['freeze at noon']);
      expect(await inbox({ sessionKey: 'r1', include_broadcast: 'false' })).toEqual([]);
    },
  );

  test('what an agent sends to all without a session comes back to none of its sessions, unless sent messages are asked for', async () => {
    const { begin, send, inbox } = startPeers();
    await begin('d1', 'dot');
    await begin('r1', 'rose');
    expect(await send({ content: 'freeze at noon', broadcast: true, fromAgentId: 'dot' })).toMatchObject({ recipients: 1 });
    expect(await inbox({ sessionKey: 'r1' })).toEqual(['freeze at noon']);
    expect(await inbox({ sessionKey: 'd1' })).toEqual([]);
    expect(await inbox({ agentId: 'dot' })).toEqual([]);
    expect(await inbox({ sessionKey: 'd1', include_sent: true })).toEqual(['freeze at noon']);
  });

  verifies('mcp.agent_message_send.type', async () => {
    const { begin, send } = startPeers();
    await begin('r1', 'rose');
    for (const type of ['assist_request', 'decision_update', 'info', 'question'] as const)
      expect(await send({ content: 'x', toAgentId: 'rose', type })).toMatchObject({ type });
    await expect(send({ content: 'x', toAgentId: 'rose', type: 'order' as never })).rejects.toThrow();
  });

  test('an agent that is known gets what was sent while it was away; nobody else can be written to', async () => {
    const { begin, send, inbox } = startPeers();
    expect(await send({ content: 'for later', toAgentId: 'rose' })).toMatchObject({ deliveryStatus: 'queued', recipients: 0 });
    expect(await inbox({ agentId: 'rose' })).toEqual(['for later']);
    expect(await send({ content: 'when you are back', toAgentId: 'rose', toSessionKey: 'r9' })).toMatchObject({ deliveryStatus: 'queued' });

    const unknown = { code: 'unknown_agent', detail: expect.stringContaining('known agents: default, dot, rose, miles') };
    await expect(send({ content: 'x', toAgentId: 'nobody' })).rejects.toMatchObject(unknown);
    await expect(send({ content: 'x', toSessionKey: 'r9' })).rejects.toMatchObject({ code: 'session_not_found' });
    await expect(send({ content: 'x', toSessionKey: 'agent:nobody:1' })).rejects.toMatchObject({ code: 'unknown_agent' });
    // A live session is enough to be known.
    await begin('n1', 'nobody');
    expect(await send({ content: 'x', toAgentId: 'nobody' })).toMatchObject({ deliveryStatus: 'delivered' });
  });

  test('the agent of the header counts, and the key `agent:<id>:…` names one', async () => {
    const { daemon, send, inbox } = startPeers();
    const headers = { 'x-signet-agent-id': 'dot' };
    await daemon.call(ops.sendAgentMessage, { content: 'hello', toAgentId: 'rose' }, { headers });
    expect(await send({ content: 'and me', fromSessionKey: 'agent:miles:main', toAgentId: 'rose' })).toMatchObject({
      fromAgentId: 'miles',
    });
    const { items } = await daemon.call(ops.listAgentMessages, {}, { headers: { 'x-signet-agent-id': 'rose' } });
    expect(items.map(({ fromAgentId }) => fromAgentId)).toEqual(['miles', 'dot']);
    expect(await inbox({ sessionKey: 'agent:rose:main' })).toEqual(['and me', 'hello']);
  });

  test.each([
    [{ content: 'x' }, 'local target required'],
    [{ content: 'x', toAgentId: 'rose', broadcast: true }, 'broadcast goes to all'],
    [{ content: ' ', toAgentId: 'rose' }, 'content is required'],
    [{ toAgentId: 'rose' }, 'content is required'],
    [{ content: 'x', toAgentId: '../rose' }, 'must be 1 to 64 characters'],
    [{ content: 'x', via: 'acp', acp_target_agent_name: 'a' }, 'acp_base_url'],
    [{ content: 'x', via: 'acp', acp_base_url: 'http://127.0.0.1:1' }, 'acp_target_agent_name'],
    [{ content: 'x', via: 'acp', acp_base_url: 'http://127.0.0.1:1', acp_target_agent_name: 'a', broadcast: true }, 'leave out toAgentId'],
  ])('refuses %j: %s', async (draft, words) => {
    const { send } = startPeers();
    await expect(send(draft as Draft)).rejects.toThrow(words);
  });
});

test('a message has at most 65,536 characters', async () => {
  const { send } = startPeers();
  expect((await send({ content: 'x'.repeat(65_536), toAgentId: 'rose' })).content).toHaveLength(65_536);
  await expect(send({ content: 'x'.repeat(65_537), toAgentId: 'rose' })).rejects.toThrow('65536');
});

describe('the inbox', () => {
  verifies(
    [
      'mcp.agent_message_inbox.since',
      'mcp.agent_message_inbox.limit',
      'mcp.agent_message_inbox.result',
      'mcp.agent_message_inbox.agent_id',
    ],
    async () => {
      const { daemon, send, inbox } = startPeers();
      for (const content of ['one', 'two', 'three']) {
        daemon.clock.ms += 1_000;
        await send({ content, toAgentId: 'default', fromAgentId: 'dot' });
      }
      expect(await inbox()).toEqual(['three', 'two', 'one']);
      expect(await inbox({ since: '2025-03-03T12:00:02.000Z' })).toEqual(['three', 'two']);
      expect(await inbox({ since: '2025-03-03T13:00:02.000+01:00', limit: 1 })).toEqual(['three']);
      await expect(inbox({ since: 'yesterday' })).rejects.toThrow();
    },
  );

  verifies('mcp.agent_message_inbox.session_key', 'is the session’s own, and no other agent’s', async () => {
    const { begin, send, inbox } = startPeers();
    await begin('r1', 'rose');
    await begin('r2', 'rose');
    await send({ content: 'to one', toSessionKey: 'r1' });
    await send({ content: 'to all of rose', toAgentId: 'rose' });
    expect(await inbox({ session_key: 'r1' })).toEqual(['to all of rose', 'to one']);
    expect(await inbox({ session_key: 'r2' })).toEqual(['to all of rose']);
    expect(await inbox({ agent_id: 'rose' })).toEqual(['to all of rose', 'to one']);
    expect(await inbox({ agent_id: 'dot', session_key: 'r1', include_sent: true })).toEqual([]);
  });

  test('knows what was read: one by one, or all, by a session for itself, by the agent for all its sessions', async () => {
    const { daemon, begin, send, inbox } = startPeers();
    await begin('r1', 'rose');
    await begin('r2', 'rose');
    const { id } = await send({ content: 'one', toAgentId: 'rose' });
    await send({ content: 'two', toAgentId: 'rose' });
    const read = async (input: InputOf<typeof ops.markAgentMessagesRead>) => (await daemon.call(ops.markAgentMessagesRead, input)).read;
    expect(await read({ session_key: 'r1', ids: [id, 'msg_unknown'] })).toBe(1);
    expect(await inbox({ session_key: 'r1', unread: true })).toEqual(['two']);
    expect(await inbox({ session_key: 'r2', unread: true })).toEqual(['two', 'one']);
    const { items } = await daemon.call(ops.listAgentMessages, { session_key: 'r1' });
    expect(items.map(({ readAt }) => readAt)).toEqual([undefined, '2025-03-03T12:00:00.000Z']);
    // Another agent can mark nothing of it.
    expect(await read({ agentId: 'dot', ids: [id] })).toBe(0);
    expect(await read({ agentId: 'rose' })).toBe(2);
    expect(await read({ agentId: 'rose' })).toBe(0);
    expect(await inbox({ session_key: 'r2', unread: true })).toEqual([]);
  });

  test('is kept over a restart, for as long and as many as configured', async () => {
    const { daemon, send, inbox } = startPeers({ 'agent.yaml': 'crossAgent: { retentionDays: 2, messagesMax: 10 }' });
    for (let index = 1; index <= 12; index += 1) await send({ content: `m${index}`, toAgentId: 'default' });
    daemon.reopen();
    expect(await inbox({ limit: 500 })).toHaveLength(10);
    expect(await inbox({ limit: 1 })).toEqual(['m12']);
    daemon.clock.ms += 2 * DAY_MS + 1;
    expect(await inbox()).toEqual([]);
  });
});

/** Every agent writes to every other; each reads exactly what is for it. */
test('no agent ever reads what is for another', async () => {
  const names = Array.from({ length: 12 }, (_, index) => `a${index}`);
  const { begin, send, inbox, prompt } = startPeers({ 'agent.yaml': `agents: { roster: [${names.map((name) => `{ name: ${name} }`)}] }` });
  for (const name of names) await begin(`k-${name}`, name);
  for (const from of names) {
    for (const to of names) {
      const target = from < to ? { toAgentId: to } : { toSessionKey: `k-${to}` };
      await send({ content: `for ${to} from ${from}`, fromAgentId: from, fromSessionKey: `k-${from}`, ...target });
    }
  }
  for (const name of names) {
    for (const reader of [{ agentId: name }, { sessionKey: `k-${name}` }, { agentId: name, sessionKey: `k-${name}` }]) {
      const found = await inbox({ ...reader, limit: 500 });
      expect(found.filter((content) => !content.startsWith(`for ${name} `))).toEqual([]);
      expect(found.length).toBeGreaterThanOrEqual(names.length - 1);
    }
    const { inject } = await prompt(`k-${name}`);
    const told = [...inject.matchAll(/^> for (\S+) /gm)].map((match) => match[1]);
    expect(new Set(told)).toEqual(new Set([name]));
  }
});
