import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { isAlive } from '../../src/cli/workspace.ts';
import { MCP_BODY_BYTES_MAX } from '../../src/mcp/server-route.ts';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';
import { connectHttp } from '../helpers/mcp-connection.ts';
import { rawRequest } from '../helpers/raw-http.ts';
import { openSse } from '../helpers/sse-client.ts';

const POLL = { timeout: 20_000 };
const JSON_TYPE = { 'content-type': 'application/json' };

const rpc = (method: string, params: object = {}, id: number | string = 1) => ({ jsonrpc: '2.0', id, method, params });
const version = (name: string) => ({ 'mcp-protocol-version': name });
const search = (query: string, id: number) => rpc('tools/call', { name: 'memory_search', arguments: { query } }, id);

describe('one message', () => {
  test('is answered as JSON, without initialize and without a session', async () => {
    const daemon = await serveDaemon();
    const { status, headers, body } = await daemon.post('/mcp', rpc('tools/list'));
    expect([status, headers.get('content-type'), headers.get('mcp-session-id')]).toEqual([200, 'application/json; charset=utf-8', null]);
    expect(body).toMatchObject({ jsonrpc: '2.0', id: 1, result: { tools: expect.any(Array) } });
  });

  test('is answered as an event to a client that takes nothing else', async () => {
    const daemon = await serveDaemon();
    const { headers, body } = await daemon.post('/mcp', rpc('ping'), { accept: 'text/event-stream' });
    expect(headers.get('content-type')).toBe('text/event-stream');
    expect(body).toBe('event: message\ndata: {"result":{},"jsonrpc":"2.0","id":1}\n\n');
  });

  test('that wants no answer gets 202 and no body', async () => {
    const daemon = await serveDaemon();
    for (const message of [
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 9, result: {} },
    ])
      expect(await daemon.post('/mcp', message)).toMatchObject({ status: 202, body: '' });
  });

  test.each([
    ['text', '"hello"', -32_600],
    ['no version', '{"id":1,"method":"ping"}', -32_600],
    ['a method that is a number', '{"jsonrpc":"2.0","id":1,"method":7}', -32_600],
    ['nothing', '', -32_700],
  ])('that is none (%s) is refused in words of the protocol', async (_what, body, code) => {
    const daemon = await serveDaemon();
    const answer = await rawRequest(daemon.port, { method: 'POST', path: '/mcp', headers: JSON_TYPE, body });
    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({ jsonrpc: '2.0', error: { code } });
  });

  test('of an unknown method, tool or resource is a protocol error', async () => {
    const daemon = await serveDaemon();
    const code = async (message: object) => (await daemon.post('/mcp', message)).body.error.code;
    expect(await code(rpc('tools/burn'))).toBe(-32_601);
    expect(await code(rpc('tools/call', { name: 'memory_burn', arguments: {} }))).toBe(-32_602);
    expect(await code(rpc('tools/call', { arguments: {} }))).toBe(-32_602);
    expect(await code(rpc('tools/call', { name: 'memory_list', arguments: [] }))).toBe(-32_602);
    expect(await code(rpc('resources/read'))).toBe(-32_602);
    expect(await code(rpc('resources/read', { uri: 'signet://agents/default/PASSWORDS.md' }))).toBe(-32_002);
    expect(await code(rpc('resources/read', { uri: 'file:///etc/passwd' }))).toBe(-32_002);
  });

  test('is refused at the door like any other request', async () => {
    const { port, post } = await serveDaemon();
    const body = JSON.stringify(rpc('tools/list'));
    const send = async (headers: Record<string, string>) =>
      (await rawRequest(port, { method: 'POST', path: '/mcp', headers, body })).status;
    expect(await send({ 'content-type': 'text/plain' })).toBe(415);
    expect(await send({})).toBe(415);
    expect(await send({ ...JSON_TYPE, host: 'evil.example' })).toBe(421);
    expect(await send({ ...JSON_TYPE, origin: 'https://evil.example' })).toBe(403);
    expect(await send({ ...JSON_TYPE, accept: 'text/html' })).toBe(406);
    expect(await send({ ...JSON_TYPE, ...version('1999-01-01') })).toBe(400);
    expect((await post('/mcp', rpc('ping', { filler: 'x'.repeat(MCP_BODY_BYTES_MAX) }))).status).toBe(413);
    expect((await rawRequest(port, { method: 'POST', path: '/mcp', headers: JSON_TYPE, body: '{"jsonrpc"' })).status).toBe(400);
  });

  test('of every version of the protocol is understood', async () => {
    const { post } = await serveDaemon();
    for (const name of ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']) {
      const params = { protocolVersion: name, capabilities: {}, clientInfo: { name: 'test', version: '1' } };
      expect((await post('/mcp', rpc('initialize', params))).body.result).toMatchObject({ protocolVersion: name });
      expect((await post('/mcp', rpc('ping'), version(name))).status).toBe(200);
    }
  });
});

