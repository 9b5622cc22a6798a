import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type IncomingMessage, request as requestHttp } from 'node:http';
import { createServer, request as requestHttps } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createRuntimeClient } from '../../src/client/runtime-client.ts';
import { startGuarded } from '../helpers/auth-rig.ts';

const NAME = 'signet.test';

/** A certificate of its own for `signet.test` and `localhost`, as PEM. */
function makeCertificate(): { key: string; cert: string } {
  const folder = mkdtempSync(join(tmpdir(), 'signet-proxy-'));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1'];
  const subject = ['-subj', `/CN=${NAME}`, '-addext', `subjectAltName=DNS:${NAME},DNS:localhost`];
  execFileSync('openssl', ['req', '-x509', ...kind, ...subject, '-keyout', key, '-out', cert], { stdio: 'ignore' });
  const pair = { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
  rmSync(folder, { recursive: true });
  return pair;
}

/** Ends TLS in front of `target` as nginx and Caddy do: host kept, the caller's address and scheme added, upgrades and streams passed on as they come. */
async function startTlsProxy(target: string, pair: { key: string; cert: string }) {
  const open = new Set<Duplex>();
  const pass = (request: IncomingMessage) =>
    requestHttp(`${target}${request.url}`, {
      method: request.method ?? 'GET',
      headers: { ...request.headers, 'x-forwarded-for': request.socket.remoteAddress, 'x-forwarded-proto': 'https' },
    });
  const server = createServer(pair, (request, response) => {
    const onward = pass(request);
    onward.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  server.on('upgrade', (request: IncomingMessage, socket: Duplex) => {
    const onward = pass(request);
    onward.on('upgrade', (answer, upstream) => {
      const lines = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`);
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`);
      upstream.pipe(socket).pipe(upstream);
      upstream.on('error', () => socket.destroy());
      socket.on('error', () => upstream.destroy());
    });
    onward.on('response', (answer) => socket.end(`HTTP/1.1 ${answer.statusCode} Refused\r\nconnection: close\r\n\r\n`));
    onward.on('error', () => socket.destroy());
    onward.end();
  });
  server.on('secureConnection', (socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}

describe.each(['team', 'hybrid'])('mode %s behind a proxy that ends TLS', (mode) => {
  const start = async () => {
    const pair = makeCertificate();
    const rig = await startGuarded(`auth: { mode: ${mode} }\ndaemon: { allowedHosts: [${NAME}], allowedOrigins: ["https://${NAME}"] }\n`);
    const [daemonPort, runtimePort] = [await startTlsProxy(rig.daemonUrl, pair), await startTlsProxy(rig.runtimeUrl, pair)];
    const before = getCACertificates('default');
    setDefaultCACertificates([...before, pair.cert]);
    onTestFinished(() => setDefaultCACertificates(before));
    /** By the public name, as a caller elsewhere sends it. */
    const ask = async (port: number, path: string, headers: Readonly<Record<string, string>> = {}): Promise<IncomingMessage> => {
      const request = requestHttps({
        host: '127.0.0.1',
        port,
        path,
        servername: NAME,
        ca: pair.cert,
        agent: false,
        headers: { host: NAME, ...headers },
      });
      request.end();
      const [answer] = await once(request, 'response');
      return answer;
    };
    return { rig, daemonPort, runtimePort, ask, publicUrl: `https://localhost:${runtimePort}` };
  };

  test('nobody gets in without a token, on no operation that asks for one; with it all go through', async () => {
    const { rig, daemonPort, runtimePort, ask } = await start();
    const { token } = await rig.makeToken({ role: 'operator' });
    const statusOf = async (port: number, path: string, headers?: Readonly<Record<string, string>>) => {
      const answer = await ask(port, path, headers);
      answer.resume();
      return answer.statusCode;
    };
    const authorization = `Bearer ${token}`;
    for (const [port, path] of [
      [daemonPort, '/api/memories'],
      [daemonPort, '/api/config'],
      [daemonPort, '/health'],
      [runtimePort, '/session'],
      [runtimePort, '/events'],
    ] as const) {
      expect([path, await statusOf(port, path)]).toEqual([path, 401]);
      expect([path, await statusOf(port, path, { 'x-forwarded-for': '127.0.0.1' })]).toEqual([path, 401]);
      expect([path, await statusOf(port, path, { authorization: 'Bearer signet_wrong' })]).toEqual([path, 401]);
      expect([path, await statusOf(port, path, { authorization })]).toEqual([path, 200]);
    }
    expect(await statusOf(daemonPort, '/health', { authorization, origin: `https://${NAME}` })).toBe(200);
    expect(await statusOf(daemonPort, '/health', { authorization, origin: 'https://evil.example' })).toBe(403);
    expect(await statusOf(daemonPort, '/health', { authorization, host: 'evil.example' })).toBe(421);
  });

  test('the SDK, a stream and a WebSocket work through it, and end when the token is revoked', async () => {
    const { rig, publicUrl } = await start();
    const { id: tokenId, token } = await rig.makeToken({ role: 'operator' });
    const client = createRuntimeClient({ baseUrl: publicUrl, token });
    const session = await client.session.create({});
    const stream = await fetch(`${publicUrl}/events`, { headers: { authorization: `Bearer ${token}` } });
    expect([stream.status, stream.headers.get('content-type')]).toEqual([200, expect.stringContaining('event-stream')]);

    await expect(openSocket(`${publicUrl.replace('https', 'wss')}/ws`)).rejects.toThrow();
    const socket = await openSocket(`${publicUrl.replace('https', 'wss')}/ws?token=${token}`);
    const subscribed = nextMessage(socket, (message) => message.re === 1);
    socket.send(JSON.stringify({ id: 1, op: 'sub', session: session.id }));
    expect(await subscribed).toMatchObject({ ok: true, event: 'subscribed' });
    const ended = nextMessage(socket, (message) => JSON.stringify(message).includes('turn:end'));
    const answer = await client.session.prompt(session.id, { content: 'hello' });
    expect(answer.content.length).toBeGreaterThan(0);
    expect(await ended).toBeDefined();

    const closed = once(socket, 'close');
    await rig.ask('DELETE', `${rig.daemonUrl}/api/tokens/${tokenId}`, rig.localToken);
    expect((await closed)[0].code).toBe(4401);
    const text = await stream.text();
    expect(text).toContain(session.id);
    expect(text).toMatch(/event: end\ndata: \{"reason":"unauthorized"\}/);
  });
});

async function openSocket(url: string): Promise<WebSocket> {
  const socket = new WebSocket(url);
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener('open', () => resolve(), { once: true });
    socket.addEventListener('error', () => reject(new Error(`no WebSocket at ${new URL(url).pathname}`)), { once: true });
  });
  onTestFinished(() => socket.close());
  return socket;
}

function nextMessage(socket: WebSocket, fits: (message: Record<string, unknown>) => boolean): Promise<Record<string, unknown>> {
  return new Promise((resolve) => {
    socket.addEventListener('message', ({ data }) => {
      const message = JSON.parse(String(data));
      if (fits(message)) resolve(message);
    });
  });
}
