import { expect, test } from 'vitest';
import { startGuarded } from '../helpers/auth-rig.ts';

test('commands on a socket, messages of a batch and both ports draw on one budget', async () => {
  const rig = await startGuarded('auth: { mode: team, requestsPerMinute: 20 }\n');
  const make = async () => (await rig.makeToken({ role: 'operator' })).token;
  const health = (url: string, token: string) => rig.ask('GET', `${url}/health`, token);
  const ports = await make();
  for (let count = 0; count < 10; count += 1)
    for (const url of [rig.daemonUrl, rig.runtimeUrl]) expect((await health(url, ports)).status).toBe(200);
  for (const url of [rig.daemonUrl, rig.runtimeUrl]) expect((await health(url, ports)).status).toBe(429);

  const batch = await make();
  const pings = Array.from({ length: 30 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'ping' }));
  const many = await rig.ask('POST', `${rig.daemonUrl}/mcp`, batch, pings, {
    accept: 'application/json',
    'mcp-protocol-version': '2025-03-26',
  });
  expect([many.status, many.headers.has('retry-after')]).toEqual([429, true]);

  const talking = await make();
  const socket = new WebSocket(`${rig.runtimeUrl.replace('http', 'ws')}/ws?token=${talking}`);
  const answers = new Map<number, unknown>();
  socket.addEventListener('message', ({ data }) => {
    const message = JSON.parse(String(data));
    if (message.re !== undefined) answers.set(message.re, message);
  });
  await new Promise((resolve) => socket.addEventListener('open', resolve));
  for (let id = 1; id <= 25; id += 1) socket.send(JSON.stringify({ id, op: 'ping' }));
  await expect.poll(() => answers.get(25), { timeout: 20_000 }).toMatchObject({ ok: false, error: { code: 'rate_limited' } });
  expect(answers.get(1)).toMatchObject({ ok: true });
  socket.close();
});

test('a wait ends when its token is revoked', async () => {
  const rig = await startGuarded('auth: { mode: team }\n');
  const { id, token } = await rig.makeToken({ role: 'operator' });
  const session = (await rig.ask('POST', `${rig.runtimeUrl}/session`, token, {})).body.id;
  const waiting = rig.ask('POST', `${rig.runtimeUrl}/session/${session}/wait`, token, { state: 'ended', timeoutMs: 25_000 });
  // Its place is taken by what it waits for: the next request comes behind it.
  await rig.ask('GET', `${rig.runtimeUrl}/session/${session}`, token);
  expect((await rig.ask('DELETE', `${rig.daemonUrl}/api/tokens/${id}`, rig.localToken)).status).toBe(200);
  const answer = await waiting;
  expect([answer.status, answer.body.code]).toEqual([401, 'unauthorized']);
});

test('a token that ends makes none that outlives it, nor one that is wider', async () => {
  const rig = await startGuarded('auth: { mode: team }\nagents: { roster: [{ name: dot }] }\n');
  const maker = await rig.makeToken({ role: 'admin', agent: 'dot', project: '/work/app', expiresInDays: 1 });
  const make = (body: object) => rig.ask('POST', `${rig.daemonUrl}/api/tokens`, maker.token, { name: 'made', ...body });
  const ends = (await rig.ask('GET', `${rig.daemonUrl}/api/auth/whoami`, maker.token)).body.expiresAt;
  for (const body of [{}, { expiresInDays: null }, { expiresInDays: 3_000 }])
    expect((await make(body)).body).toMatchObject({ expiresAt: ends, agent: 'dot', project: '/work/app' });
  for (const body of [{ agent: 'rose' }, { project: '/work/other' }]) expect((await make(body)).status).toBe(403);
});
