import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { type Answer, call } from '../conformance/calls.ts';
import { verifies } from '../conformance/verifies.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { connectHttp } from '../helpers/mcp-connection.ts';
import { type Signet, type SignetOptions, startSignet } from '../helpers/signet.ts';

const VALUE = 'canary-7Hk2/pQ+x9==';
/** The keyring of whoever runs the tests is not ours. */
const YAML = 'secrets: { keyring: false }\n';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(options: SignetOptions = {}): Promise<Signet> {
  const signet = await startSignet({ yaml: YAML, ...options });
  closers.push(() => signet.close());
  return signet;
}

const request = (signet: Signet, method: string, path: string, body?: unknown): Promise<Answer> =>
  call(method, signet.daemonUrl + path, body);
const put = (signet: Signet, name: string, value: unknown = VALUE): Promise<Answer> =>
  request(signet, 'POST', `/api/secrets/${name}`, { value });
const exec = (signet: Signet, command: string, more: object = {}): Promise<Answer> =>
  request(signet, 'POST', '/api/secrets/exec', { command, secrets: { API_KEY: 'API_KEY' }, ...more });
const vaultOf = (signet: Signet): string => join(signet.folder, '.secrets', 'vault.json');

verifies(['mcp.secret_list.names', 'mcp.secret_list.no-values', 'secrets.list.endpoint'], async () => {
  const signet = await start();
  expect((await request(signet, 'GET', '/api/secrets')).body).toEqual({ secrets: [] });
  expect((await put(signet, 'ZETA')).body).toEqual({ success: true, name: 'ZETA' });
  await put(signet, 'API_KEY');
  await put(signet, 'API_KEY', 'another value');

  const { status, body } = await request(signet, 'GET', '/api/secrets');
  expect([status, body]).toEqual([200, { secrets: ['API_KEY', 'ZETA'] }]);
  expect(Object.keys((await request(signet, 'GET', '/api/secrets/ZETA')).body).sort()).toEqual(['createdAt', 'name', 'updatedAt']);
  expect((await request(signet, 'GET', '/api/secrets/OMEGA')).body).toMatchObject({ code: 'secret_not_found', status: 404 });
  expect((await request(signet, 'DELETE', '/api/secrets/ZETA')).body).toEqual({ success: true, name: 'ZETA' });
  expect((await request(signet, 'DELETE', '/api/secrets/ZETA')).status).toBe(404);
  expect((await request(signet, 'GET', '/api/secrets')).body).toEqual({ secrets: ['API_KEY'] });
});

verifies(
  [
    'mcp.secret_exec.command',
    'mcp.secret_exec.secrets',
    'mcp.secret_exec.reference.name',
    'mcp.secret_exec.redacted',
    'mcp.secret_exec.result',
    'secrets.exec.endpoint',
  ],
  async () => {
    const signet = await start();
    await put(signet, 'API_KEY');
    await put(signet, 'OTHER', 'the other value');
    const both = { secrets: { FIRST: 'API_KEY', SECOND: 'OTHER' } };
    const { status, body } = await exec(signet, 'echo "a $FIRST b $SECOND c"; echo "$SECOND" >&2; test -n "$FIRST" && exit 3', both);
    expect(status).toBe(200);
    expect(body).toEqual({
      ...{ stdout: 'a [REDACTED] b [REDACTED] c\n', stderr: '[REDACTED]\n', code: 3 },
      ...{ timedOut: false, truncated: false },
    });
    const length = await exec(signet, 'printf %s "$API_KEY" | wc -c');
    expect(length.body.stdout.trim()).toBe(String(VALUE.length));
    expect((await request(signet, 'POST', '/api/secrets/API_KEY/exec', { command: 'echo $API_KEY' })).body.stdout).toBe('[REDACTED]\n');

    expect((await request(signet, 'POST', '/api/secrets/exec', { secrets: { A: 'API_KEY' } })).body.errors).toMatchObject([
      { pointer: '/command' },
    ]);
    expect((await request(signet, 'POST', '/api/secrets/exec', { command: 'true' })).body.errors).toMatchObject([{ pointer: '/secrets' }]);
    expect((await exec(signet, 'true', { secrets: {} })).status).toBe(400);
    expect((await exec(signet, 'true\0')).body.errors).toMatchObject([{ pointer: '/command' }]);
    expect((await exec(signet, `: ${'€'.repeat(65_000)}`)).body).toMatchObject({ status: 400, code: 'invalid_request' });
    expect((await exec(signet, 'true', { cwd: '/etc/passwd/x' })).body.errors).toMatchObject([{ pointer: '/cwd' }]);
    const unknown = await exec(signet, 'true', { secrets: { A: 'NOT_THERE' } });
    expect(unknown.body).toMatchObject({ status: 404, code: 'secret_not_found' });
    expect(unknown.body.error).toMatch(/^Secret 'NOT_THERE' not found/);
  },
);

