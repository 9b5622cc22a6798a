import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import type { InputOf } from '../../src/contract/operation.ts';
import { findRoute, relayMessage } from '../../src/daemon/cross-agent-acp.ts';
import { verifies } from '../conformance/verifies.ts';
import { startDaemon } from '../helpers/daemon-fixture.ts';

/** The deadline of a relay that must not run into it. */
const AMPLE_MS = 60_000;

interface AcpServer {
  readonly origin: string;
  readonly port: number;
  readonly runs: { path: string | undefined; body: Record<string, unknown>; headers: IncomingMessage['headers'] }[];
}

/** A real server of the protocol; `answer` writes what it says to a run. */
async function serveAcp(answer: (response: ServerResponse) => void): Promise<AcpServer> {
  const runs: AcpServer['runs'] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    runs.push({ path: request.url, body: JSON.parse(Buffer.concat(chunks).toString() || '{}'), headers: request.headers });
    answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close().closeAllConnections());
  const { port } = server.address() as AddressInfo;
  return { origin: `http://127.0.0.1:${port}`, port, runs };
}

const json = (status: number, body: unknown) => (response: ServerResponse) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

const completed = json(200, {
  run_id: 'run_1',
  agent_name: 'helper',
  status: 'completed',
  output: [
    {
      role: 'agent/helper',
      parts: [
        { content_type: 'text/plain', content: 'On it.' },
        { content_type: 'image/png', content: 'xxx' },
      ],
    },
  ],
});

function startRelay(allowedOrigins: readonly string[]) {
  const daemon = startDaemon({ 'agent.yaml': JSON.stringify({ crossAgent: { acp: { allowedOrigins } } }) });
  const send = async (acp_base_url: string, more: Partial<InputOf<typeof ops.sendAgentMessage>> = {}) => {
    const draft = { content: 'Please help.', fromAgentId: 'dot', via: 'acp' as const, acp_target_agent_name: 'helper', ...more };
    return (await daemon.call(ops.sendAgentMessage, { acp_base_url, ...draft })).message;
  };
  return { daemon, send };
}

verifies(['mcp.agent_message_send.acp_relay', 'mcp.agent_message_send.via'], async () => {
  const server = await serveAcp(completed);
  const { daemon, send } = startRelay([server.origin]);
  const message = await send(`${server.origin}/api/`, {
    type: 'assist_request',
    fromSessionKey: 'secret-key',
    acp: { metadata: { ticket: 7 } },
  });
  expect(message).toMatchObject({
    deliveryPath: 'acp',
    deliveryStatus: 'delivered',
    deliveryReceipt: { origin: server.origin, agentName: 'helper', runId: 'run_1', runStatus: 'completed', reply: 'On it.' },
    recipients: 0,
  });
  expect(message).not.toHaveProperty('toAgentId');
  expect(server.runs).toHaveLength(1);
  expect(server.runs[0]).toMatchObject({
    path: '/api/runs',
    body: {
      agent_name: 'helper',
      mode: 'sync',
      input: [{ role: 'user', parts: [{ content_type: 'text/plain', content: 'Please help.' }] }],
      metadata: { ticket: 7, from_agent_id: 'dot', message_id: message.id, type: 'assist_request' },
    },
  });
  expect(JSON.stringify(server.runs[0])).not.toContain('secret-key');
  // It is nobody's here, and the sender can look at what became of it.
  expect((await daemon.call(ops.listAgentMessages, { agentId: 'helper' })).count).toBe(0);
  const sent = await daemon.call(ops.listAgentMessages, { agentId: 'dot', include_sent: true });
  expect(sent.items).toMatchObject([{ id: message.id, deliveryStatus: 'delivered', deliveryReceipt: { reply: 'On it.' } }]);
  // Local is the default.
  await daemon.call(ops.sendAgentMessage, { content: 'here', toAgentId: 'default' });
  expect((await daemon.call(ops.listAgentMessages, {})).items[0]).toMatchObject({ deliveryPath: 'local' });
});

describe('an answer that is none', () => {
  test.each([
    ['a refusal', json(404, { code: 'not_found', message: 'no agent\n"helper"' }), 'refused', 'it answered 404: no agent "helper"'],
    [
      'a failed run',
      json(200, { run_id: 'r', status: 'failed', output: [], error: { message: 'boom' } }),
      'run_failed',
      'the run is failed: boom',
    ],
    ['no JSON', (response: ServerResponse) => response.end('<html>'), 'answer_invalid', 'its answer is not a run'],
    ['another JSON', json(200, ['run']), 'answer_invalid', 'its answer is not a run'],
    ['too much', (response: ServerResponse) => response.end('x'.repeat(1_100_000)), 'answer_too_large', 'larger than 1048576 bytes'],
    ['a broken connection', (response: ServerResponse) => response.destroy(), 'unreachable', 'ECONNRESET'],
  ] as const)('is stored as failed: %s', async (_name, answer, code, words) => {
    const server = await serveAcp(answer);
    const { send } = startRelay([server.origin]);
    const message = await send(server.origin);
    expect(message).toMatchObject({ deliveryStatus: 'failed', deliveryError: { code, message: expect.stringContaining(words) } });
  });

  test('a redirect is not followed', async () => {
    const other = await serveAcp(completed);
    const server = await serveAcp((response) => response.writeHead(307, { location: `${other.origin}/runs` }).end());
    const { send } = startRelay([server.origin, other.origin]);
    expect(await send(server.origin)).toMatchObject({ deliveryStatus: 'failed', deliveryError: { code: 'redirected' } });
    expect(other.runs).toEqual([]);
  });

  test('nobody listens', async () => {
    const { send } = startRelay(['http://127.0.0.1:9']);
    expect(await send('http://127.0.0.1:9')).toMatchObject({
      deliveryStatus: 'failed',
      deliveryError: { code: 'unreachable', message: 'ECONNREFUSED' },
    });
  });
});

