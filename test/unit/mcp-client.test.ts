import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { McpServer } from '../../src/contract/tool.ts';
import { isAppError } from '../../src/core/errors.ts';
import { type Logger, silentLogger } from '../../src/core/logger.ts';
import type { McpConnection } from '../../src/core/mcp-connection.ts';
import type { Tool, ToolContext } from '../../src/core/tool.ts';
import { connectMcpServer } from '../../src/mcp/mcp-client.ts';
import { createToolRegistry } from '../../src/tools/tool-registry.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { MCP_SERVER_COMMAND, startMcpHttpServer } from '../helpers/mcp-server.ts';

interface ConnectOptions {
  readonly log?: Logger;
  readonly signal?: AbortSignal;
}

async function connect(config: Partial<McpServer>, { log = silentLogger, signal = new AbortController().signal }: ConnectOptions = {}) {
  const connection = await connectMcpServer(McpServer.parse({ mcpServer: 'lab', ...config }), { log, signal, timeoutMs: 30_000 });
  onTestFinished(() => connection.close());
  return connection;
}

const connectProcess = (options?: ConnectOptions) => connect(MCP_SERVER_COMMAND, options);

/** Runs a tool as a session would. */
function call(connection: McpConnection, name: string, input: object = {}, given: Partial<ToolContext> & { timeoutMs?: number } = {}) {
  const registry = createToolRegistry({ limits: { toolTimeoutMs: 20_000, toolOutputBytesMax: 65_536 }, log: silentLogger });
  registry.register(toolOf(connection, name));
  const { timeoutMs, ...context } = given;
  return registry.run(name, input, { ...CONTEXT, ...context }, { timeoutMs });
}

function toolOf({ tools }: McpConnection, name: string): Tool {
  const tool = tools.find((candidate) => candidate.name === name);
  if (!tool) throw new Error(`no tool ${name} among ${tools.map((other) => other.name).join(', ')}`);
  return tool;
}

const CONTEXT: ToolContext = {
  sessionKey: 'conversation',
  sessionId: 'ses_a',
  agent: 'dot',
  project: '/p',
  daemonUrl: 'http://127.0.0.1:3850',
  callKey: 'call_1',
  signal: new AbortController().signal,
  progress: () => {},
};

/** The reason a connection was refused for. */
async function refusal(config: Partial<McpServer>, options?: ConnectOptions): Promise<string> {
  try {
    await connect(config, options);
    return 'connected';
  } catch (error) {
    return isAppError(error) ? `${error.code}: ${error.detail}` : String(error);
  }
}

/** True as soon as no such process is left. */
const isGone = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    // A dead process whose parent has not asked for its end yet is still listed.
    return /^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return true;
  }
};

test('the tools of all pages come under names that begin with the server, with classes after what it says of them', async () => {
  const { tools } = await connectProcess();

  expect(tools.map(({ name, class: toolClass }) => [name, toolClass])).toEqual([
    ['lab_child', 'unsafe'],
    ['lab_crash', 'unsafe'],
    ['lab_crash_safe', 'idempotent'],
    ['lab_echo', 'pure'],
    ['lab_environment', 'unsafe'],
    ['lab_fail', 'unsafe'],
    ['lab_flood', 'unsafe'],
    ['lab_grow', 'unsafe'],
    ['lab_key', 'unsafe'],
    ['lab_odd_name', 'unsafe'],
    ['lab_odd_name_f7bab2', 'unsafe'],
    ['lab_picture', 'unsafe'],
    ['lab_progress', 'unsafe'],
    ['lab_slow', 'unsafe'],
    ['lab_sum', 'idempotent'],
  ]);
  expect(tools.find(({ name }) => name === 'lab_echo')).toMatchObject({
    description: 'Says it again',
    origin: 'mcp',
    inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  });
});

test('what is configured for a server goes to its tools where the server says nothing', async () => {
  const connection = await connect({ ...MCP_SERVER_COMMAND, class: 'probe', needsApproval: true, timeoutMs: 1_234 });
  expect(toolOf(connection, 'lab_fail')).toMatchObject({ class: 'probe', needsApproval: true, timeoutMs: 1_234 });
  expect(toolOf(connection, 'lab_echo').class).toBe('pure');
});