describe('a command', () => {
  test('that encodes its secret shows it in no form', async () => {
    const signet = await start();
    await put(signet, 'API_KEY');
    const command = [
      'echo "$API_KEY" | base64; echo "x$API_KEY" | base64; echo "xy$API_KEY" | base64 -w 5',
      'printf %s "$API_KEY" | od -An -v -tx1; echo "$API_KEY" | rev; echo "$API_KEY" | fold -w 3',
      'env | grep API_KEY',
    ].join('; ');
    const { body } = await exec(signet, command);
    const reversed = [...VALUE].reverse().join('');
    const forms = [
      VALUE,
      Buffer.from(VALUE).toString('hex'),
      reversed,
      ...['', 'x', 'xy'].map((text) =>
        Buffer.from(text + VALUE)
          .toString('base64')
          .slice(4, -4),
      ),
    ];
    expect(body.stdout.match(/\[REDACTED\]/g).length).toBeGreaterThanOrEqual(6);
    for (const form of forms) expect([form, body.stdout.replace(/\s/g, '').includes(form)]).toEqual([form, false]);
  });

  test('that writes its secret in pieces shows none of them', async () => {
    const signet = await start();
    await put(signet, 'API_KEY');
    const pieces = [...VALUE].map((char) => `printf '%s' '${char}'; sleep 0.01`).join('; ');
    expect((await exec(signet, pieces)).body.stdout).toBe('[REDACTED]');
  });

  verifies(
    'mcp.secret_exec.timeout',
    'called as a tool is given up after 30 seconds when nothing else was asked for',
    async () => {
      const signet = await start();
      await put(signet, 'API_KEY');
      const mcp = await connectHttp(signet.daemonUrl);
      const startedAt = performance.now();
      const input = { command: 'echo begun; sleep 600', secrets: { API_KEY: 'API_KEY' } };
      expect(await mcp.call('secret_exec', input)).toMatchObject({ stdout: 'begun\n', code: 124, timedOut: true });
      expect(performance.now() - startedAt).toBeGreaterThan(29_500);
      await mcp.close();
    },
    90_000,
  );

  test('that never ends is ended, and its children with it', async () => {
    const signet = await start();
    await put(signet, 'API_KEY');
    const file = join(signet.folder, 'pid');
    const { status, body } = await exec(signet, `echo begun; sleep 600 & echo $! > ${file}; sleep 600`, { timeoutMs: 4_000 });
    expect([status, body]).toEqual([200, { stdout: 'begun\n', stderr: '', code: 124, timedOut: true, truncated: false }]);
    await expectGone(file);
    // Nobody may ask for longer than that.
    expect((await exec(signet, 'true', { timeoutMs: 30_001 })).body.errors).toMatchObject([{ pointer: '/timeoutMs' }]);
  });

  test('leaves nothing running behind it, and does not wait for it', async () => {
    const signet = await start();
    await put(signet, 'API_KEY');
    const file = join(signet.folder, 'pid');
    const { body } = await exec(signet, `sleep 600 & echo $! > ${file}; echo done`);
    expect(body).toMatchObject({ stdout: 'done\n', code: 0, timedOut: false });
    await expectGone(file);
  });

  test('is ended when its caller leaves', async () => {
    const signet = await start();
    await put(signet, 'API_KEY');
    const file = join(signet.folder, 'pid');
    const controller = new AbortController();
    const asked = fetch(`${signet.daemonUrl}/api/secrets/exec`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ command: `echo $$ > ${file}; sleep 600`, secrets: { API_KEY: 'API_KEY' } }),
      signal: controller.signal,
    });
    await expect.poll(() => existsSync(file) && readFileSync(file, 'utf8').trim(), { timeout: 20_000 }).toBeTruthy();
    controller.abort();
    await expect(asked).rejects.toThrow();
    await expectGone(file);
  });

  test('that writes without end is cut, and its answer stays small', async () => {
    const signet = await start();
    await put(signet, 'API_KEY');
    const { body } = await exec(signet, 'yes "$API_KEY and some more text" | head -c 1000000000');
    expect(body).toMatchObject({ truncated: true });
    expect(body.stdout.length).toBeLessThan(300_000);
    expect(body.stdout).not.toContain(VALUE.slice(0, 8));
    expect(body.stdout).not.toContain('canary-7');
  });

  test('sees the secrets and what a shell needs, and no keys of the daemon', async () => {
    const signet = await start({ env: { ANTHROPIC_API_KEY: 'sk-of-the-daemon-0123456789', PATH: process.env.PATH ?? '', HOME: '/tmp' } });
    await put(signet, 'API_KEY');
    const { body } = await exec(signet, 'env; pwd');
    expect(body.stdout).toContain('API_KEY=[REDACTED]');
    expect(body.stdout).not.toContain('sk-of-the-daemon');
    expect(body.stdout).toMatch(/\/tmp\n$/);
    expect((await exec(signet, 'pwd', { cwd: signet.folder })).body.stdout.trim()).toContain(signet.folder);
    expect((await exec(signet, 'pwd', { cwd: '/nowhere/at/all' })).body.errors).toMatchObject([{ pointer: '/cwd' }]);
  });
});

