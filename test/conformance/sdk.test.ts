import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, expectTypeOf } from 'vitest';
import * as sdk from '../../src/index.ts';
import {
  createAdapter,
  createRuntime,
  createRuntimeAdapterServer,
  createRuntimeClient,
  type RuntimeAdapter,
  type RuntimeClient,
  type Tool,
  type ToolContext,
} from '../../src/index.ts';
import { type CallbackServer, startCallbackServer } from '../helpers/callback-server.ts';
import { call } from './calls.ts';
import { verifies } from './verifies.ts';

let folder: string;
let runtime: Awaited<ReturnType<typeof createRuntime>>;
let client: RuntimeClient;
/** Stands where a daemon would and writes down what it is asked. */
let recorder: CallbackServer;

const told: ToolContext[] = [];
const almanac: Tool = {
  name: 'almanac',
  description: 'Says when the tide turns.',
  inputSchema: { type: 'object' },
  class: 'pure',
  origin: 'custom',
  execute: async (_, context) => {
    told.push(context);
    return { pid: process.pid };
  },
};

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signet-sdk-'));
  process.env.SIGNET_LOG_LEVEL = 'silent';
  runtime = await createRuntime({ port: 0, daemonPort: 0, path: folder, tools: [almanac] });
  client = createRuntimeClient({ baseUrl: runtime.server.runtime.url });
  recorder = await startCallbackServer(() => ({
    inject: 'from the daemon',
    memories: [],
    memoryCount: 0,
    summaryPrompt: 'sum up',
    guidelines: '',
  }));
});
afterAll(async () => {
  delete process.env.SIGNET_LOG_LEVEL;
  await runtime.server.close();
  await recorder.close();
  rmSync(folder, { recursive: true, force: true });
});

verifies(['sdk.create-runtime', 'sdk.create-runtime-client', 'sdk.session.create', 'sdk.session.prompt'], async () => {
  expect((await runtime.client.health()).status).toBe('healthy');
  const session = await client.session.create({ title: 'by the sdk' });
  expect(session).toMatchObject({ id: expect.stringMatching(/^ses_/), title: 'by the sdk' });
  expect((await runtime.client.session.get(session.id)).id).toBe(session.id);
  const answer = await client.session.prompt(session.id, { content: 'what are we working on today?' });
  expect(answer).toMatchObject({ status: 'completed', content: expect.stringMatching(/\S/) });
});

verifies('sdk.typescript.compatible', 'each export stays; this list only grows', () => {
  const values = [
    ...['AppError', 'Player', 'WorkflowError', 'createAdapter', 'createDaemonClient', 'createRuntime', 'createRuntimeAdapterServer'],
    ...['createRuntimeClient', 'createWorkflow', 'defineSignal', 'runReactive'],
  ];
  expect(Object.keys(sdk)).toEqual(expect.arrayContaining(values));
  type Fields = Record<string, unknown>;
  // A type that is gone or renamed does not compile.
  type Kept = [
    ...[sdk.CompletionChunk, sdk.CompletionOptions, sdk.CompletionResult, sdk.CreateRuntimeOptions, sdk.DaemonClient, sdk.Message],
    ...[sdk.PlayedState, sdk.Provider, sdk.ReactiveAgent<Fields>, sdk.ReactiveOutcome<Fields>, sdk.ReactiveRecording],
    ...[
      sdk.ReactiveResult<Fields>,
      sdk.ReactiveScope<Fields>,
      sdk.RunReactiveOptions<Fields>,
      sdk.RuntimeAdapter,
      sdk.RuntimeAdapterServer,
    ],
    ...[sdk.RuntimeClient, sdk.Signal, sdk.SignalDefinition<Fields>, sdk.Tool, sdk.ToolContext],
  ];
  expectTypeOf<Kept['length']>().toEqualTypeOf<21>();
});

verifies('sdk.typescript.compatible', 'each method of the client stays and is called as before; this list only grows', () => {
  const methods = {
    session:
      'abort cancelPrompt compact create diff end events exportLog fork get getPrompt importLog list messages prompt promptAsync resume stateAt stream trim update verify wait',
    workflow: 'abort events get list run start stream',
    tools: 'call list register unregister',
    providers: 'list status',
    approvals: 'decide list',
  };
  for (const [group, names] of Object.entries(methods)) {
    const own = client[group as keyof RuntimeClient] as unknown as Record<string, unknown>;
    for (const name of names.split(' ')) expect([group, name, typeof own[name]]).toEqual([group, name, 'function']);
  }
  expect(['baseUrl', 'call', 'health', 'info'].filter((name) => !(name in client))).toEqual([]);
  // Arguments that a program of the first version gives must go on to compile.
  expectTypeOf(client.session.prompt).toBeCallableWith('ses_1', { content: 'hi', promptId: 'p1' }, {});
  expectTypeOf(client.session.create).toBeCallableWith({ title: 'a', agent: 'b', project: 'c', sessionKey: 'd' });
  expectTypeOf(client.session.stream).toBeCallableWith('ses_1', { events: 'turn:*', deltas: false });
  expectTypeOf(client.tools.register).toBeCallableWith({
    ...{ name: 'a', description: 'b', inputSchema: { type: 'object' }, class: 'pure' as const, callback: { url: 'http://127.0.0.1' } },
  });
});

