import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect } from 'vitest';
import { createRuntimeClient } from '../../src/client/runtime-client.ts';
import { start } from '../../src/compose.ts';
import { resolveSettings } from '../../src/config.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { CompletionOptions, Provider } from '../../src/core/provider.ts';
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

  const sent = async (options: CompletionOptions) => {
    await provider.complete(HELLO, options);
    return model.requests.at(-1)!.body as Record<string, unknown>;
  };
  const place = <T>(places: Readonly<Record<Wire, T>>): T => places[wire];

  verifies('runtime.provider.option.model', async () => {
    expect((await sent({ model: 'large' })).model).toBe('large');
    expect((await sent({})).model).toBe('small');
  });

  verifies('runtime.provider.option.max-tokens', async () => {
    const field = place({ anthropic: 'max_tokens', responses: 'max_output_tokens', chat: 'max_completion_tokens' });
    const body = await sent({ maxTokens: 77 });
    expect(body[field] ?? body.max_tokens).toBe(77);
  });

  verifies('runtime.provider.option.temperature', async () => {
    expect((await sent({ temperature: 0 })).temperature).toBe(0);
    expect((await sent({ temperature: 0.7 })).temperature).toBe(0.7);
    expect(await sent({})).not.toHaveProperty('temperature');
  });

  verifies('runtime.provider.option.tools', async () => {
    const { name, description, inputSchema } = TOOL;
    const { tools } = await sent({ tools: [TOOL] });
    expect(tools).toMatchObject([
      place<object>({
        anthropic: { name, description, input_schema: inputSchema },
        responses: { type: 'function', name, description, parameters: inputSchema },
        chat: { type: 'function', function: { name, description, parameters: inputSchema } },
      }),
    ]);
    expect((await sent({})).tools ?? []).toEqual([]);
  });

  verifies('runtime.provider.option.system-prompt', async () => {
    const body = await sent({ systemPrompt: 'Speak softly.' });
    const system = place<unknown>({
      anthropic: body.system,
      responses: body.instructions,
      chat: (body.messages as { role: string }[] | undefined)?.filter(({ role }) => role === 'system' || role === 'developer'),
    });
    expect(JSON.stringify(system)).toContain('Speak softly.');
  });

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

verifies('runtime.provider.registered', 'providers of agent.yaml and of the program that starts it answer sessions', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-providers-'));
  const local = `{ kind: openai-compatible, baseUrl: "${model.url}/v1", model: tiny }`;
  writeFileSync(join(folder, 'agent.yaml'), `runtime: { default: local, providers: { local: ${local} } }\n`);
  const quiet: Provider = {
    ...createConfiguredProviders({ providers: {} }, {}).get('demo'),
    ...{ id: 'quiet', kind: 'mine', defaultModel: 'hush' },
  };
  const env = { SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_RUNTIME_PORT: '0' };
  const running = await start(resolveSettings(env), silentLogger, { providers: [quiet] });
  try {
    const client = createRuntimeClient({ baseUrl: running.runtime.url });
    const { providers: listed } = await client.providers.list();
    expect(listed.map(({ id, origin }) => [id, origin])).toEqual(
      expect.arrayContaining([
        ...[
          ['local', 'agent.yaml'],
          ['quiet', 'code'],
        ],
      ]),
    );
    model.script([{ text: 'From the file.' }]);
    const answer = async (input: { provider?: string }) => {
      const { id, model: name } = await client.session.create(input);
      return [name, (await client.session.prompt(id, { content: 'hello' })).content];
    };
    expect(await answer({})).toEqual(['tiny', 'From the file.']);
    const before = model.requests.length;
    expect(await answer({ provider: 'quiet' })).toEqual(['hush', expect.stringMatching(/\S/)]);
    expect(model.requests.length).toBe(before);
  } finally {
    await running.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
