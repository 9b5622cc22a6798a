import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDaemonClient } from '../../src/client/daemon-client.ts';
import { createRuntimeClient, type RuntimeClient } from '../../src/client/runtime-client.ts';
import { RuntimeConfig } from '../../src/contract/config.ts';
import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { connectMcpServer } from '../../src/mcp/mcp-client.ts';
import { createConfiguredProviders } from '../../src/providers/from-config.ts';
import { openRuntime } from '../../src/runtime/runtime.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { createJsonToolStore } from '../../src/store/tool-store.ts';
import { createMemoryTools } from '../../src/tools/memory-tools.ts';
import { createSecretTools } from '../../src/tools/secret-tools.ts';
import { createToolRegistry } from '../../src/tools/tool-registry.ts';
import { createToolService } from '../../src/tools/tool-service.ts';

/** One request that passed on its way to the daemon. */
export interface DaemonRequest {
  /** `POST /api/hooks/session-start` */
  readonly line: string;
  readonly headers: Readonly<Record<string, unknown>>;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are looked at field by field, by tests alone.
  readonly body: any;
}

export interface SplitRuntime {
  readonly client: RuntimeClient;
  /** Everything the runtime asked the daemon, in order. */
  readonly requests: DaemonRequest[];
  close(): Promise<void>;
}

/** A runtime of its own that reaches a daemon elsewhere over HTTP, with everything it asks written down. */
export async function startSplitRuntime(daemonUrl: string, env: Readonly<Record<string, string>>): Promise<SplitRuntime> {
  const folder = mkdtempSync(join(tmpdir(), 'signet-split-'));
  const proxy = await startProxy(daemonUrl);
  const daemon = createDaemonClient({ baseUrl: proxy.url });
  const config = RuntimeConfig.parse({});
  const log = await openSignalLog({ path: join(folder, 'signals.db'), synchronous: 'normal' });
  const tools = createToolRegistry({ limits: config.limits, log: silentLogger });
  for (const tool of [...createMemoryTools(daemon), ...createSecretTools(daemon, () => true)]) tools.register(tool);
  const store = createJsonToolStore(folder);
  const toolService = createToolService({ registry: tools, store, connectMcp: connectMcpServer, allowedHosts: [], log: silentLogger });
  const runtime = await openRuntime({
    ...{ log, daemon, providers: createConfiguredProviders(config, env), tools, toolService, config },
    ...{ clock: systemClock, logger: silentLogger, info: { version: '0.0.0-test', workspace: folder, startedAt: systemClock.now() } },
  });
  const { operations, handlers, streams, sockets } = runtime;
  const server = createHttpServer({
    ...{ operations, handlers, streams, sockets, security: {}, title: 'Signet runtime', version: '0.0.0-test' },
    ...{ log: silentLogger, portSetting: '--runtime-port' },
  });
  const address = await server.listen('127.0.0.1', 0);
  return {
    client: createRuntimeClient({ baseUrl: address.url }),
    requests: proxy.requests,
    close: async () => {
      await runtime.drain();
      await server.close();
      await toolService.close();
      await log.close();
      await proxy.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function startProxy(target: string): Promise<{ url: string; requests: DaemonRequest[]; close(): Promise<void> }> {
  const requests: DaemonRequest[] = [];
  const server = createServer(async (incoming, response) => {
    let text = '';
    for await (const chunk of incoming.setEncoding('utf8')) text += chunk;
    const { method = 'GET', url = '/', headers } = incoming;
    requests.push({ line: `${method} ${url.split('?')[0]}`, headers, body: text === '' ? null : JSON.parse(text) });
    const { host: _host, connection: _connection, 'content-length': _length, ...passed } = headers as Record<string, string>;
    const answer = await fetch(target + url, { method, headers: passed, ...(text === '' ? {} : { body: text }) }).catch(() => undefined);
    if (!answer) return void response.destroy(); // A daemon that is away looks the same through us.
    response
      .writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'application/json' })
      .end(await answer.text());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
