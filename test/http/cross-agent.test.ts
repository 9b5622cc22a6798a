import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { crossAgentOperations } from '../../src/contract/cross-agent.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { createPeerNews } from '../../src/daemon/cross-agent-news.ts';
import { streamAgentMessages } from '../../src/daemon/cross-agent-stream.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { openMemoryStores } from '../../src/store/memory-store.ts';
import { hooksOf } from '../conformance/calls.ts';
import { verifies } from '../conformance/verifies.ts';
import { START_MS, tempFolder } from '../helpers/daemon-fixture.ts';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';
import { openSse, type SseClient, type SseFrame } from '../helpers/sse-client.ts';

const MESSAGES = '/api/cross-agent/messages';
const PRESENCE = '/api/cross-agent/presence';
const FILES = { 'agent.yaml': 'agents: { roster: [{ name: dot }, { name: rose }] }' };

const begin = (daemon: DaemonServer, sessionKey: string, agentId: string) => hooksOf(daemon.url)('session-start', { sessionKey, agentId });
const send = async (daemon: DaemonServer, body: object) => (await daemon.post(MESSAGES, body)).body.message;

async function listen(daemon: { url: string }, query: string, lastEventId?: string): Promise<SseClient> {
  const reader = await openSse(`${daemon.url}/api/cross-agent/stream?${query}`, lastEventId === undefined ? {} : { lastEventId });
  onTestFinished(() => reader.close());
  return reader;
}

const isOf = (type: string) => (frame: SseFrame) => frame.data.type === type;
const says = (content: string) => (frame: SseFrame) => (frame.data.message as { content?: string } | undefined)?.content === content;

verifies(['messages.presence.endpoint', 'messages.send.endpoint', 'messages.inbox.endpoint'], async () => {
  const daemon = await serveDaemon({ files: FILES });
  await begin(daemon, 'r1', 'rose');
  expect((await daemon.get(`${PRESENCE}?agent_id=dot`)).body).toMatchObject({ count: 1, sessions: [{ key: 'r1', agentId: 'rose' }] });
  const sent = await daemon.post(MESSAGES, { content: 'hello', from_agent_id: 'dot', to_agent_id: 'rose' });
  expect(sent).toMatchObject({ status: 200, body: { message: { content: 'hello', deliveryStatus: 'delivered' } } });
  const inbox = await daemon.get(`${MESSAGES}?agent_id=rose&unread=true&include_broadcast=false&limit=5`);
  expect(inbox.body).toMatchObject({ count: 1, items: [{ id: sent.body.message.id, fromAgentId: 'dot' }] });
  const { id } = sent.body.message;
  expect((await daemon.post(`${MESSAGES}/read`, { agentId: 'rose', ids: [id] })).body).toEqual({ read: 1 });
  expect((await daemon.get(`${MESSAGES}?agent_id=rose&unread=true`)).body).toEqual({ items: [], count: 0 });
  expect((await daemon.post(PRESENCE, { harness: 'desk', sessionKey: 'x' })).body).toMatchObject({
    presence: { key: 'x', agentId: 'default' },
  });
  expect((await daemon.call('DELETE', `${PRESENCE}/session%3Ax`)).body).toEqual({ removed: true });
});

verifies(
  ['mcp.agent_message_send.content', 'mcp.agent_message_send.acp_base_url', 'mcp.agent_message_send.acp_target_agent_name'],
  'and says which field is missing',
  async () => {
    const daemon = await serveDaemon({ files: FILES });
    const refused = async (body: object) => {
      const answer = await daemon.post(MESSAGES, body);
      return [answer.status, answer.body.code, answer.body.errors[0].pointer, answer.body.error];
    };
    expect(await refused({ toAgentId: 'rose' })).toEqual([400, 'invalid_request', '/content', 'content is required']);
    expect(await refused({ content: 'x' })).toEqual([
      400,
      'invalid_request',
      '/toAgentId',
      expect.stringMatching(/^local target required/),
    ]);
    const acp = { content: 'x', via: 'acp' };
    expect(await refused({ ...acp, acp_target_agent_name: 'a' })).toEqual([400, 'invalid_request', '/acp_base_url', expect.any(String)]);
    expect(await refused({ ...acp, acp: { url: 'https://a.test' } })).toEqual([
      400,
      'invalid_request',
      '/acp_target_agent_name',
      expect.any(String),
    ]);
    expect(await refused({ content: 'x', toAgentId: 'rose', type: 'order' })).toEqual([
      400,
      'invalid_request',
      '/type',
      expect.any(String),
    ]);
    expect(await daemon.post(MESSAGES, { content: 'x', toAgentId: 'ghost' })).toMatchObject({
      status: 400,
      body: { code: 'unknown_agent' },
    });
    expect(await daemon.post(MESSAGES, { content: 'x', toSessionKey: 'ghost' })).toMatchObject({
      status: 404,
      body: { code: 'session_not_found' },
    });
    const relay = await daemon.post(MESSAGES, { ...acp, acp_base_url: 'https://a.test', acp_target_agent_name: 'a' });
    expect(relay).toMatchObject({ status: 403, body: { code: 'relay_forbidden' } });
    expect((await daemon.post(PRESENCE, {})).body.error).toBe('harness is required');
  },
);

