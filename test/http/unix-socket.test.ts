import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer, request as requestHttp } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createSocketFetch } from '../../src/cli/socket-fetch.ts';
import { createRuntimeClient } from '../../src/client/runtime-client.ts';
import { Connections } from '../../src/http/connections.ts';
import { listenOnSocket, socketPath } from '../../src/http/unix-socket.ts';
import { type AuthRig, startGuarded } from '../helpers/auth-rig.ts';
import { CAN_BE_OTHER_USER, NOBODY } from '../helpers/other-user.ts';
import { startSignetProcess } from '../helpers/signet.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));
const yaml = (mode: string) => `auth: { mode: ${mode} }\ndaemon: { socket: true }\n`;

type Headers = Readonly<Record<string, string>>;
const ask = (rig: AuthRig, path: string, headers: Headers = {}): Promise<Response> =>
  createSocketFetch(socketPath(rig.folder, 'daemon'))(`http://localhost${path}`, { headers });

describe.runIf(process.platform !== 'win32')('daemon.socket', () => {
  test.each(['local', 'hybrid'])('in mode %s what executes or decides needs no proof there, unless a proxy forwarded it', async (mode) => {
    const rig = await startGuarded(yaml(mode));
    expect((await ask(rig, '/api/config')).status).toBe(200);
    expect((await ask(rig, '/api/config', { 'x-forwarded-for': '192.0.2.1' })).status).toBe(401);
    expect((await ask(rig, '/api/config', { via: '1.1 x', authorization: `Bearer ${rig.localToken}` })).status).toBe(200);
    expect((await ask(rig, '/api/memories', { via: '1.1 x' })).status).toBe(mode === 'hybrid' ? 401 : 200);
    expect(await statusWithHost(rig, 'evil.example')).toBe(421);
  });

  test('in mode team a token is needed there too', async () => {
    const rig = await startGuarded(yaml('team'));
    expect((await ask(rig, '/health')).status).toBe(401);
    expect((await ask(rig, '/health', { authorization: `Bearer ${rig.localToken}` })).status).toBe(200);
  });

  test('the SDK works over it, streams included, and a start replaces what was left there', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'signet-socket-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    mkdirSync(join(folder, '.daemon'), { mode: 0o700 });
    // A process that was killed leaves its file.
    spawnSync(process.execPath, [
      '-e',
      `require('net').createServer().listen(${JSON.stringify(socketPath(folder, 'runtime'))}, () => process.kill(process.pid, 'SIGKILL'))`,
    ]);
    expect(statSync(socketPath(folder, 'runtime')).isSocket()).toBe(true);
    const rig = await startGuarded(yaml('local'), { folder });
    for (const server of ['daemon', 'runtime'] as const) expect(statSync(socketPath(folder, server)).mode & 0o777).toBe(0o600);
    const client = createRuntimeClient({ baseUrl: rig.runtimeUrl, fetch: createSocketFetch(socketPath(folder, 'runtime')) });
    const session = await client.session.create({});
    const names: string[] = [];
    const reading = (async () => {
      for await (const event of client.session.stream(session.id, { after: 0 })) {
        names.push(event.name);
        if (event.name === 'turn:end') break;
      }
    })();
    expect((await client.session.prompt(session.id, { content: 'hello' })).content).not.toBe('');
    await reading;
    expect(names).toContain('text:delta');
    await rig.close();
    expect(statSync(socketPath(folder, 'daemon'), { throwIfNoEntry: false })).toBeUndefined();
  });

  test('commands and signet-mcp use it by themselves: they work where no port can be reached', async () => {
    const signet = await startSignetProcess({ yaml: yaml('local') });
    onTestFinished(() => signet.close());
    const info = join(signet.folder, '.daemon', 'daemon.json');
    const said = JSON.parse(readFileSync(info, 'utf8'));
    expect(said.socket).toBe(true);
    // The same daemon, by ports that nobody listens at: what answers, answers at the socket.
    writeFileSync(info, JSON.stringify({ ...said, port: 9, runtimePort: 10 }));
    const env = { PATH: process.env.PATH ?? '', HOME: signet.folder, SIGNET_PATH: signet.folder };
    const run = (args: string[], input = '') => spawnSync(process.execPath, [LAUNCHER, ...args], { env, input, encoding: 'utf8' });
    expect(run(['token', 'create', 'laptop', '--role', 'operator'])).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('signet_'),
    });
    const initialize = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
    const lines = [
      { jsonrpc: '2.0', id: 1, method: 'initialize', params: initialize },
      { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'secret_list', arguments: {} } },
    ];
    const mcp = run(['mcp'], lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    expect(mcp.stdout).toContain('secrets');
    expect(mcp.stdout).not.toContain('isError":true');
    writeFileSync(info, JSON.stringify(said));
  });

  test.runIf(CAN_BE_OTHER_USER)('another local user cannot open it', async () => {
    const rig = await startGuarded(yaml('local'));
    const { status, stderr } = spawnSync('curl', ['-sS', '--unix-socket', socketPath(rig.folder, 'daemon'), 'http://localhost/health'], {
      uid: NOBODY,
      encoding: 'utf8',
    });
    expect([status, stderr]).toEqual([7, expect.stringMatching(/permission denied|connect/i)]);
  });

  test('a path that is too long, or another file, is refused with what to do', async () => {
    const root = mkdtempSync(join(tmpdir(), 'signet-socket-'));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    const long = join(root, 'x'.repeat(100));
    const refused = (detail: string) => ({ code: 'config_invalid', detail: expect.stringContaining(detail) });
    await expect(startGuarded(yaml('local'), { folder: long })).rejects.toMatchObject(refused('choose a workspace with a shorter path'));
    const taken = join(root, 'w');
    mkdirSync(join(taken, '.daemon'), { recursive: true, mode: 0o700 });
    writeFileSync(socketPath(taken, 'daemon'), 'mine');
    await expect(startGuarded(yaml('local'), { folder: taken })).rejects.toMatchObject(refused('is another file'));
  });

  test('the limit on connections of one address does not count those that have none', async () => {
    const root = mkdtempSync(join(tmpdir(), 'signet-socket-'));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    const connections = new Connections({ max: 40, reserved: 4, perAddress: 2 });
    const held: unknown[] = [];
    const server = createHttpServer((request) => {
      connections.admit({ raw: request } as never, { header: () => undefined } as never, () => false);
      held.push(request);
    });
    connections.follow(server);
    const path = join(root, 's.sock');
    const socket = await listenOnSocket(path, (opened) => void server.emit('connection', opened));
    const clients = Array.from({ length: 12 }, () =>
      requestHttp({ socketPath: path, path: '/', agent: false }).on('error', () => undefined),
    );
    for (const client of clients) client.end();
    await expect.poll(() => held.length).toBe(clients.length);
    for (const client of clients) client.destroy();
    socket.close();
  });
});

/** Of `/health`, asked for under a name. */
async function statusWithHost(rig: AuthRig, host: string): Promise<number | undefined> {
  const request = requestHttp({ socketPath: socketPath(rig.folder, 'daemon'), path: '/health', agent: false, headers: { host } });
  request.end();
  const [answer] = await once(request, 'response');
  answer.resume();
  return answer.statusCode;
}
