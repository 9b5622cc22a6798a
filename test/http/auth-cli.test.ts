import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import { verifies } from '../conformance/verifies.ts';
import { startGuarded } from '../helpers/auth-rig.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

const TEAM = 'auth: { mode: team }\nsecrets: { keyring: false }\n';
const VALUE = 'hunter2-of-the-cli';

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A command on a workspace, with what it reads from stdin. */
async function run(
  folder: string,
  args: readonly string[],
  { stdin, env = {} }: { stdin?: string; env?: Record<string, string> } = {},
): Promise<Ran> {
  const cli = captureCli({ folder, runtimeUrl: '' });
  cli.context.stdin.push(stdin ?? '');
  cli.context.stdin.push(null);
  const code = await runCli({ ...cli.context, env: { HOME: folder, SIGNET_PATH: folder, ...env } }, args);
  return { code, out: cli.out(), err: cli.err() };
}

async function start(folder: string): Promise<Signet> {
  const signet = await startSignet({ folder });
  onTestFinished(() => signet.close());
  return signet;
}

describe('signet token', () => {
  test('makes a first token while no daemon runs, which the daemon then takes', async () => {
    const folder = tempFolder({ 'agent.yaml': TEAM });
    const made = await run(folder, ['token', 'create', 'my laptop', '--role', 'operator', '--agent', 'dot', '--days', '7']);
    expect(made.code).toBe(0);
    const token = made.out.trim();
    expect(token).toMatch(/^signet_[a-z0-9]{12}_[A-Za-z0-9_-]{43}$/);
    expect(made.err).toMatch(/role operator for the agent dot, valid until .*not shown again/s);

    const { daemonUrl } = await start(folder);
    const whoami = await fetch(`${daemonUrl}/api/auth/whoami`, { headers: { authorization: `Bearer ${token}` } });
    expect(await whoami.json()).toMatchObject({ role: 'operator', agent: 'dot' });
    const listed = await run(folder, ['token', 'list']);
    expect(listed.out).toMatch(/^ID +ROLE +AGENT +PROJECT +EXPIRES +NAME\n[a-z0-9]{12} +operator +dot +any +\S+ +my laptop\n$/);
    const id = listed.out.split('\n')[1]!.slice(0, 12);
    expect((await run(folder, ['token', 'revoke', id])).out).toBe(`${id} (my laptop) is revoked.\n`);
    expect((await fetch(`${daemonUrl}/health`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(401);
    expect((await run(folder, ['token', 'revoke', id])).err).toContain('token_not_found');
    expect((await run(folder, ['token', 'list', '--json'])).out).toBe('{"tokens":[]}\n');
  });

  test('refuses what is no role, no time and no agent, and changes nothing', async () => {
    const folder = tempFolder({ 'agent.yaml': TEAM });
    expect((await run(folder, ['token', 'create', 'x', '--role', 'root'])).code).toBe(2);
    expect((await run(folder, ['token', 'create', 'x', '--days', '0'])).code).toBe(2);
    expect((await run(folder, ['token', 'create', 'x', '--agent', 'No Agent'])).code).toBe(1);
    expect((await run(folder, ['token', 'list'])).err).toBe('No tokens.\n');
    const forever = await run(folder, ['token', 'create', 'x', '--days', 'never', '--json']);
    expect(JSON.parse(forever.out)).toMatchObject({ expiresAt: null, role: 'agent', token: expect.any(String) });
  });
});

describe('commands', () => {
  test('find the token of their own daemon, and give it to no other address', async () => {
    const folder = tempFolder({ 'agent.yaml': TEAM });
    await start(folder);
    expect((await run(folder, ['status'])).code).toBe(0);
    expect((await run(folder, ['session', 'list', '--json'])).code).toBe(0);
    expect((await run(folder, ['remember', 'The kettle is green.'])).code).toBe(0);
    expect((await run(folder, ['recall', 'kettle'], { env: { SIGNET_TOKEN: 'signet_wrong' } })).err).toContain('unauthorized');

    const seen: (string | undefined)[] = [];
    const elsewhere = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(500).end();
    });
    await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void elsewhere.close());
    await run(folder, ['secret', 'list', '--url', `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`]);
    expect(seen).toEqual([undefined]);
  });

  verifies('auth.team.stdio', async () => {
    const folder = tempFolder({ 'agent.yaml': TEAM });
    await start(folder);
    const rpc = (id: number, method: string, params: object) => `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`;
    const clientInfo = { name: 'test', version: '1' };
    const stdin = [
      rpc(1, 'initialize', { protocolVersion: '2025-03-26', clientInfo, capabilities: {} }),
      rpc(2, 'tools/call', { name: 'secret_list', arguments: {} }),
    ].join('');
    const answers = (ran: Ran) =>
      ran.out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
    const own = answers(await run(folder, ['mcp'], { stdin }));
    expect(own.find(({ id }) => id === 2).result).toMatchObject({ structuredContent: { secrets: [] } });
    const wrong = answers(await run(folder, ['mcp'], { stdin, env: { SIGNET_TOKEN: 'signet_wrong' } }));
    expect(wrong.find(({ id }) => id === 2).result).toMatchObject({ isError: true });
  });

  test('with a token of a person have the rights of that person', async () => {
    const rig = await startGuarded(TEAM.replace(/\nsecrets.*/, '\n'));
    const { token } = await rig.makeToken({ role: 'readonly' });
    const refused = await run(rig.folder, ['secret', 'list'], { env: { SIGNET_TOKEN: token } });
    expect([refused.code, refused.err]).toEqual([1, 'signet: listSecrets needs the role operator; the token has readonly (forbidden)\n']);
  });
});

