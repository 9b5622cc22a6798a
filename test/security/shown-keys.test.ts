import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { redactKeys } from '../../src/core/log-redaction.ts';
import { call } from '../conformance/calls.ts';
import { MCP_SERVER_COMMAND } from '../helpers/mcp-server.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';

const YAML = `
secrets: { keyring: false }
telemetry: { otlpEndpoint: "http://otel:canary-otlp@127.0.0.1:9/v1" } # https://bob:canary-comment@example.com
embedding: { provider: openai-compatible, baseUrl: "http://127.0.0.1:9/v1?api_key=canary-embed" }
runtime:
  providers:
    local: { kind: openai-compatible, baseUrl: "http://127.0.0.1:9/v1?key=canary-provider", apiKey: canary-key, headers: { x: canary-header } }
  mcpServers:
    web: { url: "http://127.0.0.1:9/mcp?access_token=canary-query&x=1" }
    path: { url: "http://127.0.0.1:9/s/canary0123456789abcdef0123/mcp" }
    run: { command: "false", args: [--token, canary-arg, --api-key=canary-option, canary-plain, "postgres://u:canary-db@h/d"], env: { A: canary-env } }
`;

let signet: SignetProcess;
beforeAll(async () => {
  signet = await startSignetProcess({ yaml: YAML, env: { SIGNET_LOG_LEVEL: 'trace' } });
});
afterAll(() => signet.close());

const PLACES = ['/api/config', '/api/config/runtime', '/api/status', '/api/logs?limit=1000&level=debug', '/api/mcp', '/openapi.json'];

describe('keys in addresses and arguments', () => {
  test.each(PLACES)('do not come out of the daemon at %s', async (path) => {
    const answer = await fetch(`${signet.daemonUrl}${path}`);
    expect(await answer.text()).not.toContain('canary');
  });

  test.each(['/providers', '/tools', '/status', '/', '/health', '/models'])('do not come out of the runtime at %s', async (path) => {
    const answer = await fetch(`${signet.runtimeUrl}${path}`);
    expect(await answer.text()).not.toContain('canary');
  });

  test('do not come out of the log on any level', () => {
    expect(signet.output()).toContain('"level"');
    expect(signet.output()).not.toContain('canary');
  });

  test('do not come out of a broken configuration', async () => {
    writeFileSync(
      join(signet.folder, 'agent.yaml'),
      YAML.replace('key=canary-provider', '').replace('127.0.0.1:9/v1?', 'u:canary-broken@h/'),
    );
    const shown = async () => (await call('GET', `${signet.daemonUrl}/api/config`)).body;
    await expect.poll(async () => (await shown()).fault, { timeout: 10_000 }).toMatch(/must not hold a user or password/);
    expect(JSON.stringify(await shown())).not.toContain('canary');
  });

  test('are not shown of what was registered, and a login in an address is refused with a hint', async () => {
    const login = await call('POST', `${signet.runtimeUrl}/tools`, { mcpServer: 'login', url: 'http://u:canary-login@127.0.0.1:9/mcp' });
    expect([login.status, login.body.detail]).toEqual([400, expect.stringContaining('signet secret set')]);
    const failed = await call('POST', `${signet.runtimeUrl}/tools`, {
      ...{ mcpServer: 'args', command: 'false', args: ['--token', 'canary-args'], env: { A: 'canary-env' } },
    });
    expect(failed.status).toBe(502);
    const { command, args } = MCP_SERVER_COMMAND;
    const tool = await call('POST', `${signet.runtimeUrl}/tools`, { mcpServer: 'ok', command, args: [...args, '--token=canary-arg'] });
    const callback = { url: 'http://127.0.0.1:9/hooks/canary0123456789abcdef0123?token=canary' };
    const hook = await call('POST', `${signet.runtimeUrl}/tools`, {
      name: 'hook',
      description: '',
      inputSchema: { type: 'object' },
      callback,
    });
    const list = await call('GET', `${signet.runtimeUrl}/tools`);
    expect([tool.status, hook.status]).toEqual([201, 201]);
    expect(hook.body.tools[0].callback).toBe('http://127.0.0.1:9/hooks/[redacted]');
    expect(JSON.stringify([login.body, failed.body, tool.body, hook.body, list.body]) + signet.output()).not.toContain('canary');
  });
});

test('text without keys stays as it is, and JSON stays JSON', () => {
  for (const text of [
    'http://127.0.0.1:3850/api/memory/mem_01j9z?limit=10',
    'a // b @ c',
    'path=/key',
    'code: 5',
    '{"url":"http://h/?q=1","at":"a@b"}',
  ])
    expect(redactKeys(text)).toBe(text);
  const line = JSON.stringify({ url: 'http://u:p@h/?key=abc', next: 'x"y' });
  expect(JSON.parse(redactKeys(line))).toEqual({ url: 'http://[redacted]@h/?key=[redacted]', next: 'x"y' });
});

test('long texts are redacted in time that grows with their length', () => {
  const step = (chars: number) => {
    const text = ['?', 'token', '/a', 'http://a/', '//'].map((part) => part.repeat(chars / part.length)).join('');
    const begin = process.cpuUsage();
    redactKeys(text);
    return process.cpuUsage(begin).user;
  };
  step(10_000);
  expect(step(400_000)).toBeLessThan(40 * Math.max(step(40_000), 5_000));
});
