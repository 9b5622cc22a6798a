import { onTestFinished } from 'vitest';
import { createInProcessTransport } from '../../src/client/in-process.ts';
import { daemonOperations } from '../../src/contract/daemon.ts';
import type { Role } from '../../src/contract/operation.ts';
import { createLogBook, recordingLogger } from '../../src/core/log-book.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { readAgentYaml } from '../../src/daemon/agent-yaml.ts';
import { openDaemon } from '../../src/daemon/daemon.ts';
import { createTokenCheck } from '../../src/http/security.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { createMcpRoute } from '../../src/mcp/server-route.ts';
import { type Answer, call } from '../conformance/calls.ts';
import { START_MS, tempFolder } from './daemon-fixture.ts';

export interface DaemonServerOptions {
  readonly files?: Readonly<Record<string, string>>;
  /** Nobody gets in without one of these. */
  readonly tokens?: Readonly<Record<string, Role>>;
  /** Begin with the work nobody asks for: upkeep, and looking at agent.yaml. */
  readonly background?: boolean;
}

export interface DaemonServer {
  readonly folder: string;
  readonly url: string;
  readonly port: number;
  readonly clock: { ms: number; now(): number };
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** Stop and start again on the same folder, at another port. */
  restart(): Promise<void>;
}

/** The daemon alone behind its real server, with a clock that stands still. Gone when the test is over. */
export async function serveDaemon({ files = {}, tokens, background = false }: DaemonServerOptions = {}): Promise<DaemonServer> {
  const folder = tempFolder(files);
  const clock = { ms: START_MS, now: () => clock.ms };
  const open = async () => {
    const log = recordingLogger(silentLogger, createLogBook(clock, 'info'));
    const info = { version: '0.0.0-test', host: '127.0.0.1', port: 0, startedAtMs: START_MS, shuttingDown: false };
    const openapi = () => ({ openapi: '3.1.0' });
    const daemon = openDaemon({ folder, config: readAgentYaml(folder), clock, log, logs: log.book, info, openapi });
    if (background) daemon.startBackground();
    const server = createHttpServer({
      operations: daemonOperations,
      handlers: daemon.handlers,
      streams: daemon.streams,
      rawRoutes: [createMcpRoute({ call: createInProcessTransport(daemonOperations, daemon.handlers, { log }), log })],
      security: tokens === undefined ? {} : { authenticate: createTokenCheck(tokens) },
      title: 'test',
      version: '0.0.0',
      log,
    });
    const address = await server.listen('127.0.0.1', 0);
    const close = async (): Promise<void> => {
      await server.close();
      await daemon.stopBackground();
      daemon.close();
    };
    return { address, close };
  };
  let running = await open();
  onTestFinished(() => running.close());
  const send: DaemonServer['call'] = (method, path, body, headers) => call(method, running.address.url + path, body, headers);
  return {
    folder,
    clock,
    get url() {
      return running.address.url;
    },
    get port() {
      return running.address.port;
    },
    get: (path, headers) => send('GET', path, undefined, headers),
    post: (path, body = {}, headers) => send('POST', path, body, headers),
    call: send,
    async restart() {
      await running.close();
      running = await open();
    },
  };
}
