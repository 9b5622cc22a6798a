import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Provider } from '../../src/core/provider.ts';
import { createAnthropicProvider } from '../../src/providers/anthropic.ts';
import { createOpenaiProvider } from '../../src/providers/openai.ts';
import { createOpenaiCompatibleProvider } from '../../src/providers/openai-compatible.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';

let server: ModelServer;
beforeEach(async () => {
  server = await startModelServer();
});
afterEach(() => server.close());

const PROVIDERS: readonly [string, () => Provider][] = [
  ['anthropic', () => createAnthropicProvider({ id: 'a', apiKey: 'test', baseUrl: server.url, keyHint: '' })],
  ['openai', () => createOpenaiProvider({ id: 'o', apiKey: 'test', baseUrl: `${server.url}/v1`, keyHint: '' })],
  ['openai-compatible', () => createOpenaiCompatibleProvider({ id: 'c', baseUrl: `${server.url}/v1`, model: 'm', keyHint: '' })],
];

test.each(PROVIDERS)('%s: a reader that leaves at the last chunk leaves the connection usable for the next call', async (_name, create) => {
  const provider = create();
  for (let call = 0; call < 6; call += 1) {
    for await (const chunk of provider.stream([{ role: 'user', content: [{ type: 'text', text: 'hello' }] }]))
      if (chunk.type === 'done') break;
    await server.requests.at(-1)!.closed;
  }
  expect(server.requests.map((request) => request.aborted)).not.toContain(true);
  // The next call may come before the connection is back in the pool; without reuse there would be six.
  expect(new Set(server.requests.map((request) => request.clientPort)).size).toBeLessThan(4);
});
