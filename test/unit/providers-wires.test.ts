import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Usage } from '../../src/contract/provider.ts';
import type { Message, Provider, ThinkingPart, ToolDefinition } from '../../src/core/provider.ts';
import { createAnthropicProvider } from '../../src/providers/anthropic.ts';
import { createOpenaiProvider } from '../../src/providers/openai.ts';
import { createOpenaiCompatibleProvider } from '../../src/providers/openai-compatible.ts';
import type { ProviderSettings } from '../../src/providers/settings.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';

const HELLO: readonly Message[] = [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }];
const WEATHER: ToolDefinition = { name: 'weather', description: 'Weather of a city', inputSchema: { type: 'object', properties: {} } };

let server: ModelServer;
beforeAll(async () => {
  server = await startModelServer();
});
afterAll(() => server.close());

const lastBody = () => server.requests.at(-1)!.body;
const make = (create: (settings: ProviderSettings) => Provider, path: string, settings: Partial<ProviderSettings> = {}) =>
  create({ id: 'p', apiKey: 'sk-test-key-1', baseUrl: `${server.url}${path}`, model: 'm', ...settings });

/** HELLO, an answer that thought and called one tool, and the tool's result. */
function afterTool(thinking: readonly ThinkingPart[]): Message[] {
  return [
    ...HELLO,
    { role: 'assistant', content: [...thinking, { type: 'tool_call', id: 'a1', name: 'weather', input: {} }] },
    { role: 'tool', content: [{ type: 'tool_result', id: 'a1', name: 'weather', output: 'ok', isError: false }] },
  ];
}

const WIRES = [
  ['anthropic', createAnthropicProvider, ''],
  ['openai', createOpenaiProvider, '/v1'],
  ['openai-compatible', createOpenaiCompatibleProvider, '/v1'],
] as const;

describe.each(WIRES)('%s', (_name, create, path) => {
  it('estimates and marks the usage of a server that reports none', async () => {
    server.script([{ text: 'x'.repeat(40), usage: null }]);
    const result = await make(create, path).complete(HELLO, { systemPrompt: 'y'.repeat(35) });
    expect(result.usage).toEqual({ inputTokens: 10, outputTokens: 10, estimated: true }); // (35 + 5) / 4 and 40 / 4
  });

  it('tells what an answer that is cut has used, whether the server said it or not', async () => {
    for (const usage of [null, { inputTokens: 100, outputTokens: 70 }]) {
      const told: Usage[] = [];
      server.script([{ text: 'x'.repeat(80), chunks: 4, usage, fault: { kind: 'cut', after: 2 } }]);
      const options = { systemPrompt: 'y'.repeat(35), onUsage: (one: Usage) => told.push(one) };
      await expect(make(create, path).complete(HELLO, options)).rejects.toMatchObject({ code: 'provider_stream_cut' });
      const inputTokens = usage && create === createAnthropicProvider ? 100 : 10;
      expect(told).toEqual([{ inputTokens, outputTokens: 10, estimated: true }]);
    }
  });
});