async function expectGone(pidFile: string): Promise<void> {
  const pid = Number(readFileSync(pidFile, 'utf8'));
  await expect.poll(() => isRunning(pid), { timeout: 20_000 }).toBe(false);
}

/** A zombie, which nobody has looked after yet, has ended. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return !existsSync('/proc/self/stat'); // Without /proc the signal has told.
  }
}

describe('op:// references', () => {
  const REFERENCE = 'op://Private/OpenAI key/credential';
  const OP = { secrets: { KEY: REFERENCE } };

  /** A folder with a stand-in for the command line of 1Password. */
  function withOp(script: string): Record<string, string> {
    const bin = tempFolder({ op: `#!/bin/sh\n${script}\n` });
    chmodSync(join(bin, 'op'), 0o755);
    return { PATH: `${bin}:/usr/bin:/bin`, OP_SERVICE_ACCOUNT_TOKEN: 'ops_0123456789' };
  }

  verifies('mcp.secret_exec.reference.op', async () => {
    const script = `[ "$1" = read ] && [ "$3" = "${REFERENCE}" ] && [ -n "$OP_SERVICE_ACCOUNT_TOKEN" ] && printf %s '${VALUE}'`;
    const signet = await start({ env: withOp(script) });
    const { body } = await exec(signet, `[ "$KEY" = '${VALUE}' ] && echo same; echo "$KEY"; echo "token: $OP_SERVICE_ACCOUNT_TOKEN"`, OP);
    expect(body).toMatchObject({ stdout: 'same\n[REDACTED]\ntoken: \n', code: 0 });
    expect(existsSync(vaultOf(signet))).toBe(false);
  });

  test('that 1Password refuses, or cannot be asked, say so', async () => {
    const signet = await start({ env: withOp("echo '[ERROR] no item named OpenAI' >&2; exit 1") });
    expect((await exec(signet, 'true', OP)).body).toMatchObject({
      ...{ status: 502, code: 'secret_reference_failed', detail: expect.stringContaining('no item named OpenAI') },
    });
    const without = await start({ env: { PATH: tempFolder() } });
    expect((await exec(without, 'true', OP)).body).toMatchObject({
      ...{ status: 502, code: 'secret_reference_failed', detail: expect.stringContaining('no program "op" is on the PATH') },
    });
    for (const wrong of ['op://', 'op://a/b', '--help', 'op://a/b/c\nd', 'some thing']) {
      expect([wrong, (await exec(signet, 'true', { secrets: { KEY: wrong } })).status]).toEqual([wrong, 400]);
    }
  });
});

