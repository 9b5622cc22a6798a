import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { call } from '../conformance/calls.ts';
import { verifies } from '../conformance/verifies.ts';
import { outsideAddress, startGuarded } from '../helpers/auth-rig.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { rawRequest } from '../helpers/raw-http.ts';
import { startSignet } from '../helpers/signet.ts';

const TEAM = 'auth: { mode: team }\n';
const portOf = (url: string): number => Number(new URL(url).port);

const RPC = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'secret_list', arguments: {} } };
const MCP_HEADERS = { accept: 'application/json, text/event-stream' };

describe('mode team', () => {
  verifies('auth.team', async () => {
    const rig = await startGuarded(TEAM);
    const { token } = await rig.makeToken({ role: 'readonly' });
    for (const url of [`${rig.daemonUrl}/api/memories`, `${rig.runtimeUrl}/session`]) {
      const without = await rig.ask('GET', url);
      expect([without.status, without.body.code, without.headers.get('www-authenticate')]).toEqual([401, 'unauthorized', 'Bearer']);
      const wrong = await rig.ask('GET', url, 'signet_wrong');
      expect([wrong.status, wrong.headers.get('www-authenticate')]).toEqual([401, 'Bearer error="invalid_token"']);
      expect((await rig.ask('GET', `${url}?token=${token}`)).status).toBe(401);
      expect((await rig.ask('GET', url, undefined, undefined, { authorization: `Basic ${btoa(`x:${token}`)}` })).status).toBe(401);
      expect((await rig.ask('GET', url, token)).status).toBe(200);
    }
    const mcp = (bearer?: string) => rig.ask('POST', `${rig.daemonUrl}/mcp`, bearer, RPC, MCP_HEADERS);
    expect((await mcp()).status).toBe(401);
    expect((await mcp('signet_wrong')).status).toBe(401);
    const refused = await mcp(token);
    expect(refused.status).toBe(200);
    expect(refused.body.result).toMatchObject({ isError: true });
    expect(JSON.stringify(refused.body)).toContain('needs the role operator');
    expect((await mcp(rig.localToken)).body.result).not.toHaveProperty('isError', true);
    const forbidden = await rig.ask('POST', `${rig.daemonUrl}/api/memory/remember`, token, { content: 'x' });
    expect(forbidden.body).toMatchObject({
      status: 403,
      code: 'forbidden',
      detail: 'remember needs the role agent; the token has readonly',
    });
  });

  test('the query of a stream may hold the token', async () => {
    const rig = await startGuarded(TEAM);
    const { token } = await rig.makeToken({ role: 'readonly' });
    for (const given of [token, 'wrong', '']) {
      const controller = new AbortController();
      const response = await fetch(`${rig.runtimeUrl}/events?token=${given}`, { signal: controller.signal });
      expect([given, response.status]).toEqual([given, given === token ? 200 : 401]);
      controller.abort();
    }
    for (const given of [token, 'wrong']) {
      const socket = new WebSocket(`${rig.runtimeUrl.replace('http', 'ws')}/ws?token=${given}`);
      const [event] = (await Promise.race([once(socket, 'message'), once(socket, 'error')])) as [Event];
      expect([given, event.type]).toEqual([given, given === token ? 'message' : 'error']);
      socket.close();
    }
  });

  test('each command on a socket is held to the role of its token', async () => {
    const rig = await startGuarded(TEAM);
    const session = (await rig.ask('POST', `${rig.runtimeUrl}/session`, rig.localToken, {})).body.id;
    const { token } = await rig.makeToken({ role: 'readonly' });
    const ask = await dial(rig.runtimeUrl, token);
    expect(await ask({ op: 'ping' })).toMatchObject({ ok: true });
    expect(await ask({ op: 'sub', session })).toMatchObject({ ok: true });
    for (const command of [
      { op: 'prompt', session, content: 'hello' },
      { op: 'abort', session },
      { op: 'approve', session, approvalId: 'x', decision: 'once' },
      { op: 'bypass', session, enabled: true },
    ]) {
      expect([command.op, await ask(command)]).toMatchObject([command.op, { ok: false, error: { code: 'forbidden' } }]);
    }
    expect((await rig.ask('GET', `${rig.runtimeUrl}/session/${session}`, rig.localToken)).body).toMatchObject({
      turn: null,
      bypassed: false,
    });
  });

  test('a token that is revoked, or has expired, is refused at once, and its streams end', async () => {
    const rig = await startGuarded(TEAM);
    const { id, token } = await rig.makeToken({ role: 'readonly' });
    const stream = await fetch(`${rig.runtimeUrl}/events`, { headers: { authorization: `Bearer ${token}` } });
    const closed = new Promise<number>((resolve) => {
      const socket = new WebSocket(`${rig.runtimeUrl.replace('http', 'ws')}/ws?token=${token}`);
      socket.addEventListener('close', ({ code }) => resolve(code));
      socket.addEventListener('message', () => {
        void rig.ask('DELETE', `${rig.daemonUrl}/api/tokens/${id}`, rig.localToken);
      });
    });
    expect(await stream.text()).toMatch(/event: end\ndata: \{"reason":"unauthorized"\}/);
    expect(await closed).toBe(4401);
    expect((await rig.ask('GET', `${rig.daemonUrl}/health`, token)).status).toBe(401);
    expect((await rig.ask('DELETE', `${rig.daemonUrl}/api/tokens/${id}`, rig.localToken)).body.code).toBe('token_not_found');
  });

  test.each(['local', 'hybrid'])('in mode %s, streams and commands of a caller that showed its token end with it', async (mode) => {
    const rig = await startGuarded(`auth: { mode: ${mode} }\n`);
    const forwarded = { via: '1.1 proxy' };
    const { id, token } = await rig.makeToken({ role: 'operator' });
    const open = (path: string, bearer: string) =>
      fetch(rig.daemonUrl + path, { headers: { ...forwarded, authorization: `Bearer ${bearer}`, accept: 'text/event-stream' } });
    const stream = await open('/api/logs/stream', token);
    const lasting = await open('/api/logs/stream', rig.localToken);
    expect([stream.status, lasting.status]).toEqual([200, 200]);
    // Opening it needs no proof in mode local; its first command that decides something does.
    const { id: session } = await rig.client.session.create({});
    const socket = new WebSocket(`${rig.runtimeUrl.replace('http', 'ws')}/ws?token=${token}`, { headers: forwarded } as never);
    const closed = once(socket, 'close');
    await once(socket, 'open');
    const answered = new Promise((resolve) =>
      socket.addEventListener('message', ({ data }) => JSON.parse(data).re === 1 && resolve(JSON.parse(data))),
    );
    socket.send(JSON.stringify({ id: 1, op: 'abort', session }));
    expect(await answered).toMatchObject({ ok: true });
    expect((await rig.ask('DELETE', `${rig.daemonUrl}/api/tokens/${id}`, rig.localToken)).status).toBe(200);
    expect((await closed)[0].code).toBe(4401);
    expect(await stream.text()).toContain('unauthorized');
    expect((await open('/api/logs/stream', token)).status).toBe(401);
    await lasting.body?.cancel();
  });

  test('an open GET /mcp, and every stream of the daemon, ends with its token; others go on', async () => {
    const rig = await startGuarded(TEAM);
    const { id, token } = await rig.makeToken({ role: 'operator' });
    const open = async (path: string, bearer: string) => {
      const answer = await fetch(rig.daemonUrl + path, { headers: { authorization: `Bearer ${bearer}`, accept: 'text/event-stream' } });
      expect([path, answer.status]).toEqual([path, 200]);
      return answer;
    };
    const over = async (answer: Response) =>
      answer.text().then(
        () => 'over',
        () => 'over',
      );
    const ending = await Promise.all(['/mcp', '/api/logs/stream', '/api/cross-agent/stream'].map((path) => open(path, token)));
    const lasting = await open('/mcp', rig.localToken);
    expect((await rig.ask('DELETE', `${rig.daemonUrl}/api/tokens/${id}`, rig.localToken)).status).toBe(200);
    expect(await Promise.all(ending.map(over))).toEqual(['over', 'over', 'over']);
    expect((await rig.ask('GET', `${rig.daemonUrl}/mcp`, token, undefined, { accept: 'text/event-stream' })).status).toBe(401);
    const last = over(lasting);
    expect(await Promise.race([last, rig.ask('GET', `${rig.daemonUrl}/health`).then(() => 'open')])).toBe('open');
    await rig.close();
    expect(await last).toBe('over');
  });

  test('tokens are kept as digests, for their user alone, and outlive a restart until they expire', async () => {
    const folder = tempFolder({ 'agent.yaml': TEAM });
    const first = await startSignet({ folder });
    const local = readFileSync(join(folder, '.daemon', 'local-token'), 'utf8').trim();
    const make = async (body: object): Promise<string> => {
      const answer = await call('POST', `${first.daemonUrl}/api/tokens`, body, { authorization: `Bearer ${local}` });
      return answer.body.token;
    };
    const [lasting, ending] = [await make({ name: 'lasting', expiresInDays: null }), await make({ name: 'ending', expiresInDays: 1 })];
    await first.close();
    const path = join(folder, '.daemon', 'tokens.json');
    const text = readFileSync(path, 'utf8');
    for (const token of [lasting, ending]) expect(text).not.toContain(token.slice(20));
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(folder, '.daemon', '.gitignore'), 'utf8')).toBe('*\n');
    expect(() => statSync(join(folder, '.daemon', 'local-token'))).toThrow();
    // As if a day had gone by.
    const file = JSON.parse(text);
    file.tokens.find(({ name }: { name: string }) => name === 'ending').expiresAt = '2020-01-01T00:00:00.000Z';
    writeFileSync(path, JSON.stringify(file));

    const rig = await startGuarded(TEAM, { folder });
    expect((await rig.ask('GET', `${rig.daemonUrl}/health`, lasting)).status).toBe(200);
    expect((await rig.ask('GET', `${rig.daemonUrl}/health`, ending)).status).toBe(401);
    expect((await rig.ask('GET', `${rig.daemonUrl}/health`, local)).status).toBe(401);
    expect((await rig.ask('GET', `${rig.daemonUrl}/api/tokens`, rig.localToken)).body.tokens).toMatchObject([{ name: 'lasting' }]);
    expect((await rig.ask('GET', `${rig.daemonUrl}/api/auth/whoami`, lasting)).body).toMatchObject({
      ...{ mode: 'team', authenticated: true, role: 'agent', agent: null },
    });
  });

  test.each(['{', '[]', '{"version":1,"tokens":[{"id":"x"}]}'])('does not start with damaged tokens: %s', async (text) => {
    const folder = tempFolder({ 'agent.yaml': TEAM });
    mkdirSync(join(folder, '.daemon'));
    writeFileSync(join(folder, '.daemon', 'tokens.json'), text);
    await expect(startSignet({ folder })).rejects.toMatchObject({ code: 'storage_corrupt' });
    expect(readFileSync(join(folder, '.daemon', 'tokens.json'), 'utf8')).toBe(text);
  });
});