verifies('runtime.tool.in-process', async () => {
  const { body } = await call('POST', `${runtime.server.runtime.url}/tools/almanac`, { input: {} });
  expect(body).toMatchObject({ output: { pid: process.pid }, isError: false });
  expect(told).toMatchObject([{ daemonUrl: runtime.server.daemon.url }]);
});

verifies(['sdk.session.stream', 'sdk.runtime-client.prompt'], async () => {
  const { id } = await client.session.create();
  const iterator = client.session.stream(id)[Symbol.asyncIterator]();
  expect(await iterator.next()).toMatchObject({ done: false, value: { name: 'session:snapshot' } });
  const prompted = client.session.prompt(id, { content: 'good evening' });
  let printed = '';
  for (let name = ''; name !== 'turn:end'; ) {
    const { value } = await iterator.next();
    name = value.name;
    printed += value.content ?? '';
  }
  await iterator.return?.();
  expect(printed).toMatch(/\S/);
  expect(printed).toBe((await prompted).content);
});

verifies(['sdk.adapter.harness', 'sdk.runtime-adapter', 'runtime.adapter.no-output'], () => {
  const adapter: RuntimeAdapter = createAdapter('openclaw', recorder.origin);
  expectTypeOf<keyof RuntimeAdapter>().toEqualTypeOf<
    'harness' | 'onSessionStart' | 'onUserPromptSubmit' | 'onSessionEnd' | 'onPreCompaction' | 'onCompactionComplete'
  >();
  expect(adapter.harness).toBe('openclaw');
  const others = Object.keys(adapter).filter((key) => !/^on[A-Z]/.test(key));
  expect(others).toEqual(['harness', 'daemonUrl', 'remember', 'recall']);
});

verifies(
  [
    'sdk.create-adapter',
    'sdk.create-adapter.daemon-url',
    'sdk.adapter.thin',
    'sdk.adapter.session-start',
    'sdk.adapter.user-prompt-submit',
    'sdk.adapter.session-end',
    'sdk.adapter.pre-compaction',
    'sdk.adapter.compaction-complete',
  ],
  'each method is one call of its hook at the given daemon, and hands the reply through',
  async () => {
    const adapter = createAdapter('openclaw', recorder.origin);
    const asked = async (method: () => Promise<unknown>) => {
      const before = recorder.requests.length;
      const reply = await method();
      return { reply, requests: recorder.requests.slice(before).map(({ method: verb, path, body }) => [`${verb} ${path}`, body]) };
    };
    const key = { sessionKey: 's1' };
    const body = { harness: 'openclaw', sessionKey: 's1' };
    expect(await asked(() => adapter.onSessionStart({ ...key, project: '/p' }))).toEqual({
      reply: expect.objectContaining({ inject: 'from the daemon' }),
      requests: [['POST /api/hooks/session-start', { ...body, project: '/p' }]],
    });
    expect(await asked(() => adapter.onUserPromptSubmit({ ...key, prompt: 'hi' }))).toEqual({
      reply: expect.objectContaining({ inject: 'from the daemon' }),
      requests: [['POST /api/hooks/user-prompt-submit', { ...body, prompt: 'hi' }]],
    });
    expect(await asked(() => adapter.onSessionEnd(key))).toEqual({ reply: undefined, requests: [['POST /api/hooks/session-end', body]] });
    expect(await asked(() => adapter.onPreCompaction({ ...key, messageCount: 3 }))).toEqual({
      reply: expect.objectContaining({ summaryPrompt: 'sum up' }),
      requests: [['POST /api/hooks/pre-compaction', { ...body, messageCount: 3 }]],
    });
    expect(await asked(() => adapter.onCompactionComplete({ ...key, summary: 'all' }))).toEqual({
      reply: undefined,
      requests: [['POST /api/hooks/compaction-complete', { ...body, summary: 'all' }]],
    });
  },
);

verifies('sdk.adapter-server', async () => {
  const server = await createRuntimeAdapterServer(createAdapter('codex', runtime.server.daemon.url));
  const post = (path: string, body: object) => call('POST', server.url + path, body);
  const start = await post('/session-start', { sessionKey: 'over-http' });
  expect(start).toMatchObject({ status: 200, body: { sessionKey: 'over-http', inject: expect.stringContaining('Memory Check Loop') } });
  expect((await call('GET', `${runtime.server.daemon.url}/api/sessions/over-http`)).body.harness).toBe('codex');
  expect((await post('/user-prompt-submit', { sessionKey: 'over-http', prompt: 'hi' })).body.inject).toContain('Memory check');
  expect((await post('/pre-compaction', { sessionKey: 'over-http' })).body.summaryPrompt).toContain('Store durable memories now');
  expect((await post('/compaction-complete', { sessionKey: 'over-http', summary: 'short' })).status).toBe(200);
  expect((await post('/session-end', { sessionKey: 'over-http' })).status).toBe(200);
  expect((await call('GET', `${runtime.server.daemon.url}/api/sessions/over-http`)).status).toBe(404);
  await server.close();
});

verifies('sdk.adapter.signet-cli', async () => {
  const { id, sessionKey } = await client.session.create();
  await client.session.prompt(id, { content: 'hello' });
  expect((await call('GET', `${runtime.server.daemon.url}/api/sessions/${sessionKey}`)).body.harness).toBe('signet-cli');
});
