import { once } from 'node:events';
import { expect, test } from 'vitest';
import { ToolInfo } from '../../src/contract/tool.ts';
import { AppError, isAppError } from '../../src/core/errors.ts';
import { type Logger, silentLogger } from '../../src/core/logger.ts';
import type { Tool, ToolContext } from '../../src/core/tool.ts';
import { createToolRegistry } from '../../src/tools/tool-registry.ts';

const limits = { toolTimeoutMs: 5_000, toolOutputBytesMax: 1_000 };

function registryOf(tools: readonly Partial<Tool>[], log: Logger = silentLogger) {
  const registry = createToolRegistry({ limits, log });
  for (const tool of tools) registry.register(toolOf(tool));
  return registry;
}

function toolOf(tool: Partial<Tool>): Tool {
  return {
    name: 'lamp',
    description: 'A lamp',
    inputSchema: { type: 'object', properties: { on: { type: 'boolean' } }, additionalProperties: false },
    class: 'unsafe',
    origin: 'custom',
    execute: async () => 'done',
    ...tool,
  };
}

function contextOf(context: Partial<ToolContext> = {}): ToolContext {
  return {
    sessionKey: 'k',
    sessionId: 'ses_a',
    agent: 'default',
    project: '/p',
    daemonUrl: 'http://127.0.0.1:1',
    callKey: 'call_1',
    signal: new AbortController().signal,
    progress: () => {},
    ...context,
  };
}

const codeOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    if (isAppError(error)) return error.code;
    throw error;
  }
  return 'none';
};

test('tools are listed and offered in the order of their names, whatever the order they came in', () => {
  const registry = registryOf([{ name: 'b_tool' }, { name: 'B_tool', needsApproval: true }, { name: 'a_tool', timeoutMs: 7 }]);

  expect(registry.list().map(({ name, timeoutMs, needsApproval }) => [name, timeoutMs, needsApproval])).toEqual([
    ['B_tool', 5_000, true],
    ['a_tool', 7, false],
    ['b_tool', 5_000, false],
  ]);
  expect(registry.definitions(['b_tool', 'gone', 'a_tool']).map(({ name }) => name)).toEqual(['a_tool', 'b_tool']);
  expect(Object.keys(registry.definitions()[0]!)).toEqual(['name', 'description', 'inputSchema']);
  expect(registry.definitions([])).toEqual([]);
});

test('a name no provider takes, a name that is taken and a schema that is none are refused', () => {
  const registry = registryOf([{}]);

  expect(codeOf(() => registry.register(toolOf({ name: 'two words' })))).toBe('invalid_request');
  expect(codeOf(() => registry.register(toolOf({})))).toBe('tool_exists');
  expect(codeOf(() => registry.register(toolOf({ name: 'other', inputSchema: { type: 'array' } })))).toBe('invalid_request');
  expect(registry.list()).toHaveLength(1);
});

test('a tool that says nothing of its class is unsafe, also one whose work stands in its prototype', async () => {
  class Lamp {
    readonly name = 'lamp';
    readonly inputSchema = { type: 'object' };
    readonly #state = 'lit';
    async execute() {
      return this.#state;
    }
  }
  const registry = createToolRegistry({ limits, log: silentLogger });
  registry.register(new Lamp() as unknown as Tool);

  expect(registry.list().map((tool) => ToolInfo.parse(tool))).toMatchObject([{ class: 'unsafe', origin: 'custom', description: '' }]);
  expect(registry.get('lamp')!.class).toBe('unsafe');
  expect(await registry.run('lamp', {}, contextOf())).toMatchObject({ output: 'lit' });
});

test('a removed tool is unknown, and its name is free again', async () => {
  const registry = registryOf([{}]);

  expect(registry.unregister('lamp')).toBe(true);
  expect(registry.unregister('lamp')).toBe(false);
  expect(await registry.run('lamp', {}, contextOf())).toMatchObject({ isError: true, error: { code: 'tool_not_found' } });
  registry.register(toolOf({ execute: async () => 'new lamp' }));
  expect(await registry.run('lamp', {}, contextOf())).toMatchObject({ isError: false, output: 'new lamp' });
});

test('the tool gets the input and the context of the call', async () => {
  const seen: unknown[] = [];
  const told: unknown[] = [];
  const registry = registryOf([
    {
      async execute(input, { callKey, agent, project, progress }) {
        progress('half', 0.5);
        seen.push(input, callKey, agent, project);
        return { lit: true };
      },
    },
  ]);

  const run = await registry.run('lamp', { on: true }, contextOf({ progress: (...args) => void told.push(args) }));

  expect(run).toMatchObject({ output: '{"lit":true}', value: { lit: true }, isError: false, bytes: 12 });
  expect(run).not.toHaveProperty('truncated');
  expect(run.durationMs).toBeGreaterThanOrEqual(0);
  expect(seen).toEqual([{ on: true }, 'call_1', 'default', '/p']);
  expect(told).toEqual([['half', 0.5]]);
});

test('an absent input is an empty object', async () => {
  const registry = registryOf([{ execute: async (input) => input }]);
  expect(await registry.run('lamp', undefined, contextOf())).toMatchObject({ output: '{}', isError: false });
});

test('an unknown tool is a result that offers the nearest names', async () => {
  const run = await registryOf([{}]).run('lmap', {}, contextOf());

  expect(run.error).toEqual({ code: 'tool_not_found', message: 'no tool named "lmap" is registered; near it: lamp' });
  expect(run.output).toBe('tool_not_found: no tool named "lmap" is registered; near it: lamp');
});

