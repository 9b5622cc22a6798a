import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { resolveSettings } from '../../src/config.ts';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { type Rig, readLog, startRig } from '../e2e/rig.ts';
import { startSignet } from '../helpers/signet.ts';
import { call } from './calls.ts';
import { startSplitRuntime } from './split-runtime.ts';
import { verifies } from './verifies.ts';

/** As spec/native-runtime lists them. */
const SPECIFIED = [
  ['post', '/session'],
  ['get', '/session/{id}'],
  ['delete', '/session/{id}'],
  ['post', '/session/{id}/prompt'],
  ['get', '/session/{id}/stream'],
  ['get', '/session/{id}/messages'],
  ['get', '/providers'],
  ['get', '/providers/{id}/status'],
  ['get', '/tools'],
  ['post', '/tools/{name}'],
  ['get', '/health'],
  ['get', '/info'],
] as const;

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({
    yaml: `runtime:
  default: house
  limits: { roundsMax: 7, idleTtlMs: 90000 }
  providers:
    house: { kind: anthropic, baseUrl: "$MODEL", apiKey: sk-very-secret, model: claude-of-the-house }
    away: { kind: openai-compatible, baseUrl: "http://127.0.0.1:9/v1" }
`,
  });
});
afterAll(() => rig.close());

const get = (path: string) => call('GET', rig.runtimeUrl + path);

verifies(['runtime.providers.list', 'runtime.config.provider'], async () => {
  const { body } = await get('/providers');
  expect(body.default).toBe('house');
  expect(body.providers).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        id: 'house',
        kind: 'anthropic',
        defaultModel: 'claude-of-the-house',
        isDefault: true,
        origin: 'agent.yaml',
      }),
      expect.objectContaining({ id: 'away', kind: 'openai-compatible', isDefault: false }),
    ]),
  );
  const { id } = await rig.client.session.create();
  await rig.client.session.prompt(id, { content: 'hello' });
  expect(rig.model.requests.at(-1)).toMatchObject({ wire: 'anthropic', model: 'claude-of-the-house' });
});

verifies(
  'runtime.config.from-daemon',
  'a runtime beside the daemon goes by the provider and the limits of the daemon, not by its own file',
  async () => {
    const apart = await startSplitRuntime(rig.daemonUrl, { ANTHROPIC_API_KEY: 'test' });
    try {
      expect(apart.requests.map(({ line }) => line)).toContain('GET /api/config/runtime');
      const { id, provider, model } = await apart.client.session.create();
      expect([provider, model]).toEqual(['house', 'claude-of-the-house']);
      const [created] = await readLog(apart.client, id);
      expect(created!.payload).toMatchObject({ limits: { roundsMax: 7 } });
      expect((await apart.client.info()).limits).toMatchObject({ idleTtlMs: 90_000 });
    } finally {
      await apart.close();
    }
  },
);

verifies('runtime.providers.status', async () => {
  expect(await get('/providers/house/status')).toMatchObject({ status: 200, body: { id: 'house', available: true } });
  expect(await get('/providers/away/status')).toMatchObject({ status: 200, body: { id: 'away', available: false } });
  expect(await get('/providers/nobody/status')).toMatchObject({ status: 404, body: { code: 'provider_not_found' } });
});

verifies(['runtime.health', 'runtime.health.daemon'], async () => {
  expect(await get('/health')).toMatchObject({ status: 200, body: { status: 'healthy', daemon: { url: rig.daemonUrl, reachable: true } } });
  const alone = await startSplitRuntime('http://127.0.0.1:9', {});
  expect(await alone.client.health()).toMatchObject({ status: 'degraded', daemon: { reachable: false } });
  await alone.close();
});

verifies(['runtime.info.version', 'runtime.info.config'], async () => {
  const { body } = await get('/info');
  expect(body).toMatchObject({
    ...{ name: 'signet', version: expect.stringMatching(/^\d+\.\d+\.\d+/), workspace: rig.folder, daemonUrl: rig.daemonUrl },
    provider: { id: 'house', model: 'claude-of-the-house' },
    providers: expect.arrayContaining(['house', 'away']),
    limits: expect.objectContaining({ turnTimeoutMs: 1_800_000 }),
  });
  expect(JSON.stringify(body)).not.toContain('sk-very-secret');
});

verifies('runtime.port.configurable', async () => {
  expect(resolveSettings({ SIGNET_PATH: rig.folder, SIGNET_RUNTIME_PORT: '7712' }).runtimePort).toBe(7712);
  const other = await startSignet();
  writeFileSync(join(other.folder, 'agent.yaml'), 'runtime: { port: 7713 }\n');
  expect(resolveSettings({ SIGNET_PATH: other.folder }).runtimePort).toBe(7713);
  await other.close();
});

verifies('runtime.port.daemon-not-exposed', async () => {
  const own = new Set(['/health', '/openapi.json']);
  const paths = Object.values(daemonOperations).filter(({ path }) => !own.has(path));
  expect(paths.length).toBeGreaterThan(15);
  for (const { method, path } of paths) {
    const answer = await call(method, rig.runtimeUrl + path.replace(/:\w+/g, 'x'), method === 'GET' ? undefined : {});
    expect([method, path, answer.status, answer.body.code]).toEqual([method, path, 404, 'not_found']);
  }
});

verifies(['runtime.openapi', 'runtime.openapi.complete'], async () => {
  const { body } = await get('/openapi.json');
  expect(body).toMatchObject({ openapi: expect.stringMatching(/^3\.1\./), info: { title: 'Signet runtime', version: expect.any(String) } });
  for (const [method, path] of SPECIFIED) expect(body.paths[path], path).toHaveProperty(method);

  const described = Object.entries(body.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => [method, path] as const),
  );
  for (const [method, path] of described) {
    expect(body.paths[path][method]).toMatchObject({ operationId: expect.any(String), responses: expect.any(Object) });
    // What is described is served: it answers something else than "nothing is here".
    if (path === '/events') continue; // A stream without end; the others of its kind refuse an unknown session at once.
    const answer = await call(
      method.toUpperCase(),
      rig.runtimeUrl + path.replace(/\{\w+\}/g, 'unknown_thing'),
      method === 'get' ? undefined : {},
    );
    expect([method, path, answer.body.code === 'not_found']).toEqual([method, path, false]);
  }
  for (const [, ref] of JSON.stringify(body).matchAll(/"\$ref":"#\/([^"]+)"/g)) {
    const target = ref?.split('/').reduce((node, key) => node?.[key.replaceAll('~1', '/')], body);
    expect([ref, typeof target]).toEqual([ref, 'object']);
  }
});

verifies('runtime.openapi.generated', async () => {
  const { body } = await get('/openapi.json');
  let schema = body.paths['/session/{id}/prompt'].post.requestBody.content['application/json'].schema;
  if (schema.$ref)
    schema = schema.$ref
      .slice(2)
      .split('/')
      .reduce((node: Record<string, unknown>, key: string) => node[key], body);
  expect(schema.required).toEqual(['content']);
  expect(schema.properties.content.maxLength).toBe(500_000);
  expect(schema.additionalProperties).toBe(false);

  const { id } = await rig.client.session.create();
  const refusal = async (prompt: object) => (await call('POST', `${rig.runtimeUrl}/session/${id}/prompt`, prompt)).body.errors[0].pointer;
  expect(await refusal({})).toBe('/content');
  expect(await refusal({ content: 'x'.repeat(500_001) })).toBe('/content');
  expect(await refusal({ content: 'x', colour: 'blue' })).toBe('/colour');
});
