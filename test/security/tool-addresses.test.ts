import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createGuardedFetch } from '../../src/mcp/guarded-fetch.ts';
import { call } from '../conformance/calls.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

let signet: Signet;
beforeAll(async () => {
  signet = await startSignet();
});
afterAll(() => signet.close());

const FORBIDDEN = [
  '169.254.169.254',
  '169.254.1.1',
  '100.100.100.200',
  '0.0.0.0',
  '255.255.255.255',
  '224.0.0.1',
  '[fe80::1]',
  '[fd00:ec2::254]',
  '[::]',
  '[::ffff:169.254.169.254]',
  '[64:ff9b::a9fe:a9fe]',
  '2852039166',
  '0xa9fea9fe',
];

test.each(FORBIDDEN)('an MCP server or a callback at %s is not called', async (host) => {
  const server = await call('POST', `${signet.runtimeUrl}/tools`, { mcpServer: 'cloud', url: `http://${host}/latest/meta-data` });
  expect([server.status, server.body.detail]).toEqual([502, expect.stringContaining('link-local, metadata or reserved')]);
  const callback = { url: `http://${host}/latest/meta-data` };
  const tool = await call('POST', `${signet.runtimeUrl}/tools`, { name: 'cloud', description: '', inputSchema: {}, callback });
  expect([tool.status, tool.body.detail]).toEqual([400, expect.stringContaining('not on this machine')]);
});

test('a redirect does not lead there, nor to any other server', async () => {
  let seen = 0;
  const server = createServer((request, response) => {
    seen += 1;
    request.resume();
    response.writeHead(307, { location: 'http://169.254.169.254/latest/meta-data' }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const answer = await call('POST', `${signet.runtimeUrl}/tools`, { mcpServer: 'moved', url });
  expect([answer.status, answer.body.detail, seen]).toEqual([502, expect.stringContaining('redirects to another server'), 1]);
});

test('the address a name leads to is checked when it is connected to, and a redirect on the same server is followed', async () => {
  const bodies: string[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    bodies.push(`${request.method} ${request.url} ${body}`);
    if (request.url === '/mcp') response.writeHead(308, { location: '/mcp/' }).end();
    else response.writeHead(200, { 'x-a': 'b' }).end('hello');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;

  const send = createGuardedFetch(async () => [{ address: '127.0.0.1', family: 4 }]);
  const first = await send(`http://tools.example:${port}/mcp`, { method: 'POST', body: 'x', headers: { connection: 'close' } });
  expect([first.status, first.headers.get('x-a'), await first.text()]).toEqual([200, 'b', 'hello']);
  expect(bodies).toEqual(['POST /mcp x', 'POST /mcp/ x']);
});

test('a name that leads to a forbidden address besides others is not called', async () => {
  const addresses = [['169.254.169.254'], ['127.0.0.1', '169.254.169.254']];
  const send = createGuardedFetch(async () => addresses.shift()!.map((address) => ({ address, family: 4 })));
  for (let name = 0; name < 2; name += 1) await expect(send('http://tools.example:9/')).rejects.toThrow(/link-local, metadata/);
});
