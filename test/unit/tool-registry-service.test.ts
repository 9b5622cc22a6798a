import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { CallbackTool, McpServer } from '../../src/contract/tool.ts';
import { isAppError } from '../../src/core/errors.ts';
import { type Logger, silentLogger } from '../../src/core/logger.ts';
import type { Tool, ToolContext } from '../../src/core/tool.ts';
import { connectMcpServer } from '../../src/mcp/mcp-client.ts';
import { createJsonToolStore } from '../../src/store/tool-store.ts';
import { createToolRegistry } from '../../src/tools/tool-registry.ts';
import { createToolService } from '../../src/tools/tool-service.ts';
import { startCallbackServer } from '../helpers/callback-server.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { MCP_SERVER_COMMAND, startMcpHttpServer } from '../helpers/mcp-server.ts';

/** A service on the workspace's file, as at a start; its log lines can be waited for. */
function startService(folder = tempFolder()) {
  const lines: string[] = [];
  const waiting = new Map<string, () => void>();
  const note = (_fields: object, message: string): void => {
    lines.push(message);
    waiting.get(message)?.();
  };
  const log: Logger = { ...silentLogger, info: note, warn: note };
  const registry = createToolRegistry({ limits: { toolTimeoutMs: 20_000, toolOutputBytesMax: 65_536 }, log });
  registry.register(BUILTIN);
  const service = createToolService({
    registry,
    store: createJsonToolStore(folder),
    connectMcp: connectMcpServer,
    allowedHosts: [],
    log,
    retryMs: 20,
  });
  onTestFinished(() => service.close());
  return {
    folder,
    service,
    lines,
    names: () => service.list().map(({ name }) => name),
    logged(message: string): Promise<void> {
      const { promise, resolve } = Promise.withResolvers<void>();
      if (lines.includes(message)) resolve();
      waiting.set(message, resolve);
      return promise;
    },
  };
}

const BUILTIN: Tool = {
  name: 'clock',
  description: 'Tells the time',
  inputSchema: { type: 'object' },
  class: 'pure',
  origin: 'builtin',
  execute: async () => 'noon',
};

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

async function startLamp(name = 'lamp', inputSchema: Record<string, unknown> = { type: 'object' }) {
  const server = await startCallbackServer(() => ({ output: 'lit' }));
  onTestFinished(() => server.close());
  return CallbackTool.parse({ name, description: 'A lamp', inputSchema, callback: { url: `${server.origin}/lamp?token=t` } });
}

const lab = (config: Partial<McpServer> = MCP_SERVER_COMMAND) => McpServer.parse({ mcpServer: 'lab', ...config });

const failure = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error) => (isAppError(error) ? `${error.code}: ${error.detail}` : String(error)),
  );

test('a registered tool can be called at once, and is listed without its secrets', async () => {
  const { service } = startService();
  const lamp = await startLamp();

  const [info] = await service.register(lamp);

  expect(info).toMatchObject({ name: 'lamp', class: 'unsafe', origin: 'custom', timeoutMs: 20_000 });
  expect(info!.callback).toBe(lamp.callback.url.replace('?token=t', ''));
  expect(await service.call('lamp', {}, CONTEXT)).toMatchObject({ name: 'lamp', output: 'lit', isError: false });
});

test('a failing tool is an answer, an unknown one an error', async () => {
  const { service } = startService();
  await service.register(await startLamp('lamp', { type: 'object', required: ['on'] }));

  expect(await service.call('lamp', {}, CONTEXT)).toMatchObject({ isError: true, error: { code: 'invalid_request' } });
  expect(await failure(service.call('lump', {}, CONTEXT))).toContain('tool_not_found');
});

test('registrations survive a restart, removals too', async () => {
  const first = startService();
  await first.service.register(await startLamp('lamp'));
  await first.service.register(await startLamp('fan'));
  await first.service.register(lab());
  expect(await first.service.unregister('fan')).toEqual(['fan']);
  await first.service.close();

  const second = startService(first.folder);
  await second.service.restore();
  await second.logged('MCP server connected');

  expect(second.names()).toEqual(expect.arrayContaining(['clock', 'lab_echo', 'lamp']));
  expect(second.names()).not.toContain('fan');
  expect(await second.service.call('lamp', {}, CONTEXT)).toMatchObject({ output: 'lit' });
  expect(await second.service.call('lab_echo', { text: 'again' }, CONTEXT)).toMatchObject({ output: 'again' });
});

test('a stored tool comes back whatever today refuses, and checks its input by its schema', async () => {
  const first = startService();
  await first.service.register(await startLamp('lamp'));
  await first.service.close();
  // As a version with other bounds accepted it.
  const path = join(first.folder, 'data', 'tools.json');
  const stored = JSON.parse(readFileSync(path, 'utf8'));
  const anyOf = Array.from({ length: 4_000 }, (_, n) => ({ const: n }));
  stored.tools[0].inputSchema = { type: 'object', properties: { level: { anyOf } } };
  writeFileSync(path, JSON.stringify(stored));

  const second = startService(first.folder);
  await second.service.restore();

  expect(second.names()).toEqual(['clock', 'lamp']);
  expect(second.lines).toEqual([]);
  expect(await second.service.call('lamp', { level: 3_999 }, CONTEXT)).toMatchObject({ output: 'lit' });
  expect(await second.service.call('lamp', { level: 'x' }, CONTEXT)).toMatchObject({ error: { code: 'invalid_request' } });
});

