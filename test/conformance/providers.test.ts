import { afterAll, beforeAll, beforeEach, describe, expect } from 'vitest';
import type { Provider } from '../../src/core/provider.ts';
import { createConfiguredProviders } from '../../src/providers/from-config.ts';
import type { Wire } from '../helpers/model-server/reply.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { verifies } from './verifies.ts';

const PROVIDERS: readonly (readonly [string, Wire])[] = [
  ['anthropic', 'anthropic'],
  ['openai', 'responses'],
  ['openai-compatible', 'chat'],
];
const HELLO = [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }] as const;
const TOOL = { name: 'kettle', description: 'Boils water.', inputSchema: { type: 'object', properties: { cups: { type: 'integer' } } } };

let model: ModelServer;
beforeAll(async () => {
  model = await startModelServer();
});
afterAll(() => model.close());

function providers(url = model.url) {
  const kinds = { anthropic: url, openai: `${url}/v1`, 'openai-compatible': `${url}/v1` } as const;
  const entries = Object.entries(kinds).map(([kind, baseUrl]) => [kind, { kind, baseUrl, apiKey: 'test', model: 'small' }]);
  return createConfiguredProviders({ providers: Object.fromEntries(entries) }, {});
}

describe.for(PROVIDERS)('the provider %s', ([id, wire]) => {
  let provider: Provider;
  beforeEach(() => {
    provider = providers().get(id);
  });
  const body = () => JSON.stringify(model.requests.at(-1)?.body);

  verifies(
    ['runtime.provider.id', 'runtime.provider.anthropic', 'runtime.provider.openai', 'runtime.provider.openai-compatible'],
    'has its id and speaks its own API',
    async () => {
      await provider.complete(HELLO);
      expect([provider.id, model.requests.at(-1)?.wire]).toEqual([id, wire]);
    },
  );

  verifies(
    ['runtime.provider.complete', 'runtime.provider.result.usage', 'runtime.provider.result.tool-calls'],
    'complete returns content, calls, stop reason and usage',
    async () => {
      model.script([
        { text: 'Tea is ready.', usage: { inputTokens: 21, outputTokens: 4 } },
        {
          text: 'One moment.',
          toolCalls: [{ id: 'call_1', name: 'kettle', input: { cups: 2 } }],
          usage: { inputTokens: 30, outputTokens: 9 },
        },
      ]);
      expect(await provider.complete(HELLO)).toMatchObject({
        ...{ content: 'Tea is ready.', stopReason: 'end_turn', usage: { inputTokens: 21, outputTokens: 4 } },
      });
      expect(await provider.complete(HELLO, { tools: [TOOL] })).toMatchObject({
        ...{ content: 'One moment.', stopReason: 'tool_use', usage: { inputTokens: 30, outputTokens: 9 } },
        toolCalls: [{ id: 'call_1', name: 'kettle', input: { cups: 2 } }],
      });
    },
  );

  verifies('runtime.provider.stream', async () => {
    model.script([{ text: 'One two three four.', chunks: 4 }]);
    const pieces: string[] = [];
    let result: unknown;
    for await (const chunk of provider.stream(HELLO)) {
      if (chunk.type === 'text') pieces.push(chunk.text);
      if (chunk.type === 'done') result = chunk.result;
    }
    expect(pieces.length).toBeGreaterThan(1);
    expect(pieces.join('')).toBe('One two three four.');
    expect(result).toMatchObject({ content: 'One two three four.', stopReason: 'end_turn' });
  });

  verifies(
    [
      'runtime.provider.option.model',
      'runtime.provider.option.max-tokens',
      'runtime.provider.option.temperature',
      'runtime.provider.option.tools',
      'runtime.provider.option.system-prompt',
    ],
    'every option reaches the provider',
    async () => {
      await provider.complete(HELLO, { model: 'large', maxTokens: 77, temperature: 0, tools: [TOOL], systemPrompt: 'Speak softly.' });
      expect(model.requests.at(-1)).toMatchObject({ model: 'large', body: { temperature: 0 } });
      expect(body()).toMatch(/"max_(output_|completion_)?tokens":77/);
      expect(body()).toContain('Speak softly.');
      expect(body()).toContain('Boils water.');
      await provider.complete(HELLO);
      expect(model.requests.at(-1)?.body).not.toHaveProperty('temperature');
      expect(model.requests.at(-1)?.model).toBe('small');
    },
  );

  verifies('runtime.provider.available', async () => {
    expect(await provider.available()).toBe(true);
    expect(await providers('http://127.0.0.1:9').get(id).available()).toBe(false);
  });
});

verifies('runtime.provider.result.stop-reason', async () => {
  const seen = async (id: string, stop: 'end_turn' | 'max_tokens' | 'stop_sequence') => {
    model.script([{ text: 'x', stop }]);
    return (await providers().get(id).complete(HELLO)).stopReason;
  };
  for (const id of ['anthropic', 'openai', 'openai-compatible']) {
    expect([id, await seen(id, 'end_turn'), await seen(id, 'max_tokens')]).toEqual([id, 'end_turn', 'max_tokens']);
  }
  // The other two APIs do not tell a stop sequence from an end.
  expect(await seen('anthropic', 'stop_sequence')).toBe('stop_sequence');
});

verifies('runtime.provider.registered', async () => {
  const registry = createConfiguredProviders(
    { default: 'local', providers: { local: { kind: 'openai-compatible', baseUrl: `${model.url}/v1` } } },
    {},
  );
  const quiet: Provider = { ...registry.get('demo'), id: 'quiet', kind: 'mine', defaultModel: 'hush' };
  registry.register(quiet, { origin: 'code' });
  expect(registry.list().map(({ id, origin }) => [id, origin])).toEqual(
    expect.arrayContaining([
      ['local', 'agent.yaml'],
      ['quiet', 'code'],
    ]),
  );
  expect(registry.resolve().provider.id).toBe('local');
  expect(registry.resolve({ provider: 'quiet' })).toMatchObject({ provider: quiet, model: 'hush' });
});
