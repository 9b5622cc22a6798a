import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readlinkSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { call } from '../conformance/calls.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));

const KEYS = {
  ANTHROPIC_API_KEY: 'canary-anthropic',
  OPENAI_API_KEY: 'canary-openai',
  SIGNET_TOKEN: 'canary-token',
  COMPANY_MODEL: 'canary-named-in-agent-yaml',
  DATABASE_URL: 'postgres://u:canary-login@h/d',
};

describe.runIf(process.platform === 'linux')('the environment of the daemon', () => {
  let signet: SignetProcess;
  const seen: (string | undefined)[] = [];
  const model = createServer((request: IncomingMessage, response) => {
    seen.push(request.headers.authorization);
    request.resume();
    response.writeHead(400).end('{}');
  });
  beforeAll(async () => {
    await new Promise<void>((resolve) => model.listen(0, '127.0.0.1', resolve));
    const baseUrl = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`;
    const provider = `{ kind: openai-compatible, baseUrl: "${baseUrl}", model: m, apiKeyEnv: COMPANY_MODEL }`;
    signet = await startSignetProcess({
      yaml: `secrets: { keyring: false }\nruntime: { providers: { own: ${provider} } }\n`,
      env: { ...KEYS, SIGNET_LOG_LEVEL: 'warn', PLAIN: 'kept' },
    });
  });
  beforeAll(() => call('POST', `${signet.daemonUrl}/api/secrets/OWN`, { value: 'value-of-the-secret' }));
  afterAll(async () => {
    await signet.close();
    model.close();
  });

  const exec = async (command: string): Promise<string> => {
    const answer = await call('POST', `${signet.daemonUrl}/api/secrets/exec`, { command, secrets: { OWN: 'OWN' } });
    expect([answer.status, answer.body.stderr]).toEqual([200, '']);
    return answer.body.stdout;
  };

  test('holds no keys for a command with secrets to read, in the daemon and in itself', async () => {
    const environment = await exec("tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' '\\n' < /proc/self/environ; env");
    expect(environment).toContain('PLAIN=kept');
    expect(environment).toContain('OWN=[REDACTED]');
    expect(environment).not.toContain('canary');
    expect(environment).not.toMatch(/API_KEY|SIGNET_TOKEN|COMPANY_MODEL|DATABASE_URL/);
  });

  test('leaves the keys in no file that the daemon has open, and none in its arguments', async () => {
    const shown = await exec(
      'for f in /proc/$PPID/fd/*; do if [ -f "$f" ]; then head -c 100000 "$f"; fi; done | tr -d "\\0"; cat /proc/$PPID/cmdline',
    );
    expect(shown).toContain('--foreground');
    expect(shown).not.toContain('canary');
    expect(readlinkSync(`/proc/${signet.process.pid}/fd/0`)).toBe('/dev/null');
  });

  test('still has the keys for the providers', async () => {
    const session = await signet.client.session.create({ provider: 'own' });
    await signet.client.session.prompt(session.id, { content: 'hello' }).catch(() => undefined);
    await expect.poll(() => seen, { timeout: 10_000 }).toContain(`Bearer ${KEYS.COMPANY_MODEL}`);
  });
});

/** Started so that it ends at once, by a port that does not exist: what matters has happened by then. */
async function startAndFail(env: Record<string, string>, stdin: 'ignore' | 'pipe'): Promise<string> {
  const child = spawn(process.execPath, [LAUNCHER, 'start', '--foreground'], {
    env: { PATH: process.env.PATH ?? '', SIGNET_PORT: 'none', ...env },
    stdio: [stdin, 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (text += chunk));
  await once(child, 'close');
  return text;
}

test.runIf(process.platform === 'linux')('a start without keys, and one with another mark, go on as they are', async () => {
  expect(await startAndFail({}, 'pipe')).toContain('SIGNET_PORT');
  expect(await startAndFail({ A_KEY: 'x' }, 'pipe')).toContain('SIGNET_PORT');
  expect(await startAndFail({ SIGNET_KEYS_ON_STDIN: '1', A_KEY: 'x' }, 'ignore')).toContain('SIGNET_PORT');
});