test('a server that prints a gigabyte is ended at the cap, and the next call has a new one', async () => {
  const connection = await connectProcess();
  const file = join(tempFolder(), 'poured');

  expect(await call(connection, 'lab_flood', { file })).toMatchObject({
    isError: true,
    error: { code: 'tool_failed' },
    output: expect.stringContaining('was ended because its output was too large (a message is longer than 16777216 bytes); ask for less'),
  });
  // The cap, and what lay in pipes and buffers.
  expect(Number(readFileSync(file, 'utf8'))).toBeLessThan(64 * 1_048_576);
  expect(await call(connection, 'lab_echo', { text: 'still here' })).toMatchObject({ output: 'still here' });
});

test('results become text: texts, structured content where there is none, a note for pictures', async () => {
  const connection = await connectProcess();

  expect(await call(connection, 'lab_echo', { text: 'hello' })).toMatchObject({ output: 'hello', isError: false });
  expect(await call(connection, 'lab_sum')).toMatchObject({ output: '{"sum":3}', value: { sum: 3 } });
  expect((await call(connection, 'lab_picture')).output).toBe('a dot\n[image image/png, 3 bytes, not shown]');
  expect((await call(connection, 'lab_odd_name')).output).toBe('odd name');
  expect((await call(connection, 'lab_odd_name_f7bab2')).output).toBe('odd.name');
});

test('a result that says it is an error is one', async () => {
  expect((await call(await connectProcess(), 'lab_fail')).error).toEqual({ code: 'tool_failed', message: 'no such file' });
});

test('the call key travels, and progress is shown', async () => {
  const connection = await connectProcess();
  const told: unknown[] = [];

  expect((await call(connection, 'lab_key', {}, { callKey: 'call_42' })).output).toBe('call_42');
  await call(connection, 'lab_progress', {}, { progress: (...args) => void told.push(args) });

  expect(told).toEqual([['a quarter', 0.25]]);
});

test('a deadline cancels the call at the server, which goes on to serve', async () => {
  const connection = await connectProcess();
  const file = join(tempFolder(), 'mark');

  const run = await call(connection, 'lab_slow', { file }, { timeoutMs: 100 });

  expect(run.error?.code).toBe('timeout');
  expect((await call(connection, 'lab_echo', { text: 'still here' })).output).toBe('still here');
  await expect.poll(() => readFileSync(file, 'utf8')).toBe('cancelled');
});

test("the caller's abort ends the call", async () => {
  const caller = new AbortController();
  const running = call(await connectProcess(), 'lab_slow', { file: join(tempFolder(), 'mark') }, { signal: caller.signal });
  caller.abort();
  expect((await running).error?.code).toBe('aborted');
});

test('a server sees of our environment what it needs, and what it was given', async () => {
  process.env.SIGNET_TEST_SECRET = 'do not tell';
  onTestFinished(() => void delete process.env.SIGNET_TEST_SECRET);
  const connection = await connect({ ...MCP_SERVER_COMMAND, env: { GIVEN: 'yes' } });

  const environment = JSON.parse((await call(connection, 'lab_environment')).output);

  expect(environment).toMatchObject({ GIVEN: 'yes', PATH: process.env.PATH });
  expect(environment).not.toHaveProperty('SIGNET_TEST_SECRET');
});

test('a tool that may run again is run again when the process ends under it', async () => {
  const connection = await connectProcess();
  const run = await call(connection, 'lab_crash_safe', { file: join(tempFolder(), 'mark') });
  expect(run).toMatchObject({ output: 'recovered', isError: false });
});

test('a tool that may not run again is not; the next call finds a new process', async () => {
  const connection = await connectProcess();
  const file = join(tempFolder(), 'mark');

  const run = await call(connection, 'lab_crash', { file });

  expect(run.error?.message).toBe('MCP server lab ended during the call; whether the call took effect is unknown');
  expect((await call(connection, 'lab_echo', { text: 'back' })).output).toBe('back');
});

