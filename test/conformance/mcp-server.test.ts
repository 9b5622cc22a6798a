import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { connectHttp, connectStdio, SIGNET_MCP } from '../helpers/mcp-connection.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { openSse } from '../helpers/sse-client.ts';
import { call } from './calls.ts';
import { verifies } from './verifies.ts';

const PROCESS_TIMEOUT_MS = 90_000;
/** spec/mcp-server, "Discovery Protocol": word for word. */
const INITIALIZE =
  '{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":"2025-03-26","clientInfo":{"name":"test","version":"1.0"},"capabilities":{}},"id":1}';
const ANSWER = {
  jsonrpc: '2.0',
  id: 1,
  result: {
    protocolVersion: '2025-03-26',
    instructions: expect.any(String),
    serverInfo: expect.objectContaining({ name: 'signet' }),
    capabilities: { tools: expect.anything(), resources: expect.anything() },
  },
};

let signet: Signet;
beforeAll(async () => {
  signet = await startSignet();
});
afterAll(() => signet.close());

/** `echo <line> | signet-mcp`: what it wrote, line by line. */
function pipe(lines: readonly string[], env: Record<string, string>): Promise<{ code: number; out: string[]; err: string }> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [SIGNET_MCP],
      { env: { PATH: process.env.PATH, HOME: tempFolder(), ...env } },
      (error, out, err) => resolve({ code: Number(error?.code ?? 0), out: out.split('\n').slice(0, -1), err }),
    );
    child.stdin!.end(`${lines.join('\n')}\n`);
  });
}

const toolCall = (name: string, input: object, id = 2) =>
  JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: input } });

describe('Streamable HTTP', () => {
  verifies(['mcp.http.post', 'mcp.initialize', 'mcp.http.stateless', 'mcp.http.delete', 'mcp.http.get'], async () => {
    const url = `${signet.daemonUrl}/mcp`;
    const accept = { accept: 'application/json, text/event-stream' };
    const answer = await call('POST', url, JSON.parse(INITIALIZE), accept);
    expect([answer.status, answer.headers.get('mcp-session-id'), answer.body]).toEqual([200, null, ANSWER]);

    const stream = await openSse(url);
    expect([stream.status, stream.headers['content-type']]).toEqual([200, 'text/event-stream; charset=utf-8']);
    // No initialize came before this one as far as the server knows: what was said in another request is gone.
    const ping = { jsonrpc: '2.0', id: 'a', method: 'ping' };
    expect((await call('POST', url, ping, { ...accept, 'mcp-session-id': 'made-up' })).body).toEqual({
      jsonrpc: '2.0',
      id: 'a',
      result: {},
    });
    expect((await call('DELETE', url)).status).toBe(200);
    expect((await call('POST', url, ping, accept)).status).toBe(200);
    const isOpen = Symbol('open');
    expect(await Promise.race([stream.closed, new Promise((resolve) => setImmediate(resolve, isOpen))])).toBe(isOpen);
    stream.close();
  });
});

describe('signet-mcp', () => {
  verifies(
    ['mcp.stdio.initialize', 'mcp.stdio.json-rpc'],
    async () => {
      const { code, out, err } = await pipe([INITIALIZE], { SIGNET_DAEMON_URL: signet.daemonUrl });
      expect([code, out.map((line) => JSON.parse(line)), err]).toEqual([0, [ANSWER], '']);
      const mixed = await pipe([INITIALIZE, 'hello', '', '{"jsonrpc":"2.0","id":7,"method":"nothing"}', toolCall('memory_list', {})], {
        SIGNET_DAEMON_URL: signet.daemonUrl,
      });
      const answers = mixed.out.map((line) => JSON.parse(line)).map(({ id, error }) => [id, error?.code]);
      expect(answers.sort()).toEqual(
        [
          [1, undefined],
          [null, -32_700],
          [7, -32_601],
          [2, undefined],
        ].sort(),
      );
    },
    PROCESS_TIMEOUT_MS,
  );

  verifies(
    ['mcp.stdio.daemon-required', 'mcp.error'],
    async () => {
      const { code, out } = await pipe([INITIALIZE, toolCall('memory_search', { query: 'tea' })], {
        SIGNET_DAEMON_URL: 'http://127.0.0.1:9',
      });
      const answers = out.map((line) => JSON.parse(line));
      expect([code, answers.length]).toEqual([0, 2]);
      expect(answers.find(({ id }) => id === 1)).toEqual(ANSWER);
      const { isError, content } = answers.find(({ id }) => id === 2).result;
      expect(isError).toBe(true);
      expect(content[0].text).toMatch(
        /^memory_search failed: http:\/\/127\.0\.0\.1:9 does not answer .*signet start \(daemon_unreachable\)$/,
      );
    },
    PROCESS_TIMEOUT_MS,
  );

  verifies(
    ['mcp.stdio.env.daemon-url', 'mcp.stdio.env.host', 'mcp.stdio.env.port', 'mcp.manual-setup'],
    async () => {
      const { port } = new URL(signet.daemonUrl);
      const byHttp = await connectHttp(signet.daemonUrl);
      const { tools } = await byHttp.client.listTools();
      const { id } = await byHttp.call('memory_store', { content: 'The kettle stands on the left.' });
      const ways: Record<string, string>[] = [
        { SIGNET_DAEMON_URL: signet.daemonUrl },
        { SIGNET_HOST: '127.0.0.1', SIGNET_PORT: port },
        { SIGNET_PORT: port },
      ];
      for (const env of [...ways, { SIGNET_PATH: signet.folder }]) {
        const mcp = await connectStdio({ ...env, HOME: tempFolder() });
        expect((await mcp.client.listTools()).tools).toEqual(tools);
        expect(await mcp.call('memory_get', { id })).toMatchObject({ content: 'The kettle stands on the left.' });
        await mcp.close();
      }
      const elsewhere = await connectStdio({ SIGNET_HOST: '127.0.0.9', SIGNET_PORT: port, HOME: tempFolder() });
      expect(await elsewhere.refusal('memory_get', { id })).toContain(`http://127.0.0.9:${port} does not answer`);
      await elsewhere.close();
      await byHttp.close();
    },
    PROCESS_TIMEOUT_MS,
  );
});