describe('limits', () => {
  test('a token that calls too often is told to wait, others are not', async () => {
    const rig = await startGuarded('auth: { mode: team, requestsPerMinute: 5 }\n');
    const [busy, calm] = [await rig.makeToken({}), await rig.makeToken({})];
    const statuses: number[] = [];
    for (let count = 0; count < 7; count += 1) statuses.push((await rig.ask('GET', `${rig.daemonUrl}/health`, busy.token)).status);
    expect(statuses).toEqual([200, 200, 200, 200, 200, 429, 429]);
    const limited = await rig.ask('GET', `${rig.daemonUrl}/health`, busy.token);
    expect(limited.body).toMatchObject({ code: 'rate_limited', retryAfterMs: expect.any(Number) });
    expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await rig.ask('GET', `${rig.daemonUrl}/health`, calm.token)).status).toBe(200);
  });

  test('an address that tries tokens is slowed down, and one that is right still gets in', async () => {
    const rig = await startGuarded('auth: { mode: team, failuresPerMinute: 3 }\n');
    const statuses: number[] = [];
    for (let count = 0; count < 5; count += 1) statuses.push((await rig.ask('GET', `${rig.daemonUrl}/health`, `guess-${count}`)).status);
    expect(statuses).toEqual([401, 401, 401, 429, 429]);
    expect((await rig.ask('GET', `${rig.daemonUrl}/health`, rig.localToken)).status).toBe(200);
  });
});

