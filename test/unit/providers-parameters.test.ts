import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CompletionOptions, Message, Provider } from '../../src/core/provider.ts';
import { createAnthropicProvider } from '../../src/providers/anthropic.ts';
import { createOpenaiProvider } from '../../src/providers/openai.ts';
import { createOpenaiCompatibleProvider } from '../../src/providers/openai-compatible.ts';
import type { ProviderSettings } from '../../src/providers/settings.ts';
import { StopFinder } from '../../src/providers/stop-sequences.ts';
import type { Reply } from '../helpers/model-server/reply.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';

const HELLO: readonly Message[] = [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }];

let server: ModelServer;
beforeAll(async () => {
  server = await startModelServer();
});
afterAll(() => server.close());

interface Made {
  readonly provider: Provider;
  readonly warnings: object[];
  /** Bodies of the requests since it was made. */
  bodies(): Record<string, unknown>[];
}

function make(create: (settings: ProviderSettings) => Provider, path: string, settings: Partial<ProviderSettings> = {}): Made {
  const warnings: object[] = [];
  const before = server.requests.length;
  const warn = (fields: object) => void warnings.push(fields);
  const provider = create({ id: 'p', apiKey: 'sk-test-key-1', baseUrl: `${server.url}${path}`, model: 'm', warn, ...settings });
  return { provider, warnings, bodies: () => server.requests.slice(before).map(({ body }) => ({ ...body })) };
}

const refusal = (message: string): Reply => ({ fault: { kind: 'status', status: 400, type: 'invalid_request_error', message } });

const ANTHROPIC = ['anthropic', createAnthropicProvider, ''] as const;
const OPENAI = ['openai', createOpenaiProvider, '/v1'] as const;
const CHAT = ['openai-compatible', createOpenaiCompatibleProvider, '/v1'] as const;
const WIRES = [ANTHROPIC, OPENAI, CHAT] as const;

describe.each([
  [...ANTHROPIC, { temperature: 0.3, top_p: 0.9, stop_sequences: ['END'], max_tokens: 70 }],
  [...OPENAI, { temperature: 0.3, top_p: 0.9, max_output_tokens: 70 }],
  [...CHAT, { temperature: 0.3, top_p: 0.9, stop: ['END'], max_tokens: 70 }],
] as const)('%s', (_name, create, path, body) => {
  it('sends each setting under the name the API has for it, and none that was not asked for', async () => {
    const { provider, bodies } = make(create, path);
    await provider.complete(HELLO, { temperature: 0.3, topP: 0.9, stopSequences: ['END'], maxTokens: 70 });
    await provider.complete(HELLO);
    expect(bodies()[0]).toMatchObject(body);
    expect(bodies()[0]).not.toHaveProperty(path === '' ? 'stop' : 'stop_sequences');
    for (const name of ['temperature', 'top_p', 'stop', 'stop_sequences']) expect(bodies()[1]).not.toHaveProperty(name);
  });
});