describe('a batch', () => {
  test('of 2025-03-26 is answered in its order; what is wrong in it, by itself', async () => {
    const daemon = await serveDaemon();
    const note = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 2 } };
    const batch = [
      search('tea', 2),
      note,
      rpc('ping', {}, 'three'),
      { jsonrpc: '2.0', id: 4 },
      rpc('ping', {}, 2),
      rpc('initialize', init, 5),
    ];
    const { status, body } = await daemon.post('/mcp', batch, version('2025-03-26'));
    expect(status).toBe(200);
    expect(body.map(({ id, error }: { id: unknown; error?: { code: number } }) => [id, error?.code])).toEqual([
      [2, undefined],
      ['three', undefined],
      [4, -32_600],
      [2, -32_600],
      [5, -32_600],
    ]);
    expect((await daemon.post('/mcp', [rpc('ping')])).body).toEqual([{ jsonrpc: '2.0', id: 1, result: {} }]);
    expect((await daemon.post('/mcp', [{ jsonrpc: '2.0', method: 'notifications/initialized' }])).status).toBe(202);
  });

  const init = { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'test', version: '1' } };

  test('is refused by later versions, when it is empty, and when it is too long', async () => {
    const daemon = await serveDaemon();
    for (const [batch, name] of [
      [[rpc('ping')], '2025-06-18'],
      [[], '2025-03-26'],
      [Array(101).fill(rpc('ping')), '2025-03-26'],
    ] as const)
      expect(await daemon.post('/mcp', batch, version(name))).toMatchObject({ status: 400, body: { error: { code: -32_600 } } });
  });
});

describe('arguments of a tool', () => {
  test.each([
    ['memory_search', { query: 7 }, 'query must be string, not number'],
    ['memory_search', { query: 'a', limit: 'many' }, 'limit must be number'],
    ['memory_search', { query: 'a', limt: 3 }, 'unknown field limt; the fields are query, limit, type, min_score'],
    ['memory_store', { content: '   ' }, 'content'],
    ['memory_store', { content: 'a', importance: 2 }, 'importance'],
    ['memory_modify', { id: 'x', reason: 'y' }, 'nothing to change; give content, type, importance or tags'],
    ['session_bypass', { session_key: 'a', enabled: 'yes' }, 'enabled must be boolean, not string'],
    ['config_read', { section: 'nothing' }, 'section: there is no "nothing"'],
    ['agent_message_send', { content: 'hello', to_agent_id: 'a', type: 'shout' }, 'type must be one of assist_request'],
  ])('%s %j fails with words that name the field', async (name, input, said) => {
    const mcp = await connectHttp((await serveDaemon()).url);
    expect(await mcp.refusal(name, input)).toContain(`${name} failed: ${said}`);
    await mcp.close();
  });

  test('hold on whose behalf the caller speaks', async () => {
    const daemon = await serveDaemon();
    const headers = { 'x-signet-agent-id': 'scout', 'x-signet-harness': 'claude-code', 'x-signet-workspace': '/projects/Füße' };
    const scout = await connectHttp(daemon.url, { ...headers, 'x-signet-workspace': '/projects/app', 'x-signet-channel': 'main' });
    const { id, agentId, who, project } = await scout.call('memory_store', { content: 'The scout saw a heron.' });
    expect({ agentId, who, project }).toEqual({ agentId: 'scout', who: 'scout', project: '/projects/app' });
    const { history } = (await daemon.get(`/api/memory/${id}`)).body;
    expect(history).toMatchObject([{ event: 'created', changedBy: 'scout', actorType: 'harness' }]);
    await scout.call('memory_modify', { id, reason: 'seen again', importance: 1 });
    expect((await daemon.get(`/api/memory/${id}`)).body.history[1]).toMatchObject({ changedBy: 'mcp-server', actorType: 'harness' });
    await scout.close();
    const wrong = await daemon.post('/mcp', search('heron', 1), { 'x-signet-agent-id': 'No Agent!' });
    expect(wrong.body.result).toMatchObject({ isError: true, content: [{ text: expect.stringContaining('x-signet-agent-id') }] });
    const byQuery = { name: 'memory_store', arguments: { content: 'A kite in the tree.' } };
    const { structuredContent } = (await daemon.post('/mcp?agent=scout&harness=web', rpc('tools/call', byQuery))).body.result;
    expect(structuredContent).toMatchObject({ agentId: 'scout', who: 'scout' });
  });
});

