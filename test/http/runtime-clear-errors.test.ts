import { afterEach, beforeEach, expect, test } from 'vitest';
import { isAppError } from '../../src/core/errors.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

let models: ModelServer;
let signet: Signet | undefined;

beforeEach(async () => {
  models = await startModelServer();
});
afterEach(async () => {
  await signet?.close();
  signet = undefined;
  await models.close();
});

async function start(yaml?: string): Promise<Signet> {
  signet = await startSignet({ env: { ANTHROPIC_API_KEY: 'test', ANTHROPIC_BASE_URL: models.url }, ...(yaml ? { yaml } : {}) });
  return signet;
}

const failure = (work: Promise<unknown>) => work.catch((error: unknown) => error);

test('a fallback or a compaction model of an unknown provider is told at the start', async () => {
  const fallback = await failure(start('runtime:\n  fallback:\n    - provider: zed\n'));
  expect(isAppError(fallback, 'config_invalid') && fallback.detail).toContain(
    'agent.yaml:3:7 runtime.fallback.0.provider: no provider "zed"',
  );
  // It has a name of ours, and nothing that makes it be there.
  const routing = await failure(start('runtime:\n  routing:\n    compaction: { provider: openai }\n'));
  expect(isAppError(routing, 'config_invalid') && routing.detail).toContain('runtime.routing.compaction.provider names "openai"');
});

test('an id that was purged is refused by name, not as another owner', async () => {
  const { client } = await start();
  await client.session.create({ id: 'once_only' });
  await client.session.end('once_only', { purge: true });
  const error = await failure(client.session.create({ id: 'once_only' }));
  expect(isAppError(error, 'id_conflict') && error.detail).toContain('was purged');
});

test('a schema that is none is refused before the model is called', async () => {
  const { client } = await start();
  const session = await client.session.create({});
  const error = await failure(client.session.prompt(session.id, { content: 'x', output: { schema: { type: 'wat' } } }));
  expect(isAppError(error, 'invalid_request')).toBe(true);
  expect(models.requests).toHaveLength(0);
});

test('JSON in a Markdown fence is JSON, and an answer that does not fit says why', async () => {
  const { client } = await start();
  const session = await client.session.create({});
  const schema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
  models.script([{ text: '```json\n{"n": 4}\n```' }, { text: '{"n": "four"}' }]);

  expect((await client.session.prompt(session.id, { content: 'x', output: { schema } })).output).toEqual({ n: 4 });
  const error = await failure(client.session.prompt(session.id, { content: 'x', output: { schema } }));
  expect(isAppError(error, 'output_invalid') && error.detail).toContain('/n must be number');
});

test('tool results of an answer stand in the order the calls were made', async () => {
  const { client } = await start();
  await client.session.create({ id: 'ordered' });
  models.script([
    {
      toolCalls: [
        { id: 'c1', name: 'memory_store', input: { content: 'one' } },
        { id: 'c2', name: 'nosuch', input: {} },
        { id: 'c3', name: 'memory_search', input: { query: 'one' } },
      ],
    },
    { text: 'done' },
  ]);
  const { toolResults } = await client.session.prompt('ordered', { content: 'x' });
  expect(toolResults.map((result) => result.id)).toEqual(['c1', 'c2', 'c3']);
});
