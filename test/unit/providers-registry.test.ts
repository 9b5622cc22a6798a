import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDemoProvider } from '../../src/providers/demo.ts';
import { createConfiguredProviders } from '../../src/providers/from-config.ts';
import { createProviderRegistry } from '../../src/providers/registry.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';

let server: ModelServer;
beforeAll(async () => {
  server = await startModelServer();
});
afterAll(() => server.close());

describe('registry', () => {
  it('lists in order of registration and marks the default', () => {
    const registry = createProviderRegistry();
    registry.register(createDemoProvider({ id: 'a' }), { origin: 'test' });
    registry.register(createDemoProvider({ id: 'b' }), {
      origin: 'test',
      baseUrl: 'http://user:secret@127.0.0.1:9/v1?key=1',
      default: true,
    });
    expect(registry.list()).toEqual([
      { id: 'a', kind: 'demo', defaultModel: 'demo', baseUrl: null, isDefault: false, origin: 'test' },
      { id: 'b', kind: 'demo', defaultModel: 'demo', baseUrl: 'http://127.0.0.1:9/v1', isDefault: true, origin: 'test' },
    ]);
  });

  it('names the known ones when asked for another', () => {
    const registry = createProviderRegistry();
    registry.register(createDemoProvider({ id: 'a' }), { origin: 'test' });
    registry.register(createDemoProvider({ id: 'b' }), { origin: 'test' });
    expect(() => registry.get('c')).toThrow(expect.objectContaining({ code: 'unknown_provider', detail: 'no provider "c"; known: a, b' }));
  });

  it('resolves a provider, a model, both or neither', () => {
    const registry = createProviderRegistry();
    registry.register(createDemoProvider({ id: 'a' }), { origin: 'test' });
    registry.register(createDemoProvider({ id: 'b' }), { origin: 'test' });
    const resolve = (choice?: { provider?: string | null; model?: string | null }) => {
      const { provider, model } = registry.resolve(choice);
      return [provider.id, model];
    };
    expect(resolve()).toEqual(['a', 'demo']);
    expect(resolve({ provider: 'b' })).toEqual(['b', 'demo']);
    expect(resolve({ model: 'x' })).toEqual(['a', 'x']);
    expect(resolve({ provider: 'b', model: 'x' })).toEqual(['b', 'x']);
    expect(resolve({ provider: null, model: null })).toEqual(['a', 'demo']);
  });

  it('takes registrations at run time, and another becomes the default when the default goes', () => {
    const registry = createProviderRegistry();
    registry.register(createDemoProvider({ id: 'a' }), { origin: 'test' });
    registry.register(createDemoProvider({ id: 'b' }), { origin: 'test', default: true });
    expect(registry.unregister('b')).toBe(true);
    expect(registry.unregister('b')).toBe(false);
    expect(registry.resolve().provider.id).toBe('a');
    registry.unregister('a');
    expect(() => registry.resolve()).toThrow(expect.objectContaining({ code: 'unknown_provider' }));
  });

  it('answers the status of one, with the reason when it is not available', async () => {
    const registry = createConfiguredProviders(
      {
        providers: {
          here: { kind: 'openai', baseUrl: `${server.url}/v1` },
          gone: { kind: 'openai-compatible', baseUrl: 'http://127.0.0.1:1/v1' },
          keyless: { kind: 'anthropic' },
        },
      },
      {},
    );
    expect(await registry.status('here')).toMatchObject({ id: 'here', available: true });
    expect(await registry.status('gone')).toMatchObject({ available: false, detail: 'no connection to http://127.0.0.1:1' });
    expect(await registry.status('keyless')).toMatchObject({ available: false, detail: expect.stringContaining('set ANTHROPIC_API_KEY') });
    await expect(registry.status('nobody')).rejects.toMatchObject({ code: 'provider_not_found' });
  });

  it('says which status a server refused the probe with', async () => {
    const locked = await startModelServer({ models: 401 });
    const registry = createConfiguredProviders({ providers: { p: { kind: 'openai', baseUrl: `${locked.url}/v1` } } }, {});
    expect(await registry.status('p')).toMatchObject({ available: false, detail: `HTTP 401 from ${locked.url}` });
    await locked.close();
  });
});