describe('rights of a token', () => {
  const tokens = { reader: 'readonly', writer: 'agent', boss: 'operator' } as const;
  const call = (daemon: DaemonServer, token: string, name: string, input: object) =>
    daemon.post('/mcp', rpc('tools/call', { name, arguments: input }), { authorization: `Bearer ${token}` });

  test('are those of the operations a tool calls', async () => {
    const daemon = await serveDaemon({ tokens });
    expect((await daemon.post('/mcp', rpc('tools/list'))).status).toBe(401);
    const isError = async (token: string, name: string, input: object) =>
      (await call(daemon, token, name, input)).body.result.content[0].text.includes('(forbidden)');
    expect(await isError('reader', 'memory_search', { query: 'tea' })).toBe(false);
    expect(await isError('reader', 'memory_store', { content: 'likes tea' })).toBe(true);
    expect(await isError('writer', 'memory_store', { content: 'likes tea' })).toBe(false);
    expect(await isError('writer', 'session_bypass', { session_key: 'a', enabled: true })).toBe(true);
    expect(await isError('writer', 'config_read', {})).toBe(true);
    expect(await isError('writer', 'secret_exec', { command: 'env', secrets: { A: 'A' } })).toBe(true);
    expect(await isError('boss', 'config_read', {})).toBe(false);
  });
});

describe('a client that goes', () => {
  test('takes the work it asked for with it', async () => {
    const daemon = await serveDaemon();
    await daemon.post('/api/secrets/TEA', { value: 'oolong-and-more' });
    const file = join(daemon.folder, 'pid');
    const input = { command: `echo $$ > '${file}.new' && mv '${file}.new' '${file}' && sleep 300`, secrets: { TEA: 'TEA' } };
    const sent = request(`${daemon.url}/mcp`, { method: 'POST', headers: JSON_TYPE, agent: false });
    sent.on('error', () => {}); // We hang up.
    sent.end(JSON.stringify(rpc('tools/call', { name: 'secret_exec', arguments: input })));
    await expect.poll(() => existsSync(file), POLL).toBe(true);
    const pid = Number(readFileSync(file, 'utf8'));
    expect(isAlive(pid)).toBe(true);
    sent.destroy();
    await expect.poll(() => isAlive(pid), POLL).toBe(false);
    expect((await daemon.post('/mcp', rpc('ping'))).status).toBe(200);
  });
});

describe('GET /mcp', () => {
  test('stays open and tells when the resources of the agent change', async () => {
    const daemon = await serveDaemon({ files: { 'SOUL.md': 'Calm.' } });
    const mcp = await connectHttp(daemon.url);
    const uri = 'signet://agents/default/SOUL.md';
    expect((await mcp.client.listResources()).resources).toMatchObject([{ uri, name: 'SOUL.md', mimeType: 'text/markdown' }]);
    expect((await mcp.client.readResource({ uri })).contents).toEqual([{ uri, mimeType: 'text/markdown', text: 'Calm.' }]);
    await mcp.client.subscribeResource({ uri });
    const stream = await openSse(`${daemon.url}/mcp`);
    expect([stream.status, stream.headers['content-type']]).toEqual([200, 'text/event-stream; charset=utf-8']);
    // The first look has to come before the change; the file is written again until it is seen.
    const write = setInterval(() => writeFileSync(join(daemon.folder, 'SOUL.md'), `Calm since ${performance.now()}.`), 500);
    const told = await stream.until(({ event, data }) => event === 'message' && data.method === 'notifications/resources/updated');
    clearInterval(write);
    expect(told.data).toEqual({ jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri } });
    writeFileSync(join(daemon.folder, 'MEMORY.md'), 'Likes tea.');
    await stream.until(({ data }) => data.method === 'notifications/resources/list_changed');
    rmSync(join(daemon.folder, 'MEMORY.md'));
    await expect.poll(() => stream.frames.filter(({ data }) => String(data.method).endsWith('list_changed')).length, POLL).toBe(2);
    stream.close();
    await mcp.close();
  }, 60_000);

  test('is for event streams alone', async () => {
    const { get, call, url } = await serveDaemon();
    expect((await get('/mcp', { accept: 'application/json' })).status).toBe(406);
    expect((await get('/mcp', { accept: 'text/event-stream', ...version('0') })).status).toBe(400);
    expect(await call('DELETE', '/mcp')).toMatchObject({ status: 200, body: '' });
    expect((await (await connectHttp(url)).client.ping()) ?? null).toEqual({});
  });
});