describe('mode hybrid', () => {
  verifies('auth.hybrid.local', async () => {
    const rig = await startGuarded('auth: { mode: hybrid }\n');
    for (const url of [`${rig.daemonUrl}/api/secrets`, `${rig.runtimeUrl}/session`]) expect((await rig.ask('GET', url)).status).toBe(200);
    expect((await rig.ask('POST', `${rig.daemonUrl}/mcp`, undefined, RPC, MCP_HEADERS)).body.result).not.toHaveProperty('isError', true);
    // A token that is sent is meant.
    expect((await rig.ask('GET', `${rig.daemonUrl}/api/secrets`, 'wrong')).status).toBe(401);
    const { token } = await rig.makeToken({ role: 'readonly' });
    expect((await rig.ask('GET', `${rig.daemonUrl}/api/secrets`, token)).status).toBe(403);
  });

  test('what a proxy on this machine brings comes from elsewhere', async () => {
    const rig = await startGuarded('auth: { mode: hybrid }\n');
    for (const name of ['x-forwarded-for', 'forwarded', 'x-real-ip']) {
      expect([name, (await rig.ask('GET', `${rig.daemonUrl}/api/secrets`, undefined, undefined, { [name]: '127.0.0.1' })).status]).toEqual([
        ...[name, 401],
      ]);
    }
  });

  const outside = outsideAddress();
  verifies('auth.hybrid.remote', async ({ skip }) => {
    if (outside === undefined) return skip('this machine has no address but loopback');
    const rig = await startGuarded('auth: { mode: hybrid }\n', { env: { SIGNET_HOST: outside, SIGNET_RUNTIME_HOST: outside } });
    const { token } = await rig.makeToken({ role: 'operator' });
    for (const url of [`${rig.daemonUrl}/api/secrets`, `${rig.runtimeUrl}/session`]) {
      expect(new URL(url).hostname).toBe(outside);
      expect((await rig.ask('GET', url)).status).toBe(401);
      expect((await rig.ask('GET', url, token)).status).toBe(200);
    }
    expect((await rig.ask('POST', `${rig.daemonUrl}/mcp`, undefined, RPC, MCP_HEADERS)).status).toBe(401);
  });

  test('no header makes a caller local', async ({ skip }) => {
    if (outside === undefined) return skip('this machine has no address but loopback');
    const rig = await startGuarded('auth: { mode: hybrid }\n', { env: { SIGNET_HOST: '0.0.0.0' } });
    const port = portOf(rig.daemonUrl);
    expect((await rawRequest(port, { path: '/api/secrets' })).status).toBe(200);
    const { request } = await import('node:http');
    for (const headers of [
      { host: 'localhost' },
      { host: '127.0.0.1', 'x-forwarded-for': '127.0.0.1' },
      { host: '[::1]', forwarded: 'for=127.0.0.1' },
    ]) {
      const sent = request({ host: outside, port, path: '/api/secrets', headers }).end();
      const [response] = await once(sent, 'response');
      response.resume();
      expect([headers, response.statusCode]).toEqual([headers, 401]);
    }
  });
});

