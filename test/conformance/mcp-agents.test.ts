import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished } from 'vitest';
import { connectHttp, type McpConnection } from '../helpers/mcp-connection.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { call, hooksOf } from './calls.ts';
import { verifies } from './verifies.ts';

const YAML = 'agents: { roster: [{ name: ada }, { name: ben }, { name: cleo }] }\n';
const VALUE = 'sesame-street-42';

let signet: Signet;
let mcp: McpConnection;
beforeAll(async () => {
  signet = await startSignet({ yaml: YAML });
  mcp = await connectHttp(signet.daemonUrl);
  const hook = hooksOf(signet.daemonUrl);
  await hook('session-start', { sessionKey: 'ada-1', agentId: 'ada', project: '/projects/tea' });
  await hook('session-start', { sessionKey: 'ada-2', agentId: 'ada', project: '/projects/rye' });
  await hook('session-start', { sessionKey: 'ben-1', agentId: 'ben', project: '/projects/tea' });
  await hook('session-start', { sessionKey: 'ben-2', agentId: 'ben', project: '/projects/tea' });
  await hook('session-end', { sessionKey: 'ben-2', agentId: 'ben' });
  await hook('session-start', { sessionKey: 'own' });
});
afterAll(async () => {
  await mcp.close();
  await signet.close();
});

const keys = ({ sessions }: { sessions: { sessionKey: string }[] }) => sessions.map(({ sessionKey }) => sessionKey).sort();
const said = ({ items }: { items: { content: string }[] }) => items.map(({ content }) => content).sort();
const send = (input: Record<string, unknown>) => mcp.call('agent_message_send', input);
const inbox = (input: Record<string, unknown> = {}) => mcp.call('agent_message_inbox', input);

describe('agent_peers', () => {
  verifies(['mcp.agent_peers.agent_id', 'mcp.agent_peers.include_self', 'mcp.agent_peers.active'], async () => {
    expect(keys(await mcp.call('agent_peers'))).toEqual(['ada-1', 'ada-2', 'ben-1']);
    expect(keys(await mcp.call('agent_peers', { agent_id: 'ada' }))).toEqual(['ben-1', 'own']);
    expect(keys(await mcp.call('agent_peers', { agent_id: 'ada', include_self: true }))).toEqual(['ada-1', 'ada-2', 'ben-1', 'own']);
    const ada = await connectHttp(signet.daemonUrl, { 'x-signet-agent-id': 'ada' });
    expect(keys(await ada.call('agent_peers'))).toEqual(['ben-1', 'own']);
    await ada.close();
  });

  verifies(['mcp.agent_peers.session_key', 'mcp.agent_peers.project', 'mcp.agent_peers.limit', 'mcp.agent_peers.result'], async () => {
    const all = { agent_id: 'ada', include_self: true };
    expect(keys(await mcp.call('agent_peers', { ...all, session_key: 'ada-1' }))).toEqual(['ada-2', 'ben-1', 'own']);
    expect(keys(await mcp.call('agent_peers', { ...all, project: '/projects/tea' }))).toEqual(['ada-1', 'ben-1']);
    const one = await mcp.call('agent_peers', { ...all, limit: 1 });
    expect([one.sessions.length, one.count]).toEqual([1, 1]);
    expect(one.sessions[0]).toMatchObject({ agentId: expect.any(String), harness: expect.any(String), lastSeenAt: expect.any(String) });
  });
});