describe('the file', () => {
  test('holds no value, belongs to its user alone, and outlives a restart', async () => {
    const folder = tempFolder({ 'agent.yaml': YAML });
    const first = await startSignet({ folder });
    await put(first, 'API_KEY');
    await first.close();
    for (const name of ['vault.json', 'key']) expect([name, statSync(join(folder, '.secrets', name)).mode & 0o777]).toEqual([name, 0o600]);
    expect(statSync(join(folder, '.secrets')).mode & 0o777).toBe(0o700);
    expect(readFileSync(join(folder, '.secrets', '.gitignore'), 'utf8')).toBe('*\n');
    expect(readFileSync(join(folder, '.secrets', 'vault.json'), 'utf8')).not.toContain('canary');

    const again = await start({ folder });
    expect((await exec(again, `[ "$API_KEY" = '${VALUE}' ] && echo same`)).body.stdout).toBe('same\n');
  });

  test('that is damaged is refused and kept', async () => {
    const signet = await start();
    await put(signet, 'API_KEY');
    const whole = readFileSync(vaultOf(signet), 'utf8');
    for (const damaged of ['', '{', '[]', '{"version":1}', whole.slice(0, -30), whole.replace(/"box": "[^"]+"/, '"box": 7')]) {
      writeFileSync(vaultOf(signet), damaged);
      for (const answer of [await request(signet, 'GET', '/api/secrets'), await put(signet, 'NEW'), await exec(signet, 'true')]) {
        expect([damaged, answer.status, answer.body.code]).toEqual([damaged, 500, 'storage_corrupt']);
        expect(answer.body.detail).toContain('vault.json');
      }
      expect(readFileSync(vaultOf(signet), 'utf8')).toBe(damaged);
    }
    writeFileSync(vaultOf(signet), whole.replace('"version": 1', '"version": 2'));
    expect((await put(signet, 'NEW')).body.code).toBe('storage_version');
  });

  test('in which a value was changed or moved gives it out no more', async () => {
    const signet = await start();
    await put(signet, 'API_KEY');
    await put(signet, 'OTHER', 'the other value');
    const vault = JSON.parse(readFileSync(vaultOf(signet), 'utf8'));
    [vault.secrets.API_KEY, vault.secrets.OTHER] = [vault.secrets.OTHER, vault.secrets.API_KEY];
    writeFileSync(vaultOf(signet), JSON.stringify(vault));
    expect((await exec(signet, 'true')).body).toMatchObject({ code: 'storage_corrupt', detail: expect.stringContaining('API_KEY') });
  });

  test('whose key is lost or another is locked, and nothing is stored beside it', async () => {
    const signet = await start();
    await put(signet, 'API_KEY');
    const key = join(signet.folder, '.secrets', 'key');
    for (const text of ['0'.repeat(64), 'no key']) {
      writeFileSync(key, text);
      const codes = [(await exec(signet, 'true')).body.code, (await put(signet, 'NEW')).body.code];
      expect(codes).toEqual(text === 'no key' ? ['storage_corrupt', 'storage_corrupt'] : ['secrets_locked', 'secrets_locked']);
    }
    // Names need no key.
    expect((await request(signet, 'GET', '/api/secrets')).body).toEqual({ secrets: ['API_KEY'] });
  });

  test('takes many changes at once', async () => {
    const signet = await start();
    const names = Array.from({ length: 30 }, (_, index) => `KEY_${index}`);
    await Promise.all(names.map((name) => put(signet, name, `value of ${name}`)));
    expect((await request(signet, 'GET', '/api/secrets')).body.secrets).toEqual([...names].sort());
    expect(readdirSync(join(signet.folder, '.secrets')).sort()).toEqual(['.gitignore', 'key', 'vault.json']);
  });

  test('of the keyring is used when it takes the key, and asked again after a restart', async () => {
    const store = tempFolder();
    // A stand-in for secret-tool: it keeps one file per account.
    const tool = `#!/bin/sh\nfor last; do :; done\nif [ "$1" = store ]; then cat > ${store}/$last; else cat ${store}/$last; fi\n`;
    const bin = tempFolder({ 'secret-tool': tool });
    chmodSync(join(bin, 'secret-tool'), 0o755);
    const env = { PATH: `${bin}:/usr/bin:/bin` };
    const folder = tempFolder({ 'agent.yaml': 'secrets: { keyring: true }\n' });
    mkdirSync(folder, { recursive: true });
    if (process.platform !== 'linux') return;
    const first = await startSignet({ folder, env });
    await put(first, 'API_KEY');
    await first.close();
    expect(readdirSync(join(folder, '.secrets')).sort()).toEqual(['.gitignore', 'vault.json']);
    const [account] = readdirSync(store);
    expect(readFileSync(join(store, account!), 'utf8')).toMatch(/^[0-9a-f]{64}$/);

    const again = await startSignet({ folder, env });
    expect((await exec(again, 'echo "$API_KEY"')).body.stdout).toBe('[REDACTED]\n');
    await again.close();
    // Without the keyring nothing is guessed.
    const locked = await start({ folder, env: { PATH: '/nowhere' } });
    expect((await exec(locked, 'true')).body).toMatchObject({ status: 503, code: 'secrets_locked' });
  });
});

const UNFIT = [
  ['exec', 'a value of its own'],
  ['1ST', VALUE],
  ['with-dash', VALUE],
  ['__proto__', VALUE],
  ['API_KEY', 'abc'],
  ['API_KEY', '      '],
  ['API_KEY', 'zero \0 byte'],
  ['API_KEY', 'x'.repeat(32_769)],
  ['API_KEY', 42],
] as const;

test('names that are no variables, and values that cannot be kept out of an output, are refused', async () => {
  const signet = await start();
  for (const [name, value] of UNFIT) {
    const { status } = await put(signet, name, value);
    expect([name, String(value).slice(0, 20), status]).toEqual([name, String(value).slice(0, 20), 400]);
  }
  expect(existsSync(join(signet.folder, '.secrets'))).toBe(false);
});
