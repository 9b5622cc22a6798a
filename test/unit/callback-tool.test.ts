import { expect, onTestFinished, test } from 'vitest';
import { CallbackTool } from '../../src/contract/tool.ts';
import { isAppError } from '../../src/core/errors.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { ToolContext } from '../../src/core/tool.ts';
import { isLoopback, type ResolveAll, requireCallbackHost } from '../../src/tools/callback-host.ts';
import { createCallbackTool } from '../../src/tools/callback-tool.ts';
import { createToolRegistry } from '../../src/tools/tool-registry.ts';
import { type CallbackAnswer, startCallbackServer } from '../helpers/callback-server.ts';

async function start(answer: CallbackAnswer) {
  const server = await startCallbackServer(answer);
  onTestFinished(() => server.close());
  return server;
}

interface RunOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  readonly allowedHosts?: readonly string[];
  readonly resolveAll?: ResolveAll;
}

async function run(url: string, input: unknown = {}, { signal, timeoutMs, allowedHosts = [], resolveAll }: RunOptions = {}) {
  const registry = createToolRegistry({ limits: { toolTimeoutMs: 10_000, toolOutputBytesMax: 65_536 }, log: silentLogger });
  const registration = CallbackTool.parse({ name: 'lamp', description: 'A lamp', inputSchema: { type: 'object' }, callback: { url } });
  registry.register(createCallbackTool(registration, { allowedHosts, ...(resolveAll ? { resolveAll } : {}) }));
  return registry.run('lamp', input, { ...CONTEXT, ...(signal ? { signal } : {}) }, { timeoutMs });
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

test('a call is one POST that says everything about itself, and its output is the answer', async () => {
  const server = await start(() => ({ output: { lit: true } }));

  const { value, isError } = await run(`${server.origin}/tools/lamp?room=3`, { on: true });

  expect([value, isError]).toEqual([{ lit: true }, false]);
  expect(server.requests).toHaveLength(1);
  expect(server.requests[0]).toMatchObject({ method: 'POST', path: '/tools/lamp?room=3', headers: { 'idempotency-key': 'call_1' } });
  expect(server.requests[0]!.headers['content-type']).toBe('application/json');
  expect(server.requests[0]!.body).toEqual({
    name: 'lamp',
    input: { on: true },
    callKey: 'call_1',
    sessionKey: 'conversation',
    sessionId: 'ses_a',
    agent: 'dot',
    project: '/p',
    daemonUrl: 'http://127.0.0.1:3850',
  });
});

test('an output of null is an output', async () => {
  const server = await start(() => ({ output: null, error: null }));
  expect(await run(server.origin)).toMatchObject({ isError: false, value: null, output: 'null' });
});

test.each([
  ['a text', { error: 'no bulb' }, 'no bulb'],
  ['an object with a message', { error: { message: 'no bulb', code: 7 } }, 'no bulb'],
  ['any other value', { error: { code: 7 } }, '{"code":7}'],
])('an error that is %s fails the call with it', async (_, answer, message) => {
  const server = await start(() => answer);
  expect((await run(server.origin)).error).toEqual({ code: 'tool_failed', message });
});

test('a status that is not 2xx fails the call, with the error or the first characters of what came', async () => {
  const server = await start(({ path }, response) => {
    response.writeHead(503, { 'content-type': 'text/html' }).end(path === '/known' ? '{"error":"busy"}' : `<h1>${'x'.repeat(500)}`);
    return undefined;
  });

  expect((await run(`${server.origin}/known`)).error?.message).toBe('status 503: busy');
  expect((await run(`${server.origin}/page`)).error?.message).toBe(`the callback answered status 503: <h1>${'x'.repeat(196)}...`);
});

test.each([
  ['no JSON', 'lit!', 'without JSON of {"output"} or {"error"}: lit!'],
  ['JSON of another shape', '{"result":1}', 'without JSON of {"output"} or {"error"}: {"result":1}'],
  ['a list', '[1]', 'without JSON of {"output"} or {"error"}: [1]'],
  ['nothing', '', 'without JSON of {"output"} or {"error"}: (no body)'],
])('an answer of %s fails the call', async (_, body, message) => {
  const server = await start((_request, response) => void response.end(body));
  expect((await run(server.origin)).error?.message).toBe(`the callback answered status 200 ${message}`);
});

test('a redirect is not followed', async () => {
  const server = await start(({ path }, response) => {
    if (path === '/there') return { output: 'followed' };
    response.writeHead(307, { location: '/there' }).end();
    return undefined;
  });

  expect((await run(server.origin)).error?.message).toBe('the callback answered status 307: (no body)');
  expect(server.requests.map(({ path }) => path)).toEqual(['/']);
});

test('an answer without end is cut off at its limit', async () => {
  const server = await start((_request, response) => {
    const chunk = Buffer.alloc(1_000_000, 'x');
    const more = (): void => {
      while (!response.destroyed && response.write(chunk));
      response.once('drain', more);
    };
    more();
    return undefined;
  });
  expect((await run(server.origin)).error?.message).toBe('the callback answered more than 4194304 bytes');
});

test('the deadline closes the connection', async () => {
  const closed = Promise.withResolvers<void>();
  const server = await start((_request, response) => void response.once('close', closed.resolve));

  const { error } = await run(server.origin, {}, { timeoutMs: 50 });

  expect(error?.code).toBe('timeout');
  await closed.promise;
});

test('an abort in the middle of the answer closes the connection', async () => {
  const caller = new AbortController();
  const began = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<void>();
  const server = await start((_request, response) => {
    response.once('close', closed.resolve);
    response.write('{"output":', () => began.resolve());
    return undefined;
  });

  const running = run(server.origin, {}, { signal: caller.signal });
  await began.promise;
  caller.abort();

  expect((await running).error?.code).toBe('aborted');
  await closed.promise;
});

test('a server that is away fails the call without telling the path', async () => {
  const server = await startCallbackServer(() => ({ output: 1 }));
  await server.close();

  const { error } = await run(`${server.origin}/secret-path?token=secret`);

  expect(error?.code).toBe('tool_failed');
  expect(error?.message).toContain(`the callback at ${server.origin} could not be called: `);
  expect(error?.message).toContain('ECONNREFUSED');
  expect(error?.message).not.toContain('secret');
});

test('a connection that breaks is a failed call', async () => {
  const server = await start((_request, response) => {
    response.write('{"outp', () => response.destroy());
    return undefined;
  });
  expect((await run(server.origin)).error).toMatchObject({ code: 'tool_failed' });
});

test('a name that means this machine may be called, an address of another machine may not', async () => {
  const server = await start(() => ({ output: 'here' }));

  expect((await run(`http://localhost:${server.port}`)).value).toBe('here');
  for (const [host, shown] of [
    ['192.0.2.1', '192.0.2.1'],
    ['[2001:db8::1]', '2001:db8::1'],
  ] as const)
    expect((await run(`http://${host}:9/`)).error).toMatchObject({
      code: 'tool_failed',
      message: expect.stringContaining(`${shown} is not on this machine`),
    });
});

test('an address that is allowed is tried', async () => {
  const tried = run('http://10.255.255.1:9/', {}, { allowedHosts: ['10.255.255.1'], timeoutMs: 50 });
  // Unreachable at once or silent until the deadline, as the network has it: not refused by us.
  expect((await tried).error?.message).not.toMatch(/not on this machine|link-local/);
});

test('an allowed name is called at the address that was looked at, wherever that is', async () => {
  const server = await start(() => ({ output: 'here' }));
  const resolveAll = async () => [{ address: '127.0.0.1', family: 4 }];
  const url = `http://tools.example:${server.port}/`;
  expect((await run(url, {}, { allowedHosts: ['tools.example'], resolveAll })).value).toBe('here');
});

test.each(['169.254.169.254', '100.100.100.200', 'fd00:ec2::254', '0.0.0.0', '::ffff:169.254.169.254'])(
  'no call goes to %s, not even of a host that is allowed',
  async (address) => {
    const family = address.includes(':') ? 6 : 4;
    const byName = {
      allowedHosts: ['tools.example'],
      resolveAll: async () => [
        { address: '127.0.0.1', family: 4 },
        { address, family },
      ],
    };
    const refused = { code: 'tool_failed', message: expect.stringContaining('link-local, metadata or reserved') };
    expect((await run('http://tools.example:9/', {}, byName)).error).toMatchObject(refused);
    const host = family === 6 ? `[${address}]` : address;
    const { hostname } = new URL(`http://${host}/`);
    const direct = { allowedHosts: [hostname.replace(/^\[(.*)\]$/, '$1')] };
    expect((await run(`http://${host}:9/`, {}, direct)).error).toMatchObject(refused);
    await expect(requireCallbackHost(new URL(`http://${host}:9/`), direct.allowedHosts)).rejects.toThrow(/link-local, metadata/);
  },
);

test.each([
  ['127.0.0.1', true],
  ['127.8.9.1', true],
  ['::1', true],
  ['::ffff:127.0.0.1', true],
  ['::ffff:192.0.2.1', false],
  ['0.0.0.0', false],
  ['10.0.0.1', false],
  ['::', false],
])('%s is loopback: %s', (address, expected) => {
  expect(isLoopback(address)).toBe(expected);
});

test.each([
  ['http://192.0.2.1/', [], 'refused'],
  ['http://192.0.2.1/', ['192.0.2.1'], 'refused'],
  ['http://10.0.0.1/', ['10.0.0.1'], 'taken'],
  ['http://0x7f.1/', [], 'taken'],
  ['http://user:secret@127.0.0.1/', [], 'refused'],
  ['http://nowhere.invalid/', [], 'refused'],
  ['http://nowhere.invalid/', ['NOWHERE.invalid'], 'taken'],
  ['http://[::1]:80/', [], 'taken'],
])('a registration of %s with %j allowed is %s', async (url, allowedHosts, outcome) => {
  const checked = requireCallbackHost(new URL(url), allowedHosts).then(
    () => 'taken',
    (error) => (isAppError(error, 'invalid_request') && !error.detail.includes('secret') ? 'refused' : String(error)),
  );
  expect(await checked).toBe(outcome);
});

test('no listener stays at the signal of the session after its calls', async () => {
  const server = await start(() => ({ output: 1 }));
  const session = new AbortController();
  let listeners = 0;
  const { addEventListener, removeEventListener } = session.signal;
  session.signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    listeners += 1;
    addEventListener.apply(session.signal, args);
  };
  session.signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
    listeners -= 1;
    removeEventListener.apply(session.signal, args);
  };

  await run(server.origin, {}, { signal: session.signal });

  expect(listeners).toBe(0);
});
