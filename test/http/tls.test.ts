import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createDaemonClient } from '../../src/client/daemon-client.ts';
import { createRuntimeClient } from '../../src/client/runtime-client.ts';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { outsideAddress, startGuarded } from '../helpers/auth-rig.ts';
import { startSignetProcess } from '../helpers/signet.ts';

const outside = outsideAddress();
const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));

/** A workspace with a certificate of its own for 127.0.0.1. */
function workspaceWithCertificate(): string {
  const folder = mkdtempSync(join(tmpdir(), 'signet-tls-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const subject = ['-subj', '/CN=signet.test', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const files = ['-keyout', join(folder, 'key.pem'), '-out', join(folder, 'cert.pem')];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1'];
  execFileSync('openssl', ['req', '-x509', ...kind, ...subject, ...files], { stdio: 'ignore' });
  return folder;
}

describe('the address of the runtime', () => {
  test('is loopback when only the daemon was opened to other machines, and the start says what is open', async ({ skip }) => {
    if (outside === undefined) return skip('this machine has no address but loopback');
    const signet = await startSignetProcess({ yaml: 'auth: { mode: team }\n', env: { SIGNET_HOST: '0.0.0.0' } });
    onTestFinished(() => signet.close());
    const [daemonPort, runtimePort] = [signet.daemonUrl, signet.runtimeUrl].map((url) => new URL(url).port);
    expect((await fetch(`http://127.0.0.1:${daemonPort}/health`)).status).toBe(401);
    expect((await fetch(`http://127.0.0.1:${runtimePort}/health`)).status).toBe(401);
    // 421: the daemon answers there, for none but its own names.
    expect([401, 421]).toContain((await fetch(`http://${outside}:${daemonPort}/health`)).status);
    await expect(fetch(`http://${outside}:${runtimePort}/health`)).rejects.toThrow();
    expect(signet.output()).toMatch(
      /OPEN {6}other machines reach the daemon http:\/\/0\.0\.0\.0:\d+, auth\.mode team, IN CLEAR: set server\.tls/,
    );
    expect(signet.output()).not.toContain('reach the runtime');
  });

  test('is another one when its own key says so', async ({ skip }) => {
    if (outside === undefined) return skip('this machine has no address but loopback');
    for (const options of [
      { yaml: 'auth: { mode: team }\n', env: { SIGNET_HOST: '0.0.0.0', SIGNET_RUNTIME_HOST: outside } },
      { yaml: `auth: { mode: team }\nruntime: { host: ${outside} }\n` },
    ]) {
      const { runtimeUrl, ask, localToken } = await startGuarded(options.yaml, options);
      expect(new URL(runtimeUrl).hostname).toBe(outside);
      expect((await ask('GET', `${runtimeUrl}/health`)).status).toBe(401);
      expect((await ask('GET', `${runtimeUrl}/health`, localToken)).status).toBe(200);
    }
  });

  test('that is open to others is refused without tokens', async () => {
    await expect(startGuarded('', { env: { SIGNET_RUNTIME_HOST: '0.0.0.0' } })).rejects.toMatchObject({ code: 'config_invalid' });
  });
});

describe('server.tls', () => {
  test('makes both ports speak HTTPS, which the commands on the machine trust, with streams and tokens', async () => {
    const folder = workspaceWithCertificate();
    const yaml = 'auth: { mode: team }\nsecrets: { keyring: false }\nserver: { tls: { cert: cert.pem, key: key.pem } }\n';
    const signet = await startSignetProcess({ folder, yaml });
    onTestFinished(() => signet.close());
    const [daemonPort, runtimePort] = [signet.daemonUrl, signet.runtimeUrl].map((url) => Number(new URL(url).port));
    for (const port of [daemonPort!, runtimePort!]) {
      await expect(fetch(`http://127.0.0.1:${port}/health`)).rejects.toThrow();
      expect(await statusOf(port, readFileSync(join(folder, 'cert.pem'), 'utf8'))).toBe(401);
    }
    const status = await cli(['status', '--json', '--path', folder]);
    expect(JSON.parse(status.stdout)).toMatchObject({
      running: true,
      daemonReachable: true,
      runtimeUrl: `https://127.0.0.1:${runtimePort}`,
    });
    const said = await cli(['chat', '--path', folder, '--print', 'Hello.']);
    expect(said, said.stderr).toMatchObject({ code: 0 });
    expect((await cli(['usage', '--path', folder])).stdout).toContain('total');
  }, 120_000);

  test('names the file that cannot be read, and a key that is another certificate’s', async () => {
    await expect(startGuarded('server: { tls: { cert: none.pem, key: none.pem } }\n')).rejects.toMatchObject({
      code: 'config_invalid',
      detail: expect.stringContaining('server.tls.cert'),
    });
    const [folder, other] = [workspaceWithCertificate(), workspaceWithCertificate()];
    expect(existsSync(join(folder, 'cert.pem'))).toBe(true);
    const yaml = `server: { tls: { cert: ${join(folder, 'cert.pem')}, key: ${join(other, 'key.pem')} } }\n`;
    await expect(startGuarded(yaml)).rejects.toMatchObject({ code: 'config_invalid', detail: expect.stringContaining('server.tls') });
  });
});

describe('a token in clear', () => {
  test('is sent to no other machine, unless that is allowed; loopback and https are fine', async ({ skip }) => {
    if (outside === undefined) return skip('this machine has no address but loopback');
    const rig = await startGuarded('auth: { mode: team }\n', { env: { SIGNET_HOST: outside, SIGNET_RUNTIME_HOST: outside } });
    const refused = { code: 'config_invalid', detail: expect.stringContaining('SIGNET_ALLOW_INSECURE') };
    const token = rig.localToken;
    const health = { call: daemonOperations.daemonHealth };
    await expect(createDaemonClient({ baseUrl: rig.daemonUrl, token }).call(health.call, {})).rejects.toMatchObject(refused);
    await expect(createRuntimeClient({ baseUrl: rig.runtimeUrl, token }).session.list({})).rejects.toMatchObject(refused);
    const streaming = createRuntimeClient({ baseUrl: rig.runtimeUrl, token }).session.stream('ses_anything');
    await expect(streaming[Symbol.asyncIterator]().next()).rejects.toMatchObject(refused);
    const allowed = createDaemonClient({ baseUrl: rig.daemonUrl, token, allowInsecure: true });
    await expect(allowed.call(health.call, {})).resolves.toMatchObject({ status: 'healthy' });
  });
});

interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command in a process of its own. */
function cli(args: readonly string[]): Promise<Said> {
  return new Promise((resolve) => {
    const options = { env: { PATH: process.env.PATH } };
    const child = execFile(process.execPath, [LAUNCHER, ...args], options, (error, stdout, stderr) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr }),
    );
    child.stdin?.end();
  });
}

function statusOf(port: number, ca: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path: '/health', ca, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.on('error', reject).end();
  });
}