verifies('mcp.agent_message_send.acp_timeout_ms', async () => {
  const server = await serveAcp(() => undefined);
  const { send } = startRelay([server.origin]);
  const message = await send(server.origin, { acp_timeout_ms: 50 });
  expect(message).toMatchObject({ deliveryStatus: 'failed', deliveryError: { code: 'timeout' } });
});

test('an answer that trickles does not outlive the deadline', async () => {
  const server = await serveAcp((response) => {
    response.writeHead(200).write('{');
    const timer = setInterval(() => response.write(' '), 5);
    response.on('close', () => clearInterval(timer));
  });
  const { send } = startRelay([server.origin]);
  expect(await send(server.origin, { acp: { timeoutMs: 100 } })).toMatchObject({
    deliveryStatus: 'failed',
    deliveryError: { code: 'timeout' },
  });
});

describe('a relay is refused, and nothing is stored', () => {
  test.each([
    ['http://127.0.0.1:1', 'relay_forbidden', 'crossAgent.acp.allowedOrigins'],
    ['https://agents.example.com.evil.test', 'relay_forbidden', 'may not be relayed'],
    ['https://user:pw@agents.example.com', 'invalid_request', 'must not hold a user or password'],
    ['https://agents.example.com/?to=x', 'invalid_request', 'must not hold a query'],
    ['file:///etc/passwd', 'invalid_request', 'must be a URL that begins with https://'],
    ['agents', 'invalid_request', 'must be a URL'],
    ['http://169.254.169.254', 'relay_forbidden', 'forbidden address'],
  ])('to %s', async (url, code, words) => {
    const { daemon, send } = startRelay(['https://agents.example.com', 'http://169.254.169.254']);
    await expect(send(url)).rejects.toMatchObject({ code, detail: expect.stringContaining(words) });
    expect((await daemon.call(ops.listAgentMessages, { agentId: 'dot', include_sent: true })).count).toBe(0);
  });

  const target = { baseUrl: 'https://agents.example.com', agentName: 'helper', timeoutMs: AMPLE_MS };
  const resolver =
    (...addresses: string[]) =>
    async () =>
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));

  test.each(['127.0.0.1', '10.0.0.5', '169.254.169.254', '::1', 'fe80::1', '::ffff:127.0.0.1'])(
    'when the name leads to %s',
    async (address) => {
      const asked = findRoute(target, [target.baseUrl], AbortSignal.timeout(AMPLE_MS), resolver('93.184.216.34', address));
      await expect(asked).rejects.toMatchObject({
        code: 'relay_forbidden',
        detail: expect.stringContaining(`agents.example.com leads to ${address}`),
      });
    },
  );

  test('a name that does not resolve is no refusal', async () => {
    const fault = Object.assign(new Error('x'), { code: 'ENOTFOUND' });
    const route = await findRoute(target, [target.baseUrl], AbortSignal.timeout(AMPLE_MS), () => Promise.reject(fault));
    expect(route.fault).toEqual({ code: 'unresolved', message: 'agents.example.com does not resolve: ENOTFOUND' });
  });

  test('a resolver that never answers is given up', async () => {
    const route = await findRoute(target, [target.baseUrl], AbortSignal.timeout(20), () => new Promise(() => undefined));
    expect(route.fault).toMatchObject({ code: 'timeout' });
  });
});

test('the address that was checked is the one that is called, whatever the name leads to by then', async () => {
  const server = await serveAcp(completed);
  let asked = 0;
  const resolve = async () => {
    asked += 1;
    return [{ address: asked === 1 ? '127.0.0.1' : '169.254.169.254', family: 4 }];
  };
  const baseUrl = `http://localhost:${server.port}`;
  const signal = AbortSignal.timeout(AMPLE_MS);
  const route = await findRoute({ baseUrl, agentName: 'helper', timeoutMs: AMPLE_MS }, [baseUrl], signal, resolve);
  const outcome = await relayMessage(route, { id: 'msg_1', fromAgentId: 'dot', type: 'info', content: 'x' }, undefined, signal);
  expect(outcome).toMatchObject({ status: 'delivered' });
  expect(asked).toBe(1);
  expect(server.runs[0]?.headers.host).toBe(`localhost:${server.port}`);
});

test('a relay that was under way when the daemon ended is failed, and not sent again', async () => {
  const server = await serveAcp(() => undefined);
  const { daemon, send } = startRelay([server.origin]);
  const sending = send(server.origin).catch(() => undefined);
  await expect.poll(() => server.runs.length, { timeout: AMPLE_MS }).toBe(1);
  daemon.reopen();
  const { items } = await daemon.call(ops.listAgentMessages, { agentId: 'dot', include_sent: true });
  expect(items).toMatchObject([{ deliveryStatus: 'failed', deliveryError: { code: 'interrupted' } }]);
  expect(server.runs).toHaveLength(1);
  void sending;
});
