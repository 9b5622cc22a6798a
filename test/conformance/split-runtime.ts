import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRuntimeClient, type RuntimeClient } from '../../src/client/runtime-client.ts';
import { start } from '../../src/compose.ts';
import { resolveSettings } from '../../src/config.ts';
import { silentLogger } from '../../src/core/logger.ts';

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

/**
 * A runtime in the role `runtime`, as `signet start --role runtime` composes it, on a workspace of its own
 * (that of SIGNET_PATH when given), with everything it asks recorded.
 */
export async function startSplitRuntime(daemonUrl: string, env: Readonly<Record<string, string>>): Promise<SplitRuntime> {
  const own = env.SIGNET_PATH === undefined ? mkdtempSync(join(tmpdir(), 'signet-split-')) : undefined;
  const proxy = await startProxy(daemonUrl);
  const place = {
    SIGNET_ROLE: 'runtime',
    SIGNET_DAEMON_URL: proxy.url,
    ...(own === undefined ? {} : { SIGNET_PATH: own }),
    SIGNET_RUNTIME_PORT: '0',
  };
  const running = await start(resolveSettings({ ...place, ...env }), silentLogger);
  return {
    client: createRuntimeClient({ baseUrl: running.runtime.url }),
    requests: proxy.requests,
    close: async () => {
      await running.close();
      await proxy.close();
      if (own !== undefined) rmSync(own, { recursive: true, force: true });
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
