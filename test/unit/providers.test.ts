import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { CompletionResult, Message, Provider, ToolDefinition } from '../../src/core/provider.ts';
import { createAnthropicProvider } from '../../src/providers/anthropic.ts';
import { createOpenaiProvider } from '../../src/providers/openai.ts';
import { createOpenaiCompatibleProvider } from '../../src/providers/openai-compatible.ts';
import type { ProviderSettings } from '../../src/providers/settings.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';

const WIRES: readonly { name: string; path: string; create: (settings: ProviderSettings) => Provider }[] = [
  { name: 'anthropic', path: '', create: createAnthropicProvider },
  { name: 'openai', path: '/v1', create: createOpenaiProvider },
  { name: 'openai-compatible', path: '/v1', create: createOpenaiCompatibleProvider },
];

const HELLO: readonly Message[] = [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }];
const WEATHER: ToolDefinition = {
  name: 'weather',
  description: 'Weather of a city',
  inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

let server: ModelServer;
beforeAll(async () => {
  server = await startModelServer();
});
afterAll(() => server.close());
afterEach(() => server.respond(() => undefined));

const lastBody = () => server.requests.at(-1)!.body;
const make = (create: (settings: ProviderSettings) => Provider, path: string, settings: Partial<ProviderSettings> = {}) =>
  create({ id: 'p', apiKey: 'sk-test-key-1', baseUrl: `${server.url}${path}`, model: 'm', ...settings });

/** The conversation as the session would send it after the answer and the results of its tools. */
function withResults(
  before: readonly Message[],
  answer: CompletionResult,
  results: readonly { output: string; isError: boolean }[],
): Message[] {
  const calls = answer.toolCalls ?? [];
  return [
    ...before,
    {
      role: 'assistant',
      content: [
        ...(answer.thinking ?? []),
        { type: 'text', text: answer.content },
        ...calls.map((call) => ({ type: 'tool_call' as const, id: call.id, name: call.name, input: call.input })),
      ],
    },
    { role: 'tool', content: calls.map((call, index) => ({ type: 'tool_result', id: call.id, name: call.name, ...results[index]! })) },
  ];
}

describe.each(WIRES)('$name', ({ name, path, create }) => {
  it('streams the text piece by piece and ends with the result', async () => {
    server.script([{ text: 'one two three', usage: { inputTokens: 100, outputTokens: 7, cacheReadTokens: 40 } }]);
    const chunks = [];
    for await (const chunk of make(create, path).stream(HELLO)) chunks.push(chunk);
    expect(chunks).toEqual([
      { type: 'text', text: 'one ' },
      { type: 'text', text: 'two ' },
      { type: 'text', text: 'three' },
      {
        type: 'done',
        result: {
          content: 'one two three',
          stopReason: 'end_turn',
          usage: { inputTokens: 100, outputTokens: 7, cacheReadTokens: 40 },
          model: 'm',
        },
      },
    ]);
  });

  it('calls tools in parallel and takes their results back', async () => {
    const provider = make(create, path);
    server.script([
      {
        text: 'Let me look.',
        toolCalls: [
          { id: 'a1', name: 'weather', input: { city: 'Oslo' } },
          { id: 'b2', name: 'weather', input: { city: 'Rome' } },
        ],
      },
      { text: 'Cold and warm.' },
    ]);

    const first = await provider.complete(HELLO, { tools: [WEATHER] });
    const second = await provider.complete(
      withResults(HELLO, first, [
        { output: '2 degrees', isError: false },
        { output: 'no such city', isError: true },
      ]),
      { tools: [WEATHER] },
    );

    expect(first.stopReason).toBe('tool_use');
    expect(first.toolCalls).toEqual([
      { id: 'a1', name: 'weather', input: { city: 'Oslo' } },
      { id: 'b2', name: 'weather', input: { city: 'Rome' } },
    ]);
    expect(second.content).toBe('Cold and warm.');
    expect(JSON.stringify(lastBody())).toContain('2 degrees');
    expect(conversation(name)).toEqual(CONVERSATIONS[name]);
  });

  it('hands over arguments that are no JSON with the reason', async () => {
    server.script([{ toolCalls: [{ id: 'a1', name: 'weather', inputText: '{"city": "Os' }], stop: 'max_tokens' }]);
    const result = await make(create, path).complete(HELLO, { tools: [WEATHER] });
    expect(result.toolCalls).toEqual([
      { id: 'a1', name: 'weather', input: '{"city": "Os', inputError: expect.stringContaining('not valid JSON') },
    ]);
  });

  it('hands over arguments that are nested too deeply as none, with the reason', async () => {
    const inputText = `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`;
    server.script([{ toolCalls: [{ id: 'a1', name: 'weather', inputText }] }]);
    const result = await make(create, path).complete(HELLO, { tools: [WEATHER] });
    expect(result.toolCalls).toEqual([
      { id: 'a1', name: 'weather', input: {}, inputError: 'the arguments are nested deeper than 128 levels' },
    ]);
  });

  it('refuses an answer of more calls than anybody can mean', async () => {
    const toolCalls = Array.from({ length: 501 }, (_, n) => ({ id: `c${n}`, name: 'weather', input: {} }));
    server.script([{ toolCalls }]);
    await expect(make(create, path).complete(HELLO, { tools: [WEATHER] })).rejects.toMatchObject({
      code: 'provider_malformed',
      detail: expect.stringContaining('more than 500 tool calls'),
    });
  });

  it('takes a call without arguments as an empty object', async () => {
    server.script([{ toolCalls: [{ id: 'a1', name: 'now', inputText: '' }] }]);
    const result = await make(create, path).complete(HELLO, { tools: [WEATHER] });
    expect(result.toolCalls).toEqual([{ id: 'a1', name: 'now', input: {} }]);
  });

  it('streams thinking apart from the text', async () => {
    server.script([{ thinking: 'hmm', signature: 'proof', text: 'yes' }]);
    const seen: string[] = [];
    for await (const chunk of make(create, path).stream(HELLO, { thinkingTokens: 4_000 })) {
      if (chunk.type !== 'done') seen.push(`${chunk.type}:${chunk.text}`);
      else expect(chunk.result.thinking?.map((part) => part.text)).toEqual(['hmm']);
    }
    expect(seen).toEqual(['thinking:hmm', 'text:yes']);
  });

  it.each([
    ['max_tokens', 'max_tokens'],
    ['refusal', 'refusal'],
  ] as const)('says %s when the model stopped for it', async (stop, expected) => {
    server.script([{ text: 'no more', stop }]);
    expect(await make(create, path).complete(HELLO)).toMatchObject({ content: 'no more', stopReason: expected });
  });

  it('sends images', async () => {
    const messages: Message[] = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'what is this' },
          { type: 'image', mediaType: 'image/png', data: 'iVBORw0KGgo=' },
        ],
      },
    ];
    await make(create, path).complete(messages);
    expect(lastUserContent()[1]).toMatchObject(IMAGES[name]!);
  });

  it('asks for JSON of a schema', async () => {
    const outputSchema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'], additionalProperties: false };
    server.script([{ text: '{"ok":true}' }]);
    const result = await make(create, path).complete(HELLO, { outputSchema });
    expect(JSON.parse(result.content)).toEqual({ ok: true });
    expect(lastBody()).toMatchObject(SCHEMAS[name]!);
  });

  it('sends the system prompt, the limit of the answer, the model and the idempotency key', async () => {
    await make(create, path).complete(HELLO, { systemPrompt: 'Be brief.', maxTokens: 99, model: 'other', idempotencyKey: 'turn-1' });
    expect(lastBody()).toMatchObject({ ...SYSTEMS[name], model: 'other', stream: true });
    expect(server.requests.at(-1)!.headers['idempotency-key']).toBe('turn-1');
  });

  it('sends the key as its API wants it, and configured headers', async () => {
    await make(create, path, { headers: { 'x-team': 'blue' } }).complete(HELLO);
    const { headers } = server.requests.at(-1)!;
    expect(name === 'anthropic' ? headers['x-api-key'] : headers.authorization).toBe(
      name === 'anthropic' ? 'sk-test-key-1' : 'Bearer sk-test-key-1',
    );
    expect(headers['x-team']).toBe('blue');
  });

  it('works without a key at an address of its own', async () => {
    const provider = create({ id: 'p', baseUrl: `${server.url}${path}`, model: 'm' });
    server.script([{ text: 'fine' }]);
    expect((await provider.complete(HELLO)).content).toBe('fine');
    const { headers } = server.requests.at(-1)!;
    expect([headers['x-api-key'], headers.authorization]).toEqual([undefined, undefined]);
  });

  it('uses its connections again', async () => {
    const own = await startModelServer();
    const provider = create({ id: 'p', baseUrl: `${own.url}${path}`, model: 'm' });
    for (let turn = 0; turn < 10; turn += 1) await provider.complete(HELLO);
    const ports = new Set(own.requests.map((request) => request.clientPort));
    await own.close();
    expect(ports.size).toBeLessThanOrEqual(2); // the pool may open a second one while the first settles
  });

  it('is available and lists its models while the server answers', async () => {
    const provider = make(create, path, { models: { scripted: { price: { input: 1, output: 2 } } } });
    expect(await provider.available()).toBe(true);
    expect(await provider.models()).toMatchObject([{ id: 'scripted', provider: 'p', price: { input: 1, output: 2 } }]);
  });

  it('is not available when nobody listens, and models() still answers', async () => {
    const provider = make(create, path, { baseUrl: 'http://127.0.0.1:1', models: { mine: { contextTokens: 5_000 } } });
    expect(await provider.available()).toBe(false);
    expect((await provider.models()).find((model) => model.id === 'mine')).toMatchObject({ contextTokens: 5_000, price: null });
  });
});