describe('the stream', () => {
  test('begins with who is there and what there is, goes on with messages, comings and goings', async () => {
    const daemon = await serveDaemon({ files: FILES });
    await begin(daemon, 'd1', 'dot');
    await begin(daemon, 'r1', 'rose');
    await send(daemon, { content: 'old', toAgentId: 'rose', fromAgentId: 'dot' });
    const reader = await listen(daemon, 'agent_id=rose&session_key=r1');
    const snapshot = await reader.until(isOf('snapshot'));
    expect(snapshot.data).toMatchObject({ presence: [{ key: 'd1' }], messages: [{ content: 'old' }] });
    expect(reader.frames[0]).toMatchObject({ event: 'message', data: { type: 'connected', agentId: 'rose', sessionKey: 'r1' } });

    await send(daemon, { content: 'not for rose', toAgentId: 'dot' });
    await send(daemon, { content: 'mine', broadcast: true, fromSessionKey: 'r1' });
    await send(daemon, { content: 'new', toAgentId: 'rose' });
    expect(await reader.until(says('new'))).toMatchObject({ id: '4', event: 'message', data: { type: 'message' } });
    expect(reader.frames.filter(isOf('message'))).toHaveLength(1);

    await begin(daemon, 'd2', 'dot');
    const came = await reader.until(isOf('presence'));
    expect(came.data).toMatchObject({ action: 'upsert', presence: { key: 'd2', agentId: 'dot' }, activeCount: 2 });
    expect(came).not.toHaveProperty('id');
    await hooksOf(daemon.url)('session-end', { sessionKey: 'd1' });
    const went = await reader.until(({ data }) => data.action === 'remove');
    expect(went.data).toMatchObject({ presence: { key: 'd1' }, activeCount: 1 });
    expect(reader.lastId).toBe('4');
  });

  test('goes on behind Last-Event-ID, also after a restart, and says what is gone', async () => {
    const daemon = await serveDaemon({ files: { 'agent.yaml': 'crossAgent: { messagesMax: 10 }' } });
    const reader = await listen(daemon, '');
    await reader.until(isOf('snapshot'));
    await send(daemon, { content: 'm1', toAgentId: 'default', fromAgentId: 'dot' });
    await reader.until(says('m1'));
    reader.close();
    for (let index = 2; index <= 5; index += 1) await send(daemon, { content: `m${index}`, toAgentId: 'default', fromAgentId: 'dot' });
    await daemon.restart();
    const resumed = await listen(daemon, '', reader.lastId);
    await resumed.until(says('m5'));
    expect(resumed.frames.filter(isOf('message')).map(({ id }) => id)).toEqual(['2', '3', '4', '5']);
    expect((await resumed.until(isOf('snapshot'))).data.messages).toEqual([]);

    for (let index = 6; index <= 15; index += 1) await send(daemon, { content: `m${index}`, toAgentId: 'default', fromAgentId: 'dot' });
    const late = await listen(daemon, 'after=2');
    await late.until(says('m15'));
    expect(late.frames.find(({ event }) => event === 'gap')).toEqual({ event: 'gap', data: { from: 3, to: 5 } });
    expect(late.frames.filter(isOf('message'))).toHaveLength(10);
  });

  test('ends when the server does, and is nothing for a wrong question', async () => {
    const daemon = await serveDaemon();
    const reader = await listen(daemon, '');
    await reader.until(isOf('snapshot'));
    const restarted = daemon.restart();
    expect(await reader.until(({ event }) => event === 'end')).toMatchObject({ data: { reason: 'closing' } });
    await restarted;
    expect(await daemon.get('/api/cross-agent/stream?agent_id=..')).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });

  test('says that it is alive when nothing happens', async () => {
    const clock = { now: () => START_MS };
    const stores = openMemoryStores(join(tempFolder(), 'memory.db'), clock);
    const { presence } = stores;
    const deps = {
      presence,
      messages: stores.messages(() => ({ retentionDays: 7, messagesMax: 100 })),
      news: createPeerNews(),
      heartbeatMs: 5,
    };
    const server = createHttpServer({
      operations: { streamAgentMessages: crossAgentOperations.streamAgentMessages },
      handlers: {},
      streams: { streamAgentMessages: (input, context, sse) => streamAgentMessages(deps, input, context, sse) },
      security: {},
      title: 'test',
      version: '0.0.0',
      log: silentLogger,
    });
    const address = await server.listen('127.0.0.1', 0);
    onTestFinished(async () => {
      await server.close();
      stores.close();
    });
    const reader = await listen(address, '');
    expect(await reader.until(({ event }) => event === 'heartbeat')).toEqual({ event: 'heartbeat', data: { head: 0 } });
  });
});