test('an input that does not fit never reaches the tool', async () => {
  let calls = 0;
  const registry = registryOf([{ execute: async () => calls++ }]);

  const run = await registry.run('lamp', { on: 'yes', dim: 1 }, contextOf());

  expect(calls).toBe(0);
  expect(run).toMatchObject({ isError: true, value: null, error: { code: 'invalid_request' } });
  expect(run.output).toBe(
    'invalid_request: the input does not fit tool lamp: /dim is not a field here; leave it out (fields: on); /on must be boolean, not string',
  );
  expect(codeOf(() => registry.validateInput('lamp', { on: 'yes' }))).toBe('invalid_request');
  expect(codeOf(() => registry.validateInput('gone', {}))).toBe('tool_not_found');
});

test('a built-in tool is checked as well, though compiled late', async () => {
  const registry = registryOf([{ origin: 'builtin' }]);
  expect(await registry.run('lamp', { on: 1 }, contextOf())).toMatchObject({ error: { code: 'invalid_request' } });
});

test.each([
  ['rejects', async () => Promise.reject(new Error('no bulb')), 'tool_failed', 'no bulb'],
  [
    'throws at once',
    () => {
      throw new Error('no socket');
    },
    'tool_failed',
    'no socket',
  ],
  [
    'rejects with a code',
    async () => Promise.reject(new AppError('memory_not_found', { detail: 'no memory 7' })),
    'memory_not_found',
    'no memory 7',
  ],
  ['throws a text', async () => Promise.reject('plain'), 'tool_failed', 'plain'],
  ['throws what has no text', async () => Promise.reject(Object.create(null)), 'tool_failed', 'the tool failed without saying why'],
])('a tool that %s is a result with its message', async (_, execute, code, message) => {
  const run = await registryOf([{ execute }]).run('lamp', {}, contextOf());
  expect(run).toMatchObject({ isError: true, output: `${code}: ${message}`, error: { code, message } });
  expect(JSON.stringify(run)).not.toContain('tool-registry.test');
});

test('a value that cannot be written is a failed call', async () => {
  const value = {
    toJSON: () => {
      throw new Error('not for you');
    },
  };
  const run = await registryOf([{ execute: async () => value }]).run('lamp', {}, contextOf());
  expect(run.error).toEqual({ code: 'tool_failed', message: 'the tool answered a value that cannot be written as JSON: not for you' });
});

test('the deadline ends a call that listens, and the tool hears of it', async () => {
  const heard = Promise.withResolvers<unknown>();
  const registry = registryOf([
    {
      async execute(_input, { signal }) {
        await once(signal, 'abort');
        heard.resolve(signal.reason);
        throw new Error('stopped');
      },
    },
  ]);

  const run = await registry.run('lamp', {}, contextOf(), { timeoutMs: 20 });

  expect(run.error).toEqual({ code: 'timeout', message: 'tool lamp did not answer within 20 ms' });
  expect(isAppError(await heard.promise, 'timeout')).toBe(true);
});

test('the deadline ends a call that does not listen; what it answers later is dropped with a line in the log', async () => {
  const late = Promise.withResolvers<string>();
  const logged = Promise.withResolvers<object>();
  const told: string[] = [];
  const registry = registryOf(
    [
      {
        timeoutMs: 20,
        async execute(_input, { progress }) {
          await late.promise.catch(() => {});
          progress('too late');
          return late.promise;
        },
      },
    ],
    { ...silentLogger, debug: (fields) => logged.resolve(fields) },
  );

  const run = await registry.run('lamp', {}, contextOf({ progress: (message) => void told.push(message) }));
  late.reject(new Error('at last'));

  expect(run.error?.code).toBe('timeout');
  expect(await logged.promise).toEqual({ tool: 'lamp', callKey: 'call_1', failed: true });
  expect(told).toEqual([]);
});

test("the caller's abort ends the call with the code aborted", async () => {
  const caller = new AbortController();
  const started = Promise.withResolvers<void>();
  const registry = registryOf([
    {
      execute(_input, { signal }) {
        started.resolve();
        return once(signal, 'abort');
      },
    },
  ]);

  const running = registry.run('lamp', {}, contextOf({ signal: caller.signal }));
  await started.promise;
  caller.abort(new Error('a reason of our own'));

  expect(await running).toMatchObject({ isError: true, error: { code: 'aborted', message: 'the call was cancelled' } });
});

test('a call whose caller has gone already does not begin', async () => {
  let calls = 0;
  const run = await registryOf([{ execute: async () => calls++ }]).run('lamp', {}, contextOf({ signal: AbortSignal.abort() }));
  expect([run.error?.code, calls]).toEqual(['aborted', 0]);
});

test('output above the limit is cut, of errors too', async () => {
  const registry = registryOf([
    { name: 'long', execute: async () => 'x'.repeat(5_000) },
    { name: 'wrong', execute: async () => Promise.reject(new Error('y'.repeat(5_000))) },
  ]);

  const long = await registry.run('long', {}, contextOf());
  expect(long).toMatchObject({ bytes: 5_000, truncated: true, isError: false });
  expect(long.output).toContain('[cut: 872 of 5000 bytes shown, 4128 left out');
  expect((await registry.run('long', {}, contextOf(), { outputBytesMax: 6_000 })).output).toHaveLength(5_000);
  const wrong = await registry.run('wrong', {}, contextOf());
  expect(wrong).toMatchObject({ isError: true, truncated: true });
  expect(Buffer.byteLength(wrong.output)).toBeLessThanOrEqual(1_000);
  expect(Buffer.byteLength(wrong.error!.message)).toBeLessThanOrEqual(1_000);
});