describe('configuration', () => {
  const ids = (...args: Parameters<typeof createConfiguredProviders>) =>
    createConfiguredProviders(...args)
      .list()
      .map((info) => (info.isDefault ? `*${info.id}` : info.id));

  it('is the demo alone when nothing is configured', () => {
    expect(ids({}, {})).toEqual(['*demo']);
  });

  it.each<[string, Record<string, string>, string[]]>([
    ['an Anthropic key', { ANTHROPIC_API_KEY: 'k' }, ['*anthropic', 'demo']],
    ['an Anthropic address', { ANTHROPIC_BASE_URL: 'http://127.0.0.1:1' }, ['*anthropic', 'demo']],
    ['an OpenAI key', { OPENAI_API_KEY: 'k' }, ['*openai', 'demo']],
    ['an OpenAI key with an address', { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' }, ['*openai', 'demo']],
    ['an OpenAI address without a key', { OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' }, ['*openai-compatible', 'demo']],
    ['both keys', { ANTHROPIC_API_KEY: 'k', OPENAI_API_KEY: 'k' }, ['*anthropic', 'openai', 'demo']],
    [
      'both keys and a choice',
      { ANTHROPIC_API_KEY: 'k', OPENAI_API_KEY: 'k', SIGNET_PROVIDER: 'openai' },
      ['anthropic', '*openai', 'demo'],
    ],
    ['the choice of a compatible server', { SIGNET_PROVIDER: 'openai-compatible' }, ['*openai-compatible', 'demo']],
    ['the choice of the demo', { ANTHROPIC_API_KEY: 'k', SIGNET_PROVIDER: 'demo' }, ['anthropic', '*demo']],
    ['empty variables', { ANTHROPIC_API_KEY: '', OPENAI_API_KEY: ' ' }, ['*demo']],
  ])('understands %s', (_name, env, expected) => {
    expect(ids({}, env)).toEqual(expected);
  });

  it('prefers agent.yaml to the environment, and the environment variables made for the choice to both', () => {
    const config = { default: 'local', providers: { local: { kind: 'openai-compatible' as const, baseUrl: 'http://127.0.0.1:1/v1' } } };
    expect(ids(config, { ANTHROPIC_API_KEY: 'k' })).toEqual(['*local', 'anthropic', 'demo']);
    expect(ids(config, { ANTHROPIC_API_KEY: 'k', SIGNET_PROVIDER: 'anthropic' })).toEqual(['local', '*anthropic', 'demo']);
  });

  it('says why each provider is there', () => {
    const registry = createConfiguredProviders({ providers: { mine: { kind: 'demo' } } }, { OPENAI_API_KEY: 'k' });
    expect(registry.list().map((info) => [info.id, info.origin])).toEqual([
      ['mine', 'agent.yaml'],
      ['openai', 'OPENAI_API_KEY'],
      ['demo', 'built in'],
    ]);
  });

  it('gives SIGNET_MODEL to the default provider only', () => {
    const registry = createConfiguredProviders(
      { model: 'from-yaml' },
      { ANTHROPIC_API_KEY: 'k', OPENAI_API_KEY: 'k', SIGNET_MODEL: 'wanted' },
    );
    expect(registry.list().map((info) => info.defaultModel)).toEqual(['wanted', 'gpt-6-sol', 'demo']);
  });

  it('refuses a default nobody configured', () => {
    expect(() => createConfiguredProviders({ default: 'ghost' }, {})).toThrow(
      expect.objectContaining({ code: 'config_invalid', detail: 'runtime.default names "ghost"; known providers: demo' }),
    );
  });

  it('starts without the key of a provider that is asked for by name; its calls name the variable', async () => {
    const registry = createConfiguredProviders({ default: 'anthropic' }, {});
    await expect(registry.resolve().provider.complete([])).rejects.toMatchObject({
      code: 'provider_refused',
      detail: expect.stringContaining('ANTHROPIC_API_KEY'),
    });
  });

  it('sends the key of the environment to the official service or the address of the environment only', async () => {
    const keyOf = async (config: Parameters<typeof createConfiguredProviders>[0], env: Record<string, string>) => {
      await createConfiguredProviders(config, env)
        .resolve()
        .provider.complete([{ role: 'user', content: [{ type: 'text', text: 'hi' }] }]);
      return server.requests.at(-1)!.headers.authorization;
    };
    const baseUrl = `${server.url}/v1`;
    expect(await keyOf({}, { OPENAI_API_KEY: 'official', OPENAI_BASE_URL: baseUrl })).toBe('Bearer official');
    expect(await keyOf({ providers: { p: { kind: 'openai', baseUrl } } }, { OPENAI_API_KEY: 'official' })).toBeUndefined();
    expect(await keyOf({ providers: { p: { kind: 'openai', baseUrl, apiKeyEnv: 'MINE' } } }, { MINE: 'named' })).toBe('Bearer named');
    expect(await keyOf({ providers: { p: { kind: 'openai', baseUrl, apiKey: 'inline' } } }, {})).toBe('Bearer inline');
  });
});