function lastUserContent(): unknown[] {
  const body = lastBody();
  const [message] = (body.messages ?? body.input) as { content: unknown[] }[];
  return message!.content;
}

/** What was sent after the tools ran, without the first prompt. */
function conversation(name: string): unknown {
  const body = lastBody();
  return ((name === 'openai' ? body.input : body.messages) as unknown[]).slice(1);
}

const CONVERSATIONS: Readonly<Record<string, unknown>> = {
  anthropic: [
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Let me look.' },
        { type: 'tool_use', id: 'a1', name: 'weather', input: { city: 'Oslo' } },
        { type: 'tool_use', id: 'b2', name: 'weather', input: { city: 'Rome' } },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'a1', content: '2 degrees' },
        { type: 'tool_result', tool_use_id: 'b2', content: 'no such city', is_error: true, cache_control: { type: 'ephemeral' } },
      ],
    },
  ],
  openai: [
    { role: 'assistant', content: 'Let me look.' },
    { type: 'function_call', call_id: 'a1', name: 'weather', arguments: '{"city":"Oslo"}' },
    { type: 'function_call', call_id: 'b2', name: 'weather', arguments: '{"city":"Rome"}' },
    { type: 'function_call_output', call_id: 'a1', output: '2 degrees' },
    { type: 'function_call_output', call_id: 'b2', output: 'Error: no such city' },
  ],
  'openai-compatible': [
    {
      role: 'assistant',
      content: 'Let me look.',
      tool_calls: [
        { id: 'a1', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } },
        { id: 'b2', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } },
      ],
    },
    { role: 'tool', tool_call_id: 'a1', content: '2 degrees' },
    { role: 'tool', tool_call_id: 'b2', content: 'Error: no such city' },
  ],
};

const IMAGES: Readonly<Record<string, object>> = {
  anthropic: { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
  openai: { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=' },
  'openai-compatible': { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
};

const SCHEMAS: Readonly<Record<string, object>> = {
  anthropic: {
    output_config: { format: { type: 'json_schema', schema: { type: 'object', required: ['ok'], additionalProperties: false } } },
  },
  openai: { text: { format: { type: 'json_schema', strict: true, schema: { required: ['ok'] } } } },
  'openai-compatible': { response_format: { type: 'json_schema', json_schema: { strict: true, schema: { required: ['ok'] } } } },
};

const SYSTEMS: Readonly<Record<string, object>> = {
  anthropic: { system: [{ text: 'Be brief.' }], max_tokens: 99 },
  openai: { instructions: 'Be brief.', max_output_tokens: 99 },
  'openai-compatible': {
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hello' },
    ],
    max_tokens: 99,
  },
};
