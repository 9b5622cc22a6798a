import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';

let server: ModelServer;
let anthropic: Anthropic;
let openai: OpenAI;
beforeAll(async () => {
  server = await startModelServer();
  anthropic = new Anthropic({ apiKey: 'k', baseURL: server.url, maxRetries: 0 });
  openai = new OpenAI({ apiKey: 'k', baseURL: `${server.url}/v1`, maxRetries: 0 });
});
afterAll(() => server.close());

const HELLO = [{ role: 'user' as const, content: 'hello' }];
const REPLY = {
  thinking: 'hmm',
  text: 'one two',
  toolCalls: [{ id: 'c1', name: 'look', input: { at: 'sky' } }],
  usage: { inputTokens: 20, outputTokens: 9 },
};

describe('the official clients understand it', () => {
  it('Anthropic, streamed by its own helper', async () => {
    server.script([REPLY]);
    const message = await anthropic.messages.stream({ model: 'm', max_tokens: 10, messages: HELLO }).finalMessage();
    expect(message).toMatchObject({
      content: [
        { type: 'thinking', thinking: 'hmm', signature: 'sig' },
        { type: 'text', text: 'one two' },
        { type: 'tool_use', id: 'c1', name: 'look', input: { at: 'sky' } },
      ],
      stop_reason: 'tool_use',
      usage: { input_tokens: 20, output_tokens: 9 },
    });
  });

  it('Anthropic, whole', async () => {
    server.script([REPLY]);
    const message = await anthropic.messages.create({ model: 'm', max_tokens: 10, messages: HELLO });
    expect(message.content.map((block) => block.type)).toEqual(['thinking', 'text', 'tool_use']);
  });

  it('OpenAI chat completions, streamed by its own helper', async () => {
    server.script([REPLY]);
    const completion = await openai.chat.completions.stream({ model: 'm', messages: HELLO }).finalChatCompletion();
    expect(completion.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: 'one two', tool_calls: [{ id: 'c1', function: { name: 'look', arguments: '{"at":"sky"}' } }] },
    });
  });

  it('OpenAI chat completions, whole', async () => {
    server.script([REPLY]);
    const completion = await openai.chat.completions.create({ model: 'm', messages: HELLO });
    expect(completion).toMatchObject({
      choices: [{ message: { content: 'one two' } }],
      usage: { prompt_tokens: 20, completion_tokens: 9 },
    });
  });

  it('OpenAI Responses, streamed by its own helper', async () => {
    server.script([REPLY]);
    const response = await openai.responses.stream({ model: 'm', input: 'hello' }).finalResponse();
    expect(response.output_text).toBe('one two');
    expect(response.output.map((item) => item.type)).toEqual(['reasoning', 'message', 'function_call']);
    expect(response.usage).toMatchObject({ input_tokens: 20, output_tokens: 9 });
  });

  it('OpenAI Responses, whole', async () => {
    server.script([REPLY]);
    const response = await openai.responses.create({ model: 'm', input: 'hello' });
    expect([response.status, response.output_text]).toEqual(['completed', 'one two']);
  });

  it('lists of models', async () => {
    expect((await openai.models.list()).data.map((model) => model.id)).toEqual(['scripted']);
    expect((await anthropic.models.list()).data.map((model) => model.id)).toEqual(['scripted']);
  });
});

describe('answers', () => {
  const ask = async () => (await openai.chat.completions.create({ model: 'm', messages: HELLO })).choices[0]?.message.content;

  it('come from the script, then from respond, then from the default', async () => {
    const own = await startModelServer({ reply: { text: 'default' } });
    const client = new OpenAI({ apiKey: 'k', baseURL: `${own.url}/v1`, maxRetries: 0 });
    const next = async (model = 'm') => (await client.chat.completions.create({ model, messages: HELLO })).choices[0]?.message.content;
    own.script([{ text: 'first' }]);
    own.respond((request) => (request.model === 'mine' ? { text: 'by model' } : undefined));
    expect([await next('mine'), await next('mine'), await next()]).toEqual(['first', 'by model', 'default']);
    await own.close();
  });

  it('are cut into as many pieces as asked for', async () => {
    server.script([{ text: 'abcdefgh', chunks: 4 }]);
    const pieces: string[] = [];
    for await (const chunk of await openai.chat.completions.create({ model: 'm', messages: HELLO, stream: true })) {
      const text = chunk.choices[0]?.delta.content;
      if (text) pieces.push(text);
    }
    expect(pieces).toEqual(['ab', 'cd', 'ef', 'gh']);
  });

  it('wait at the gate until the test decides, one request after the other', async () => {
    server.gate();
    const [first, second] = [ask(), ask()];
    const one = await server.next();
    const two = await server.next();
    expect(server.pending).toBe(0);
    two.reply({ text: 'second first' });
    one.reply({ text: 'then the first' });
    expect(new Set(await Promise.all([first, second]))).toEqual(new Set(['second first', 'then the first']));
    await expect(server.next(20)).rejects.toThrow('no request reached the model server within 20 ms');
    const third = ask();
    const held = await server.next();
    expect(held.request.wire).toBe('chat');
    server.open();
    expect(await third).toBe('This is the scripted answer of the model server.');
  });

  it('serve 64 streams at once', async () => {
    const own = await startModelServer({ reply: { text: 'a b c d', delayMs: 1 } });
    const client = new OpenAI({ apiKey: 'k', baseURL: `${own.url}/v1`, maxRetries: 0 });
    const run = async () => {
      let text = '';
      for await (const chunk of await client.chat.completions.create({ model: 'm', messages: HELLO, stream: true })) {
        text += chunk.choices[0]?.delta.content ?? '';
      }
      return text;
    };
    const texts = await Promise.all(Array.from({ length: 64 }, run));
    expect(new Set(texts)).toEqual(new Set(['a b c d']));
    expect(own.requests).toHaveLength(64);
    expect(own.requests.some((request) => request.aborted)).toBe(false);
    await own.close();
  });
});

it('runs as a process of its own and ends on SIGTERM', async () => {
  const main = fileURLToPath(new URL('../helpers/model-server/main.ts', import.meta.url));
  const child = spawn(process.execPath, [main, '--port', '0', '--tokens', '3'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const [url] = (await once(createInterface(child.stdout), 'line')) as [string];
  const client = new OpenAI({ apiKey: 'k', baseURL: `${url}/v1`, maxRetries: 0 });
  const completion = await client.chat.completions.create({ model: 'm', messages: HELLO });
  expect(completion.choices[0]?.message.content).toBe('token0 token1 token2');
  child.kill('SIGTERM');
  expect(await exited).toEqual([0, null]);
});