describe('agent_message_send', () => {
  verifies(
    [
      'mcp.agent_message_send.content',
      'mcp.agent_message_send.from_agent_id',
      'mcp.agent_message_send.from_session_key',
      'mcp.agent_message_send.type',
      'mcp.agent_message_send.result',
    ],
    async () => {
      expect(await mcp.refusal('agent_message_send', { to_agent_id: 'ada' })).toContain('content is required');
      expect(await mcp.refusal('agent_message_send', { content: 'tea?', to_agent_id: 'ada', type: 'shout' })).toContain(
        'type must be one of',
      );
      const from = { from_agent_id: 'ben', from_session_key: 'ben-1' };
      for (const type of ['assist_request', 'decision_update', 'info', 'question']) {
        const { message } = await send({ content: `${type}!`, to_agent_id: 'ada', type, ...from });
        expect(message).toMatchObject({ fromAgentId: 'ben', fromSessionKey: 'ben-1', toAgentId: 'ada', type, deliveryPath: 'local' });
        expect(message.deliveryStatus).toMatch(/^(queued|delivered)$/);
      }
      expect((await send({ content: 'plain', to_agent_id: 'ada' })).message).toMatchObject({ fromAgentId: 'default', type: 'info' });
    },
  );

  verifies(
    ['mcp.agent_message_send.to_agent_id', 'mcp.agent_message_send.to_session_key', 'mcp.agent_message_send.broadcast'],
    async () => {
      await send({ content: 'to every ada', to_agent_id: 'ada' });
      await send({ content: 'to ada-2 alone', to_session_key: 'ada-2' });
      await send({ content: 'to all of you', broadcast: true });
      const read = async (agent_id: string, session_key: string) => said(await inbox({ agent_id, session_key }));
      expect(await read('ada', 'ada-1')).toEqual(expect.arrayContaining(['to every ada', 'to all of you']));
      expect(await read('ada', 'ada-1')).not.toContain('to ada-2 alone');
      expect(await read('ada', 'ada-2')).toEqual(expect.arrayContaining(['to every ada', 'to ada-2 alone', 'to all of you']));
      expect(await read('ben', 'ben-1')).toEqual(['to all of you']);
    },
  );

  verifies(
    [
      'mcp.agent_message_send.via',
      'mcp.agent_message_send.acp_base_url',
      'mcp.agent_message_send.acp_target_agent_name',
      'mcp.agent_message_send.acp_relay',
      'mcp.agent_message_send.acp_timeout_ms',
    ],
    async () => {
      const runs: { url: string; body: string }[] = [];
      const server = createServer(async (request, response) => {
        let body = '';
        for await (const chunk of request) body += String(chunk);
        runs.push({ url: request.url!, body });
        if (!body.includes('never'))
          response.writeHead(200, { 'content-type': 'application/json' }).end('{"run_id":"r1","status":"completed"}');
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      onTestFinished(() => {
        server.closeAllConnections();
        server.close();
      });
      const { port } = server.address() as AddressInfo;
      const acp = { via: 'acp', acp_base_url: `http://127.0.0.1:${port}`, acp_target_agent_name: 'oracle' };
      const own = await startSignet({ yaml: `crossAgent: { acp: { allowedOrigins: ["http://127.0.0.1:${port}"] } }\n` });
      const there = await connectHttp(own.daemonUrl);
      try {
        expect(await there.refusal('agent_message_send', { ...acp, content: 'hi', acp_base_url: undefined })).toContain('acp_base_url');
        expect(await there.refusal('agent_message_send', { ...acp, content: 'hi', acp_target_agent_name: undefined })).toContain(
          'acp_target_agent_name',
        );
        const { message } = await there.call('agent_message_send', { ...acp, content: 'what now?' });
        expect(message).toMatchObject({ deliveryPath: 'acp', deliveryStatus: 'delivered' });
        expect(runs).toEqual([{ url: '/runs', body: expect.stringContaining('oracle') }]);
        const late = await there.call('agent_message_send', { ...acp, content: 'never answered', acp_timeout_ms: 200 });
        expect(late.message).toMatchObject({ deliveryPath: 'acp', deliveryStatus: 'failed' });
      } finally {
        await there.close();
        await own.close();
      }
    },
  );
});

describe('agent_message_inbox', () => {
  verifies(
    [
      'mcp.agent_message_inbox.agent_id',
      'mcp.agent_message_inbox.session_key',
      'mcp.agent_message_inbox.since',
      'mcp.agent_message_inbox.limit',
      'mcp.agent_message_inbox.include_sent',
      'mcp.agent_message_inbox.include_broadcast',
      'mcp.agent_message_inbox.result',
    ],
    async () => {
      await send({ content: 'for the house', to_agent_id: 'default', from_agent_id: 'cleo' });
      await send({ content: 'for cleo', to_agent_id: 'cleo', from_agent_id: 'default' });
      await send({ content: 'for everybody', broadcast: true, from_agent_id: 'ben' });
      const house = await inbox();
      expect(said(house)).toEqual(expect.arrayContaining(['for everybody', 'for the house']));
      expect(said(house)).not.toContain('for cleo');
      expect(house.count).toBe(house.items.length);
      const cleo = await inbox({ agent_id: 'cleo' });
      expect(said(cleo)).toContain('for cleo');
      expect(said(cleo)).not.toContain('for the house');
      expect(said(await inbox({ agent_id: 'cleo', include_sent: true }))).toContain('for the house');
      expect(said(await inbox({ agent_id: 'cleo', include_broadcast: false }))).toEqual(['for cleo']);
      expect((await inbox({ agent_id: 'cleo', limit: 1 })).items).toHaveLength(1);
      expect(said(await inbox({ agent_id: 'cleo', since: new Date(Date.now() + 60_000).toISOString() }))).toEqual([]);
      expect(said(await inbox({ agent_id: 'cleo', since: cleo.items.at(-1).createdAt }))).toEqual(said(cleo));
    },
  );
});

describe('secrets', () => {
  const exec = (command: string, secrets: Record<string, string> = { TEA: 'TEA' }) => mcp.call('secret_exec', { command, secrets });
  beforeAll(async () => {
    await call('POST', `${signet.daemonUrl}/api/secrets/TEA`, { value: VALUE });
  });

  verifies(['mcp.secret_list.names', 'mcp.secret_list.no-values', 'mcp.secret_list.no-parameters'], async () => {
    expect(await mcp.call('secret_list')).toEqual({ secrets: ['TEA'] });
    expect(await mcp.refusal('secret_list', { reveal: true })).toContain('unknown field reveal; there are none here');
  });

  verifies(
    [
      'mcp.secret_exec.command',
      'mcp.secret_exec.secrets',
      'mcp.secret_exec.reference.name',
      'mcp.secret_exec.redacted',
      'mcp.secret_exec.result',
    ],
    async () => {
      expect(await mcp.refusal('secret_exec', { secrets: { TEA: 'TEA' } })).toContain('command is required');
      expect(await mcp.refusal('secret_exec', { command: 'true' })).toContain('secrets is required');
      expect(await mcp.refusal('secret_exec', { command: 'true', secrets: {} })).toContain('secrets');
      expect(await mcp.refusal('secret_exec', { command: 'true', secrets: { A: 'NOT_THERE' } })).toContain('(secret_not_found)');
      const ran = await exec('test "$CUP" = "sesame-street-42" && echo "it is $CUP"; echo oops >&2; exit 3', { CUP: 'TEA' });
      expect(ran).toMatchObject({ stdout: 'it is [REDACTED]\n', stderr: 'oops\n', code: 3 });
    },
  );
});
