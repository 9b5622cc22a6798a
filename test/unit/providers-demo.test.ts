import { describe, expect, it } from 'vitest';
import type { Message, ToolDefinition } from '../../src/core/provider.ts';
import { createDemoProvider } from '../../src/providers/demo.ts';
import { minimalValue } from '../../src/providers/demo-value.ts';

const tool = (name: string): ToolDefinition => ({ name, description: name, inputSchema: { type: 'object' } });
const TOOLS = [tool('memory_store'), tool('memory_search')];
const says = (text: string): Message => ({ role: 'user', content: [{ type: 'text', text }] });
const demo = createDemoProvider({ wordDelayMs: 0 });

describe('demo provider', () => {
  it('says that it is no model, repeats the prompt and says how to set a key', async () => {
    const { content, stopReason } = await demo.complete([says('hello there')]);
    expect(content).toBe(
      'This is the offline demo, not a model. You said: "hello there". Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a provider under runtime.providers in agent.yaml, to talk to a model.',
    );
    expect(stopReason).toBe('end_turn');
  });

  it('streams word by word, the same words each time', async () => {
    const run = async () => {
      const words: string[] = [];
      for await (const chunk of demo.stream([says('hi')])) if (chunk.type === 'text') words.push(chunk.text);
      return words;
    };
    const words = await run();
    expect(words.slice(0, 4)).toEqual(['This ', 'is ', 'the ', 'offline ']);
    expect(await run()).toEqual(words);
  });

  it('counts the memories it was given', async () => {
    const systemPrompt = '# You\n- not this\n## Relevant Memory\n- likes tea\n- lives in Oslo\n\n## Rules\n- nor this';
    expect((await demo.complete([says('hi')], { systemPrompt })).content).toContain('I was given 2 memories with it.');
  });

  it('stores a memory when told to remember, and answers from the result', async () => {
    const messages = [says('remember that I like tea')];
    const first = await demo.complete(messages, { tools: TOOLS });
    expect(first).toMatchObject({
      stopReason: 'tool_use',
      toolCalls: [{ id: 'demo_1', name: 'memory_store', input: { content: 'I like tea' } }],
    });

    const second = await demo.complete(
      [
        ...messages,
        { role: 'assistant', content: [{ type: 'tool_call', id: 'demo_1', name: 'memory_store', input: {} }] },
        { role: 'tool', content: [{ type: 'tool_result', id: 'demo_1', name: 'memory_store', output: '{"id":"m1"}', isError: false }] },
      ],
      { tools: TOOLS },
    );
    expect(second).toMatchObject({ stopReason: 'end_turn', content: expect.stringContaining('memory_store answered: {"id":"m1"}') });
  });

  it('searches when told to recall, and only with the tool at hand', async () => {
    expect((await demo.complete([says('Recall: tea')], { tools: TOOLS })).toolCalls).toEqual([
      { id: 'demo_1', name: 'memory_search', input: { query: 'tea' } },
    ]);
    expect((await demo.complete([says('recall tea')])).toolCalls).toBeUndefined();
    expect((await demo.complete([says('remembering is hard')], { tools: TOOLS })).toolCalls).toBeUndefined();
  });

  it('answers JSON of the schema it is asked for', async () => {
    const outputSchema = {
      type: 'object',
      properties: { title: { type: 'string' }, tags: { type: 'array' } },
      required: ['title', 'tags'],
    };
    const { content } = await demo.complete([says('remember this')], { outputSchema, tools: TOOLS });
    expect(JSON.parse(content)).toEqual({ title: 'demo', tags: [] });
  });

  it('stops at the limit of the answer', async () => {
    expect(await demo.complete([says('hi')], { maxTokens: 2 })).toMatchObject({ content: 'This is ', stopReason: 'max_tokens' });
  });

  it('throws the reason of an abort', async () => {
    const controller = new AbortController();
    const reason = new Error('stop');
    const read = async () => {
      for await (const chunk of createDemoProvider({ wordDelayMs: 1 }).stream([says('hi')], { signal: controller.signal })) {
        if (chunk.type === 'text') controller.abort(reason);
      }
    };
    await expect(read()).rejects.toBe(reason);
  });
});

describe('minimal value of a schema', () => {
  it.each<[string, unknown, unknown]>([
    ['an enum', { enum: ['b', 'a'] }, 'b'],
    ['a const', { const: 7 }, 7],
    ['a default', { type: 'string', default: 'x' }, 'x'],
    ['a least number', { type: 'integer', minimum: 3 }, 3],
    ['an exclusive least number', { type: 'integer', exclusiveMinimum: 3 }, 4],
    ['a negative range', { type: 'number', maximum: -2 }, -2],
    ['a least length', { type: 'string', minLength: 6 }, 'demo..'],
    ['a greatest length', { type: 'string', maxLength: 2 }, 'de'],
    ['a format', { type: 'string', format: 'date' }, '2026-01-01'],
    ['least items', { type: 'array', minItems: 2, items: { type: 'boolean' } }, [false, false]],
    ['a union of types', { type: ['string', 'null'] }, 'demo'],
    ['one of several', { anyOf: [{ type: 'integer' }, { type: 'string' }] }, 0],
    [
      'a reference',
      { $defs: { a: { type: 'boolean' } }, type: 'object', properties: { x: { $ref: '#/$defs/a' } }, required: ['x'] },
      { x: false },
    ],
    [
      'several at once',
      {
        allOf: [
          { properties: { a: { type: 'integer' } }, required: ['a'] },
          { properties: { b: { type: 'null' } }, required: ['b'] },
        ],
        type: 'object',
      },
      { a: 0, b: null },
    ],
    ['optional fields', { type: 'object', properties: { a: { type: 'string' } } }, {}],
  ])('fits %s', (_name, schema, expected) => {
    expect(minimalValue(schema)).toEqual(expected);
  });

  it('ends for a schema that refers to itself', () => {
    const schema = { type: 'object', properties: { next: { $ref: '#' } }, required: ['next'] };
    expect(JSON.stringify(minimalValue(schema)).length).toBeLessThan(500);
  });
});