describe('a tool call', () => {
  /** Stands where a daemon would, and keeps the headers of what reaches it. */
  async function listen(answers: boolean): Promise<{ url: string; seen: IncomingHttpHeaders[] }> {
    const seen: IncomingHttpHeaders[] = [];
    const server = createServer((request, response) => {
      seen.push(request.headers);
      if (answers) response.end('{"memories":[],"total":0,"next":null,"stats":{"total":0,"withEmbeddings":0,"critical":0}}');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
  }

  verifies(
    ['mcp.header.runtime-path', 'mcp.header.actor', 'mcp.header.actor-type'],
    async () => {
      const { url, seen } = await listen(true);
      const env = { SIGNET_AGENT_ID: 'scout', SIGNET_HARNESS: 'zed', SIGNET_WORKSPACE: '/projects/Füße', SIGNET_CHANNEL: 'main' };
      const mcp = await connectStdio({ SIGNET_DAEMON_URL: url, SIGNET_TOKEN: 'sesame', HOME: tempFolder(), ...env });
      await mcp.call('memory_list');
      expect(seen).toEqual([
        expect.objectContaining({
          'x-signet-runtime-path': 'plugin',
          'x-signet-actor': 'mcp-server',
          'x-signet-actor-type': 'harness',
          'x-signet-agent-id': 'scout',
          'x-signet-harness': 'zed',
          'x-signet-workspace': encodeURIComponent('/projects/Füße'),
          'x-signet-channel': 'main',
          authorization: 'Bearer sesame',
        }),
      ]);
      await mcp.close();
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'is recorded by the daemon as a call of the MCP server, for its agent and harness',
    async () => {
      const { port } = new URL(signet.daemonUrl);
      const env = { SIGNET_AGENT_ID: 'scout', SIGNET_HARNESS: 'zed', SIGNET_WORKSPACE: '/projects/boat' };
      const mcp = await connectStdio({ SIGNET_PORT: port, HOME: tempFolder(), ...env });
      const { id } = await mcp.call('memory_store', { content: 'The mast is spruce.' });
      await mcp.call('memory_modify', { id, reason: 'checked', content: 'The mast is larch.' });
      await mcp.close();
      const memory = (await call('GET', `${signet.daemonUrl}/api/memory/${id}`)).body;
      expect(memory).toMatchObject({ agentId: 'scout', project: '/projects/boat' });
      const { history } = (await call('GET', `${signet.daemonUrl}/api/memory/${id}/history`)).body;
      expect(JSON.stringify(history)).toContain('mcp-server');
    },
    PROCESS_TIMEOUT_MS,
  );

  verifies(
    'mcp.timeout',
    async () => {
      const { url, seen } = await listen(false);
      const mcp = await connectStdio({ SIGNET_DAEMON_URL: url, HOME: tempFolder() });
      expect(await mcp.refusal('memory_list')).toBe('memory_list failed: listMemories was not answered within 10000 ms (timeout)');
      expect(seen).toHaveLength(1);
      await mcp.close();
    },
    PROCESS_TIMEOUT_MS,
  );

  test('brings the token of its workspace where the daemon asks for one', async () => {
    const daemon = await startSignet({ env: { SIGNET_AUTH_MODE: 'team' } });
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    expect((await call('POST', `${daemon.daemonUrl}/mcp`, list)).status).toBe(401);
    const mcp = await connectStdio({ SIGNET_PATH: daemon.folder, HOME: daemon.folder });
    expect(await mcp.call('memory_store', { content: 'The gate is locked.' })).toMatchObject({ content: 'The gate is locked.' });
    await mcp.close();
    const stranger = await connectStdio({ SIGNET_DAEMON_URL: daemon.daemonUrl, HOME: tempFolder() });
    expect(await stranger.refusal('memory_list')).toContain('(unauthorized)');
    await stranger.close();
    await daemon.close();
  }, 90_000);

  test('reaches a daemon that is started later, or again at another port', async () => {
    const folder = tempFolder();
    const mcp = await connectStdio({ SIGNET_PATH: folder, HOME: folder });
    expect(await mcp.refusal('diagnostics')).toBe(
      `diagnostics failed: no daemon runs on ${folder}. Start it with: signet start (daemon_unreachable)`,
    );
    for (let start = 0; start < 2; start += 1) {
      const daemon = await startSignet({ folder });
      expect(await mcp.call('diagnostics')).toMatchObject({ status: 'healthy' });
      // What told the daemon to take any port that is free is no address.
      const anyPort = await connectStdio({ SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_HOST: '127.0.0.1', HOME: folder });
      expect(await anyPort.call('diagnostics')).toMatchObject({ status: 'healthy' });
      await anyPort.close();
      await daemon.close();
    }
    await mcp.close();
  }, 90_000);
});