describe.each(WIRES)('%s, when the model refuses a parameter', (_name, create, path) => {
  it('leaves it out, asks once more, remembers it for the model and says so once', async () => {
    const { provider, warnings, bodies } = make(create, path);
    let requests = 0;
    const options: CompletionOptions = { temperature: 0.3, topP: 0.9, onSend: () => (requests += 1) };
    server.script([refusal("Unsupported parameter: 'temperature' is not supported with this model."), { text: 'well' }]);
    expect((await provider.complete(HELLO, options)).content).toBe('well');
    expect(bodies().map(({ temperature, top_p: topP }) => [temperature, topP])).toEqual([
      [0.3, 0.9],
      [undefined, 0.9],
    ]);
    expect(requests).toBe(2);
    await provider.complete(HELLO, options);
    expect([requests, bodies().at(-1)!.temperature]).toEqual([3, undefined]);
    expect(warnings).toMatchObject([{ provider: 'p', model: 'm', parameter: 'temperature' }]);
    // Another model may take it.
    await provider.complete(HELLO, { ...options, model: 'other' });
    expect(bodies().at(-1)!.temperature).toBe(0.3);
  });

  it('leaves out one after the other, and top_p alone where only both together are refused', async () => {
    const { provider, bodies } = make(create, path);
    server.script([refusal('temperature: Extra inputs are not permitted'), refusal('`top_p` is deprecated for this model.'), {}]);
    await provider.complete(HELLO, { temperature: 0.3, topP: 0.9 });
    expect(bodies().at(-1)).not.toHaveProperty('top_p');
    server.script([refusal('`temperature` and `top_p` cannot both be specified for this model. Please use only one.'), {}]);
    await provider.complete(HELLO, { temperature: 0.3, topP: 0.9, model: 'either' });
    expect(bodies().at(-1)).toMatchObject({ temperature: 0.3 });
    expect(bodies().at(-1)).not.toHaveProperty('top_p');
  });

  it('tells the caller of a value that is out of range, and of faults that are none of a parameter', async () => {
    const { provider, warnings, bodies } = make(create, path);
    for (const message of ['temperature: range: 0..1', 'messages.0.content: temperature is no field', 'the request is odd']) {
      server.script([refusal(message)]);
      const failed = provider.complete(HELLO, { temperature: 1.5 });
      await expect(failed).rejects.toMatchObject({ code: 'provider_refused', detail: expect.stringContaining(message.slice(0, 20)) });
    }
    expect([bodies().length, warnings]).toEqual([3, []]);
  });

  it('keeps the rule of the stop sequence where the model does not', async () => {
    const { provider, bodies } = make(create, path);
    const word = path === '' ? 'stop_sequences' : 'stop';
    const text = 'One two three END four five.';
    server.script(create === createOpenaiProvider ? [{ text }] : [refusal(`'${word}' is not supported with this model.`), { text }]);
    const shown: string[] = [];
    for await (const chunk of provider.stream(HELLO, { stopSequences: ['END'] })) {
      if (chunk.type === 'text') shown.push(chunk.text);
      if (chunk.type === 'done') expect(chunk.result).toMatchObject({ content: 'One two three ', stopReason: 'stop_sequence', model: 'm' });
    }
    expect(shown.join('')).toBe('One two three ');
    expect(bodies().at(-1)).not.toHaveProperty(word);
  });
});

describe('a stop sequence that the API does not know', () => {
  it('ends the answer before it, with usage that is estimated and told', async () => {
    const { provider } = make(createOpenaiProvider, '/v1');
    server.script([{ text: `${'x'.repeat(40)}</answer>${'y'.repeat(400)}`, chunks: 50, usage: null }]);
    const told: unknown[] = [];
    const result = await provider.complete(HELLO, { stopSequences: ['</answer>'], onUsage: (usage) => told.push(usage) });
    expect(result.content).toBe('x'.repeat(40));
    expect(result.usage).toMatchObject({ estimated: true });
    expect(result.usage.outputTokens).toBeGreaterThanOrEqual(10);
    expect(told).toEqual([result.usage]);
  });

  it('is found across pieces, and what only looked like it is shown', () => {
    const finder = new StopFinder(['END', 'Ende!']);
    expect(finder.push('one E')).toEqual({ text: 'one ', stopped: false });
    expect(finder.push('N')).toEqual({ text: '', stopped: false });
    expect(finder.push('d En')).toEqual({ text: 'ENd ', stopped: false });
    expect(finder.rest()).toBe('En');
    expect(finder.push('xEN')).toEqual({ text: 'x', stopped: false });
    expect(finder.push('D rest')).toEqual({ text: '', stopped: true });
  });

  it('does not hold back the end of an answer that has none', async () => {
    const { provider } = make(createOpenaiProvider, '/v1');
    server.script([{ text: 'It is the EN' }]);
    let shown = '';
    for await (const chunk of provider.stream(HELLO, { stopSequences: ['END'] })) {
      if (chunk.type === 'text') shown += chunk.text;
      if (chunk.type === 'done') expect(chunk.result).toMatchObject({ content: 'It is the EN', stopReason: 'end_turn' });
    }
    expect(shown).toBe('It is the EN');
  });
});