test('calls that come together while the server is away share one new process', async () => {
  const starts: string[] = [];
  const connection = await connectProcess({ log: { ...silentLogger, info: (_fields, message) => void starts.push(message) } });
  await call(connection, 'lab_crash', { file: join(tempFolder(), 'mark') });

  const runs = await Promise.all(['a', 'b', 'c'].map((text) => call(connection, 'lab_echo', { text })));

  expect(runs.map(({ output }) => output)).toEqual(['a', 'b', 'c']);
  expect(starts).toEqual(['MCP server is gone; starting it again']);
});

test('close ends the process and what it started, also what ignores SIGTERM', async () => {
  const connection = await connectProcess();
  const pid = Number((await call(connection, 'lab_child')).output);
  expect(isGone(pid)).toBe(false);

  await connection.close();
  await connection.close();

  await expect.poll(() => isGone(pid)).toBe(true);
  expect((await call(connection, 'lab_echo', { text: 'x' })).error?.message).toBe('MCP server lab was closed');
});

test('a list that changed is read again', async () => {
  const connection = await connectProcess();
  const changed = Promise.withResolvers<readonly Tool[]>();
  connection.onToolsChanged(changed.resolve);

  await call(connection, 'lab_grow');

  expect((await changed.promise).map(({ name }) => name)).toContain('lab_grown');
  expect(connection.tools).toBe(await changed.promise);
});

test('what a server writes to stderr is for the debug log', async () => {
  const wrote = Promise.withResolvers<object>();
  const debug = (fields: object, message: string): void => {
    if (message === 'MCP server wrote to stderr') wrote.resolve(fields);
  };
  await connectProcess({ log: { ...silentLogger, debug } });
  expect(await wrote.promise).toEqual({ mcpServer: 'lab', stderr: 'listening on stdin\n' });
});

test('a server that cannot be used is refused with the reason', async () => {
  expect(await refusal({ command: '/no/such/command' })).toContain(
    'tool_failed: MCP server lab (/no/such/command) cannot be used: spawn /no/such/command ENOENT',
  );
  expect(await refusal({ command: process.execPath, args: ['-e', 'process.exit(1)'] })).toContain('Connection closed');
  expect(await refusal({ url: 'http://127.0.0.1:1/mcp' })).toContain('MCP server lab (http://127.0.0.1:1) cannot be used: ');
  expect(await refusal({})).toBe('invalid_request: MCP server lab needs either command or url');
  expect(await refusal({ command: 'node', url: 'http://127.0.0.1:1/' })).toContain('needs either command or url');
});

test('an attempt that is aborted ends its process', async () => {
  const signal = AbortSignal.timeout(300);
  const silent = { command: process.execPath, args: ['-e', 'process.stderr.write(String(process.pid)); setInterval(() => {}, 1000)'] };
  let pid = 0;
  const debug = (fields: { stderr?: string }): void => {
    if (fields.stderr) pid = Number(fields.stderr);
  };

  expect(await refusal(silent, { signal, log: { ...silentLogger, debug } })).toContain('TimeoutError');

  expect(pid).toBeGreaterThan(0);
  expect(isGone(pid)).toBe(true);
});

test('a server behind a URL serves the same', async () => {
  const server = await startMcpHttpServer();
  onTestFinished(() => server.close());
  const connection = await connect({ url: server.url });

  expect((await call(connection, 'lab_echo', { text: 'over HTTP' })).output).toBe('over HTTP');
  expect((await call(connection, 'lab_fail')).error?.message).toBe('no such file');
  expect(server.sessions()).toBe(1);
  await connection.close();
  expect(server.sessions()).toBe(0);
});

test('a server behind a URL that forgot the session gets a new one, and the call is made', async () => {
  const server = await startMcpHttpServer();
  onTestFinished(() => server.close());
  const connection = await connect({ url: server.url });

  await server.forget();

  expect((await call(connection, 'lab_key', {}, { callKey: 'call_7' })).output).toBe('call_7');
});

test('a server behind a URL that restarts is found again by the next call', async () => {
  const server = await startMcpHttpServer();
  const connection = await connect({ url: server.url });
  await server.close();

  expect((await call(connection, 'lab_fail')).error?.code).toBe('tool_failed');

  const again = await startMcpHttpServer(Number(new URL(server.url).port));
  onTestFinished(() => again.close());
  expect((await call(connection, 'lab_echo', { text: 'found' })).output).toBe('found');
});