describe('signet secret', () => {
  test('stores from stdin, lists, uses and forgets', async () => {
    const folder = tempFolder({ 'agent.yaml': 'secrets: { keyring: false }\n' });
    await start(folder);
    expect(await run(folder, ['secret', 'list'])).toEqual({ code: 0, out: '', err: 'No secrets.\n' });
    expect((await run(folder, ['secret', 'has', 'KEY'])).code).toBe(1);
    expect((await run(folder, ['secret', 'put', 'KEY'], { stdin: `${VALUE}\n` })).out).toBe('KEY is stored.\n');
    expect(await run(folder, ['secret', 'has', 'KEY'])).toEqual({ code: 0, out: '', err: '' });
    expect((await run(folder, ['secret', 'list', '--json'])).out).toBe('{"secrets":["KEY"]}\n');

    const command = `[ "$KEY" = ${VALUE} ] && echo same; echo "$OTHER" >&2; pwd; exit 7`;
    const ran = await run(folder, ['secret', 'exec', '-s', 'KEY', '-s', 'OTHER=KEY', command]);
    expect(ran).toEqual({ code: 7, out: expect.stringMatching(/^same\n.*\n$/), err: '[REDACTED]\n' });
    expect(ran.out).toContain(folder);
    const asJson = await run(folder, ['secret', 'exec', '-s', 'KEY', '--json', '--', 'sh', '-c', 'echo $KEY']);
    expect(JSON.parse(asJson.out)).toMatchObject({ stdout: '[REDACTED]\n', code: 0 });
    const words = await run(folder, ['secret', 'exec', '-s', 'KEY', '--', 'printf', '<%s>\\n', "it's  $KEY", '', '*', '-n']);
    expect(words).toEqual({ code: 0, out: "<it's  $KEY>\n<>\n<*>\n<-n>\n", err: '' });
    expect((await run(folder, ['secret', 'exec', 'true'])).code).toBe(2);
    expect((await run(folder, ['secret', 'exec', '-s', 'op://a/b/c', 'true'])).code).toBe(2);

    expect((await run(folder, ['secret', 'delete', 'KEY'])).out).toBe('KEY is forgotten.\n');
    expect((await run(folder, ['secret', 'delete', 'KEY'])).err).toContain('secret_not_found');
    expect((await run(folder, ['secret', 'put', 'KEY'], { stdin: 'abc' })).err).toContain('at least 4 characters');
  });

  test('asks on a terminal without showing what is typed', async () => {
    const folder = tempFolder({ 'agent.yaml': 'secrets: { keyring: false }\n' });
    await start(folder);
    const cli = captureCli({ folder, runtimeUrl: '' });
    const modes: boolean[] = [];
    const stdin = Object.assign(cli.context.stdin, { isTTY: true, setRawMode: (on: boolean) => modes.push(on) });
    stdin.push(`hunX\u007fter2-typed\r`);
    const code = await runCli({ ...cli.context, stdin, env: { HOME: folder, SIGNET_PATH: folder } }, ['secret', 'put', 'KEY']);
    expect([code, modes, cli.out(), cli.err()]).toEqual([0, [true, false], 'KEY is stored.\n', 'Value of KEY (not shown): \n']);
    const ran = await run(folder, ['secret', 'exec', '-s', 'KEY', '[ "$KEY" = hunter2-typed ] && echo same']);
    expect(ran.out).toBe('same\n');
  });

  test('on a workspace without a daemon says how to start one', async () => {
    const folder = tempFolder();
    mkdirSync(join(folder, '.daemon'), { recursive: true });
    writeFileSync(join(folder, '.daemon', 'local-token'), 'left behind');
    const { code, err } = await run(folder, ['secret', 'list']);
    expect([code, err]).toEqual([1, expect.stringContaining('signet start')]);
    expect(readFileSync(join(folder, '.daemon', 'local-token'), 'utf8')).toBe('left behind');
  });
});