describe('the length of an answer', () => {
  const sent = async ([, create, path]: (typeof WIRES)[number], model: string, options: CompletionOptions = {}) => {
    const { provider, bodies } = make(create, path, { model });
    await provider.complete(HELLO, options);
    const [body] = bodies();
    return body!.max_tokens ?? body!.max_output_tokens ?? body!.max_completion_tokens;
  };

  it('is all the model can write when nobody says, within the room of its window', async () => {
    expect(await sent(ANTHROPIC, 'claude-opus-5')).toBe(128_000);
    expect(await sent(OPENAI, 'gpt-5')).toBe(128_000);
    expect(await sent(CHAT, 'gpt-4o')).toBe(16_384);
    for (const wire of WIRES) expect(await sent(wire, 'gpt-4.1', { roomTokens: 9_000 })).toBe(9_000);
    // What nobody knows is left to the server; only the first API insists on a number.
    expect([await sent(ANTHROPIC, 'new'), await sent(OPENAI, 'new'), await sent(CHAT, 'new')]).toEqual([16_000, undefined, undefined]);
  });

  it('is what was asked for, as far as the model can', async () => {
    for (const wire of WIRES) {
      expect(await sent(wire, 'gpt-4.1', { maxTokens: 500, roomTokens: 9_000 })).toBe(500);
      expect(await sent(wire, 'gpt-4.1', { maxTokens: 1_000_000 })).toBe(32_768);
    }
  });

  it('leaves room for thinking within the most the model can write', async () => {
    const thinking = async (options: CompletionOptions) => {
      const { provider, bodies } = make(createAnthropicProvider, '', { model: 'claude-haiku-4-5' });
      await provider.complete(HELLO, options);
      const { max_tokens: total, thinking: asked } = bodies()[0]! as { max_tokens: number; thinking?: { budget_tokens: number } };
      return [total, asked?.budget_tokens];
    };
    expect(await thinking({ thinkingTokens: 4_000 })).toEqual([64_000, 4_000]);
    expect(await thinking({ thinkingTokens: 4_000, maxTokens: 64_000 })).toEqual([64_000, 1_024]);
    expect(await thinking({ thinkingTokens: 100_000, maxTokens: 1_000 })).toEqual([64_000, 63_000]);
    expect(await thinking({ thinkingTokens: 4_000, roomTokens: 3_000 })).toEqual([3_000, 1_976]);
    expect(await thinking({ thinkingTokens: 4_000, roomTokens: 1_024 })).toEqual([1_024, undefined]);
  });

  it('is asked for by the newer name where the model wants that, from then on', async () => {
    const { provider, bodies } = make(createOpenaiCompatibleProvider, '/v1');
    const words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    server.script([refusal(words), {}]);
    await provider.complete(HELLO, { maxTokens: 70 });
    await provider.complete(HELLO, { maxTokens: 80 });
    expect(bodies().map((body) => [body.max_tokens, body.max_completion_tokens])).toEqual([
      [70, undefined],
      [undefined, 70],
      [undefined, 80],
    ]);
  });

  it('that is more than the model can write is not remembered against a shorter one', async () => {
    const { provider, bodies } = make(createOpenaiCompatibleProvider, '/v1');
    server.script([refusal('max_tokens is too large: 90000. This model supports at most 4096 completion tokens.'), {}, {}]);
    await provider.complete(HELLO, { maxTokens: 90_000 });
    await provider.complete(HELLO, { maxTokens: 80 });
    expect(bodies().map((body) => body.max_tokens)).toEqual([90_000, undefined, 80]);
  });
});

it('a parameter that a model of the table is known to refuse is not sent, and the log says so once', async () => {
  const claude = make(createAnthropicProvider, '', { model: 'claude-opus-5' });
  const gpt = make(createOpenaiProvider, '/v1', { model: 'gpt-5' });
  for (const { provider, bodies, warnings } of [claude, gpt]) {
    await provider.complete(HELLO, { temperature: 0.3 });
    await provider.complete(HELLO, { temperature: 0.3 });
    expect(bodies().filter((body) => 'temperature' in body)).toEqual([]);
    expect(warnings).toMatchObject([{ parameter: 'temperature' }]);
  }
  // Those that take one of both get the temperature.
  const either = make(createAnthropicProvider, '', { model: 'claude-haiku-4-5' });
  await either.provider.complete(HELLO, { temperature: 0.3, topP: 0.9 });
  expect(either.bodies()[0]).toMatchObject({ temperature: 0.3 });
  expect(either.bodies()[0]).not.toHaveProperty('top_p');
  expect(either.warnings).toMatchObject([{ parameter: 'topP' }]);
});