describe('mode local', () => {
  test('keeps tokens, keys and databases out of git, and touches no .gitignore of the workspace', async () => {
    const ours = '*.log\n!.daemon\n!.secrets/\n!*.db\n!key';
    const folder = tempFolder({ 'agent.yaml': 'secrets: { keyring: false }\n', '.gitignore': ours, 'data/notes.txt': 'Mine.' });
    const git = (...args: string[]) => execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8' });
    git('init', '--quiet');
    for (let start = 1; start <= 2; start += 1) {
      const signet = await startSignet({ folder });
      expect(await call('POST', `${signet.daemonUrl}/api/secrets/CANARY`, { value: 'sing-no-song' })).toMatchObject({ status: 200 });
      const own = start === 1 ? '' : '?? data/.gitignore\n';
      expect(git('status', '--porcelain', '--untracked-files=all')).toBe(`?? .gitignore\n?? agent.yaml\n${own}`);
      await signet.close();
      // Whoever wants one of them in git says so once.
      if (start === 1) writeFileSync(join(folder, 'data', '.gitignore'), '*\n!.gitignore\n');
      else expect(readFileSync(join(folder, 'data', '.gitignore'), 'utf8')).toBe('*\n!.gitignore\n');
    }
    expect(readFileSync(join(folder, '.gitignore'), 'utf8')).toBe(ours);
  });

  test('asks nobody, and can make tokens before the mode is changed', async () => {
    const signet = await startSignet({ yaml: 'auth: { method: none, chainId: null }\n' });
    try {
      const get = async (path: string) => (await fetch(signet.daemonUrl + path)).json();
      expect(await get('/api/auth/whoami')).toMatchObject({ mode: 'local', authenticated: false, role: 'admin' });
      expect(await get('/api/tokens')).toEqual({ tokens: [] });
    } finally {
      await signet.close();
    }
  });

  test('binds no address that others can reach', async () => {
    for (const host of ['0.0.0.0', '::']) {
      await expect(startSignet({ env: { SIGNET_HOST: host } })).rejects.toMatchObject({
        ...{ code: 'config_invalid', detail: expect.stringContaining('auth.mode to team or hybrid') },
      });
    }
  });

  test('a mode that is none is refused', async () => {
    await expect(startSignet({ env: { SIGNET_AUTH_MODE: 'open' } })).rejects.toMatchObject({ code: 'config_invalid' });
    await expect(startSignet({ yaml: 'auth: { mode: open }\n' })).rejects.toMatchObject({ code: 'config_invalid' });
  });
});

type Ask = (command: object) => Promise<Record<string, unknown>>;

async function dial(runtimeUrl: string, token: string): Promise<Ask> {
  const socket = new WebSocket(`${runtimeUrl.replace('http', 'ws')}/ws?token=${token}`);
  const waiting = new Map<number, (message: Record<string, unknown>) => void>();
  socket.addEventListener('message', ({ data }) => {
    const message = JSON.parse(String(data));
    waiting.get(message.re)?.(message);
  });
  await once(socket, 'open');
  let asked = 0;
  return (command) => {
    asked += 1;
    const id = asked;
    const { promise, resolve } = Promise.withResolvers<Record<string, unknown>>();
    waiting.set(id, resolve);
    socket.send(JSON.stringify({ id, ...command }));
    return promise;
  };
}