describe('anthropic only', () => {
  const provider = () => make(createAnthropicProvider, '');

  it('sends signed thinking back unchanged and leaves foreign thinking out', async () => {
    server.script([{ thinking: 'hmm', signature: 'proof', toolCalls: [{ id: 'a1', name: 'weather', input: {} }] }]);
    const first = await provider().complete(HELLO, { tools: [WEATHER], thinkingTokens: 2_000 });
    expect(first.thinking).toEqual([{ type: 'thinking', text: 'hmm', signature: 'proof' }]);

    const foreign: ThinkingPart[] = [
      { type: 'thinking', text: 'other', signature: 'openai-reasoning:x:y' },
      { type: 'thinking', text: 'unsigned' },
    ];
    await provider().complete(afterTool([...first.thinking!, ...foreign]));

    const [, assistant] = lastBody().messages as { content: unknown[] }[];
    expect(assistant!.content).toEqual([
      { type: 'thinking', thinking: 'hmm', signature: 'proof' },
      { type: 'tool_use', id: 'a1', name: 'weather', input: {} },
    ]);
  });

  it('marks the system prompt and the last block for the cache', async () => {
    await provider().complete(HELLO, { systemPrompt: 'Be brief.' });
    expect(lastBody()).toMatchObject({
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hello', cache_control: { type: 'ephemeral' } }] }],
    });
  });

  it('counts cached input as input', async () => {
    server.script([{ usage: { inputTokens: 100, outputTokens: 5, cacheReadTokens: 60, cacheWriteTokens: 30 } }]);
    const { usage } = await provider().complete(HELLO);
    expect(usage).toEqual({ inputTokens: 100, outputTokens: 5, cacheReadTokens: 60, cacheWriteTokens: 30 });
  });

  it('asks older models for a budget and newer ones for adaptive thinking', async () => {
    await provider().complete(HELLO, { model: 'claude-haiku-4-5', thinkingTokens: 4_000, maxTokens: 1_000, temperature: 0.2 });
    expect(lastBody()).toMatchObject({ thinking: { type: 'enabled', budget_tokens: 4_000 }, max_tokens: 5_000 });
    expect(lastBody()).not.toHaveProperty('temperature');
    await provider().complete(HELLO, { model: 'claude-opus-5-5', thinkingTokens: 4_000, maxTokens: 1_000 });
    expect(lastBody()).toMatchObject({ thinking: { type: 'adaptive' }, output_config: { effort: 'medium' }, max_tokens: 1_000 });
  });

  it('joins the results of tools and the next prompt into one user message', async () => {
    await provider().complete([
      { role: 'user', content: [{ type: 'text', text: 'go' }] },
      { role: 'assistant', content: [{ type: 'tool_call', id: 'a', name: 'weather', input: 'broken {' }] },
      { role: 'tool', content: [{ type: 'tool_result', id: 'a', name: 'weather', output: 'unreadable', isError: true }] },
      { role: 'user', content: [{ type: 'text', text: 'again' }] },
    ]);
    const messages = lastBody().messages as { role: string; content: { type: string; input?: unknown }[] }[];
    expect(messages.map((message) => [message.role, message.content.map((block) => block.type)])).toEqual([
      ['user', ['text']],
      ['assistant', ['tool_use']],
      ['user', ['tool_result', 'text']],
    ]);
    expect(messages[1]!.content[0]!.input).toEqual({ invalid_input: 'broken {' });
  });

  it('takes an address with and without /v1', async () => {
    server.script([{ text: 'fine' }]);
    expect((await make(createAnthropicProvider, '/v1/').complete(HELLO)).content).toBe('fine');
  });

  it('reads limits of models from the list', async () => {
    expect(await provider().models()).toEqual([
      { id: 'scripted', provider: 'p', contextTokens: 200_000, outputTokensMax: 64_000, price: null, thinking: false, images: false },
    ]);
  });
});

describe('openai only', () => {
  it('keeps nothing at the provider and sends sealed reasoning back', async () => {
    const provider = make(createOpenaiProvider, '/v1', { model: 'gpt-6-sol' });
    server.script([{ thinking: 'hmm', signature: 'sealed', toolCalls: [{ id: 'a1', name: 'weather', input: {} }] }]);
    const first = await provider.complete(HELLO, { tools: [WEATHER], thinkingTokens: 20_000, temperature: 0.5 });
    expect(lastBody()).toMatchObject({
      store: false,
      include: ['reasoning.encrypted_content'],
      reasoning: { effort: 'high', summary: 'auto' },
    });
    expect(lastBody()).not.toHaveProperty('temperature');

    await provider.complete(afterTool(first.thinking!));

    expect((lastBody().input as unknown[])[1]).toMatchObject({
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'hmm' }],
      encrypted_content: 'sealed',
    });
  });

  it('gives a temperature to models that take one', async () => {
    await make(createOpenaiProvider, '/v1', { model: 'gpt-4.1' }).complete(HELLO, { temperature: 0.5, thinkingTokens: 5_000 });
    expect(lastBody()).toMatchObject({ temperature: 0.5 });
    expect(lastBody()).not.toHaveProperty('reasoning');
  });
});

describe('openai-compatible only', () => {
  it('takes the first model of the list when none is configured', async () => {
    await createOpenaiCompatibleProvider({ id: 'local', baseUrl: `${server.url}/v1` }).complete(HELLO);
    expect(lastBody().model).toBe('scripted');
  });

  it('reads the context window from the list', async () => {
    const [model] = await createOpenaiCompatibleProvider({ id: 'local', baseUrl: `${server.url}/v1` }).models();
    expect(model).toMatchObject({ id: 'scripted', contextTokens: 32_768 });
  });
});

it('refuses a call without a key before anything is sent', async () => {
  await expect(createAnthropicProvider({ id: 'anthropic', keyHint: 'set ANTHROPIC_API_KEY' }).complete(HELLO)).rejects.toMatchObject({
    code: 'provider_refused',
    detail: 'anthropic: no API key; set ANTHROPIC_API_KEY',
  });
});

it('loads no SDK before the first call', async () => {
  const script = `
    import { registerHooks } from 'node:module';
    const seen = [];
    registerHooks({ resolve: (name, context, next) => { seen.push(name); return next(name, context); } });
    const { createConfiguredProviders } = await import(process.argv[1]);
    const registry = createConfiguredProviders({}, { ANTHROPIC_API_KEY: 'sk-1', OPENAI_API_KEY: 'sk-2' });
    process.stdout.write(JSON.stringify({ sdks: seen.filter((name) => /anthropic-ai|^openai/.test(name)), providers: registry.list().length }));
  `;
  const file = fileURLToPath(new URL('../../src/providers/from-config.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script, file]);
  expect(JSON.parse(stdout)).toEqual({ sdks: [], providers: 3 });
});