test('a server goes with all its tools', async () => {
  const { service, names } = startService();
  const added = await service.register(lab());

  expect(added).toHaveLength(15);
  expect(added[0]).toMatchObject({ name: 'lab_child', origin: 'mcp', mcpServer: 'lab' });
  expect(await failure(service.unregister('lab_echo'))).toBe('invalid_request: lab_echo is a tool of MCP server lab; remove the server');
  expect(await service.unregister('lab')).toHaveLength(15);
  expect(names()).toEqual(['clock']);
  expect(await failure(service.unregister('lab'))).toContain('tool_not_found');
});

test('built-in tools stay, and names are taken once', async () => {
  const { service } = startService();
  await service.register(await startLamp());

  expect(await failure(service.unregister('clock'))).toContain('invalid_request: clock was not registered over the API');
  expect(await failure(service.register(await startLamp('clock')))).toContain('tool_exists');
  expect(await failure(service.register(await startLamp('lamp')))).toContain('tool_exists');
  expect(await failure(service.register(McpServer.parse({ ...MCP_SERVER_COMMAND, mcpServer: 'lamp' })))).toContain('tool_exists');
  expect(await service.call('lamp', {}, CONTEXT)).toMatchObject({ output: 'lit' });
});

test('of a registration that fails nothing remains', async () => {
  const { service, names, folder } = startService();
  await service.register(await startLamp('lab_echo'));

  expect(await failure(service.register(await startLamp('fan', { type: 'text' })))).toContain('invalid_request');
  expect(await failure(service.register(lab()))).toContain('tool_exists: a tool named lab_echo');
  expect(await failure(service.register(lab({ command: '/no/such/command' })))).toContain('tool_failed');
  const away = CallbackTool.parse({ ...(await startLamp('away')), callback: { url: 'http://192.0.2.1/' } });
  expect(await failure(service.register(away))).toContain('invalid_request: callback host 192.0.2.1 is not on this machine');
  expect(names()).toEqual(['clock', 'lab_echo']);
  expect(await createJsonToolStore(folder).load()).toMatchObject([{ name: 'lab_echo' }]);
});

test('a registration that cannot be stored is taken back, and works once it can', async () => {
  const { service, names, folder } = startService();
  writeFileSync(join(folder, 'data'), '');

  expect(await failure(service.register(await startLamp()))).toContain('storage_failed');
  expect(names()).toEqual(['clock']);

  rmSync(join(folder, 'data'));
  await service.register(await startLamp());
  expect(await createJsonToolStore(folder).load()).toMatchObject([{ name: 'lamp' }]);
});

test('registrations that come together are all stored', async () => {
  const { service, folder } = startService();
  const lamps = await Promise.all(['a', 'b', 'c', 'd'].map((name) => startLamp(name)));
  await Promise.all(lamps.map((lamp) => service.register(lamp)));
  expect((await createJsonToolStore(folder).load()).map((tool) => 'name' in tool && tool.name).sort()).toEqual(['a', 'b', 'c', 'd']);
});

test('a server that is away does not hold up the start, and is found when it comes', async () => {
  const server = await startMcpHttpServer();
  const first = startService();
  await first.service.register(lab({ url: server.url }));
  await first.service.close();
  await server.close();

  const second = startService(first.folder);
  await second.service.restore();
  await second.logged('MCP server is away; trying again later');
  expect(second.names()).toEqual(['clock']);
  expect(await failure(second.service.register(lab({ url: server.url })))).toContain('tool_exists');

  const again = await startMcpHttpServer(Number(new URL(server.url).port));
  onTestFinished(() => again.close());
  await second.logged('MCP server connected');
  expect(await second.service.call('lab_echo', { text: 'late' }, CONTEXT)).toMatchObject({ output: 'late' });
});

test('a server that is away can be removed', async () => {
  const first = startService();
  await createJsonToolStore(first.folder).save([lab({ url: 'http://127.0.0.1:1/mcp' })]);
  await first.service.restore();
  await first.logged('MCP server is away; trying again later');

  expect(await first.service.unregister('lab')).toEqual([]);

  expect(await createJsonToolStore(first.folder).load()).toEqual([]);
});

test('a stored tool whose name is built in by now is left out, and its removal spares the built-in one', async () => {
  const { service, folder, lines, names } = startService();
  await createJsonToolStore(folder).save([await startLamp('clock')]);

  await service.restore();

  expect(lines).toEqual(['a stored tool could not come back and is left out']);
  expect(await service.call('clock', {}, CONTEXT)).toMatchObject({ output: 'noon' });
  expect(await service.unregister('clock')).toEqual([]);
  expect(names()).toEqual(['clock']);
  expect(await createJsonToolStore(folder).load()).toEqual([]);
});

test('a configured server is there but not stored, and only the configuration removes it', async () => {
  const { service, folder, logged, names } = startService();

  await service.restore([lab()]);
  await logged('MCP server connected');

  expect(names()).toContain('lab_echo');
  expect(await createJsonToolStore(folder).load()).toEqual([]);
  expect(await failure(service.unregister('lab'))).toContain('stands in the configuration');
});

test('tools follow the list of their server', async () => {
  const { service, names } = startService();
  await service.register(lab());

  await service.call('lab_grow', {}, CONTEXT);

  await expect.poll(names).toContain('lab_grown');
  expect(await service.unregister('lab')).toContain('lab_grown');
});

test('a damaged file stops the start and is not written over', async () => {
  const { service, folder } = startService(tempFolder({ 'data/tools.json': '{' }));
  expect(await failure(service.restore())).toContain(`storage_corrupt: ${join(folder, 'data', 'tools.json')}`);
  expect(await failure(service.register(await startLamp()))).toContain('storage_corrupt');
});

test('after close nothing is registered any more', async () => {
  const { service, names } = startService();
  await service.register(lab());

  await service.close();
  await service.close();

  expect(names()).toEqual(['clock']);
  expect(await failure(service.register(await startLamp()))).toContain('draining');
});
