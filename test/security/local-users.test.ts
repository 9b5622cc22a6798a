import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { type Operation, pathFields } from '../../src/contract/operation.ts';
import { runtimeOperations } from '../../src/contract/runtime.ts';
import { createPeerCheck, markOwn } from '../../src/http/peer.ts';
import { call } from '../conformance/calls.ts';
import { CAN_BE_OTHER_USER, callAsOther, NOBODY, type OtherCall } from '../helpers/other-user.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';

const folder = mkdtempSync(join(tmpdir(), 'signet-proof-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Many refusals are asked for at once: they must not be taken for guesses. */
const YAML = 'secrets: { keyring: false }\nauth: { failuresPerMinute: 600 }\n';

function exampleCall(baseUrl: string, { method, path, stream }: Operation): OtherCall {
  const filled = pathFields(path).reduce((text, name) => text.replace(`:${name}`, 'x'), path);
  return { url: `${baseUrl}${filled}`, method, ...(method === 'GET' || method === 'DELETE' || stream ? {} : { body: {} }) };
}

describe.each(['local', 'hybrid'] as const)('in mode %s', (mode) => {
  let signet: SignetProcess;
  beforeAll(async () => {
    signet = await startSignetProcess({ yaml: YAML, env: { SIGNET_AUTH_MODE: mode } });
  });
  afterAll(() => signet.close());

  const tables = () => [
    ...Object.values(daemonOperations as Record<string, Operation>).map((operation) => ({ operation, baseUrl: signet.daemonUrl })),
    ...Object.values(runtimeOperations as Record<string, Operation>).map((operation) => ({ operation, baseUrl: signet.runtimeUrl })),
  ];

  test.runIf(CAN_BE_OTHER_USER)(
    'another local user runs no code: tools, secrets, approvals, tokens, sessions, WebSocket, MCP',
    async () => {
      const proof = join(folder, `${mode}-pwned`);
      const shell = { command: '/bin/sh', args: ['-c', `id > ${proof}`] };
      const session = await signet.client.session.create({});
      const attacks: readonly OtherCall[] = [
        { url: `${signet.runtimeUrl}/tools`, method: 'POST', body: { mcpServer: 'evil', ...shell } },
        { url: `${signet.daemonUrl}/api/secrets/exec`, method: 'POST', body: { command: `id > ${proof}`, secrets: {} } },
        { url: `${signet.daemonUrl}/api/tokens`, method: 'POST', body: { name: 'evil', role: 'admin' } },
        { url: `${signet.runtimeUrl}/session`, method: 'POST', body: {} },
        { url: `${signet.runtimeUrl}/session/${session.id}/prompt`, method: 'POST', body: { content: 'evil' } },
        { url: `${signet.runtimeUrl}/session/${session.id}/approvals/x`, method: 'POST', body: { decision: 'once' } },
        { url: `${signet.daemonUrl}/api/config`, method: 'GET' },
        { url: `${signet.daemonUrl}/api/hooks/session-end`, method: 'POST', body: { harness: 'x', transcriptPath: '/etc/shadow' } },
        {
          url: `${signet.daemonUrl}/mcp`,
          method: 'POST',
          body: {
            ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
            params: { name: 'secret_exec', arguments: { command: `id > ${proof}`, secrets: {} } },
          },
        },
        {
          url: `${signet.runtimeUrl.replace('http', 'ws')}/ws`,
          body: { id: '1', op: 'prompt', session: session.id, content: 'evil' },
        },
        {
          url: `${signet.runtimeUrl.replace('http', 'ws')}/ws`,
          body: { id: '1', op: 'approve', session: session.id, approvalId: 'x', decision: 'once' },
        },
      ];
      const answers = await callAsOther(attacks);
      const http = answers.slice(0, 8).map(({ status, body }) => [status, body.code]);
      expect(http).toEqual(Array.from({ length: 8 }, () => [401, 'unauthorized']));
      expect(JSON.stringify(answers[8]!.body)).toMatch(/executes or decides.*isError":true/);
      for (const { body } of answers.slice(9)) expect(body).toMatchObject({ ok: false, error: { code: 'unauthorized' } });
      expect(existsSync(proof)).toBe(false);
      expect((await signet.client.session.get(session.id)).turns).toBe(0);
    },
  );

  test.runIf(CAN_BE_OTHER_USER)(
    'every operation of an operator or an admin asks another local user for a token; own calls need none',
    async () => {
      const guarded = tables().filter(({ operation }) => operation.role === 'operator' || operation.role === 'admin');
      const calls = guarded.map(({ operation, baseUrl }) => exampleCall(baseUrl, operation));
      const answers = await callAsOther(calls);
      expect(answers.length).toBeGreaterThan(25);
      const open = answers.flatMap(({ status }, index) => (status === 401 ? [] : [`${status} ${guarded[index]!.operation.id}`]));
      expect(open).toEqual([]);
      for (const { operation, baseUrl } of guarded.filter(({ operation }) => !operation.stream)) {
        const { url, method, body } = exampleCall(baseUrl, operation);
        expect((await call(method!, url, body)).status, url).not.toBe(401);
      }
    },
  );

  test.runIf(CAN_BE_OTHER_USER)('another local user may read and remember, and an operator token lets it do more', async () => {
    const made = await call('POST', `${signet.daemonUrl}/api/tokens`, { name: 'guest', role: 'operator' });
    const headers = { authorization: `Bearer ${made.body.token}` };
    const answers = await callAsOther([
      { url: `${signet.runtimeUrl}/health`, method: 'GET' },
      { url: `${signet.daemonUrl}/api/memory/remember`, method: 'POST', body: { content: 'likes tea' } },
      { url: `${signet.runtimeUrl}/session`, method: 'POST', body: {}, headers },
      { url: `${signet.daemonUrl}/api/tokens`, method: 'GET', headers },
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 201, 403]);
  });

  test('a request that a proxy forwarded needs a token for what executes', async () => {
    for (const [name, value] of [
      ['via', '1.1 gate'],
      ['forwarded', 'for=192.0.2.1'],
      ['x-forwarded-host', 'a'],
      ['cf-connecting-ip', '192.0.2.1'],
      ['true-client-ip', '192.0.2.1'],
      ['tailscale-user-login', 'a'],
    ] as const) {
      const answer = await call('POST', `${signet.runtimeUrl}/session`, {}, { [name]: value });
      expect([name, answer.status]).toEqual([name, 401]);
    }
    expect((await call('POST', `${signet.runtimeUrl}/session`, {})).status).toBe(201);
  });

  test('the local token is private, and stands in for the user where a proxy hides it', async () => {
    const path = join(signet.folder, '.daemon', 'local-token');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const headers = { authorization: `Bearer ${readFileSync(path, 'utf8').trim()}`, via: '1.1 gate' };
    expect((await call('POST', `${signet.runtimeUrl}/session`, {}, headers)).status).toBe(201);
  });
});

describe('the other end of a connection', () => {
  /** Accepts one connection and tells who is at its other end. */
  async function connectionOn(host: string, target = host): Promise<{ readonly accepted: Socket; readonly client: Socket; close(): void }> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, host, resolve));
    const { port } = server.address() as { port: number };
    const accepting = new Promise<Socket>((resolve) => server.once('connection', resolve));
    const client = connect(port, target);
    const accepted = await accepting;
    return {
      accepted,
      client,
      close: () => {
        client.destroy();
        accepted.destroy();
        server.close();
      },
    };
  }

  test.runIf(process.platform === 'linux').each([
    ['127.0.0.1', '127.0.0.1'],
    ['::1', '::1'],
    ['::', '127.0.0.1'],
  ])('on %s is known by the kernel, from %s', async (host, target) => {
    const { accepted, close } = await connectionOn(host, target);
    const uid = process.geteuid!();
    expect(await createPeerCheck({ uid })(accepted)).toBe('own');
    expect(await createPeerCheck({ uid: uid + 1 })(accepted)).toBe('other');
    close();
  });

  test.runIf(process.platform === 'linux')('is not known once its process has left: the kernel then shows user 0', async () => {
    const { accepted, client, close } = await connectionOn('127.0.0.1');
    const left = new Promise((resolve) => accepted.once('end', resolve));
    accepted.resume();
    client.end();
    client.destroy();
    await left;
    expect(await createPeerCheck({ uid: 0 })(accepted)).toBe('unknown');
    close();
  });

  test('is not known where there is no table, or no user ids; a marked connection is its own', async () => {
    const { accepted, close } = await connectionOn('127.0.0.1');
    const readTable = () => Promise.reject(new Error('ENOENT'));
    expect(await createPeerCheck({ uid: 0, readTable })(accepted)).toBe('unknown');
    expect(await createPeerCheck({ uid: undefined })(accepted)).toBe('unknown');
    markOwn(accepted);
    expect(await createPeerCheck({ uid: undefined, readTable })(accepted)).toBe('own');
    close();
  });

  test('is looked up once a connection', async () => {
    const { accepted, close } = await connectionOn('127.0.0.1');
    let reads = 0;
    const line = (at: string, to: string, uid: number, inode: number) =>
      `   1: ${at} ${to} 01 00000000:00000000 00:00000000 00000000  ${uid}  0 ${inode} 1\n`;
    const hex = (port: number) => port.toString(16).toUpperCase().padStart(4, '0');
    const [peer, own] = [`0100007F:${hex(accepted.remotePort!)}`, `0100007F:${hex(accepted.localPort!)}`];
    const check = createPeerCheck({
      uid: 1_000,
      readTable: async () => {
        reads += 1;
        return `  sl\n${line(own, peer, 1_000, 7)}${line(peer, own, 0, 0)}${line(peer, own, NOBODY, 8)}`;
      },
    });
    expect([await check(accepted), await check(accepted), reads]).toEqual(['other', 'other', 1]);
    close();
  });
});
