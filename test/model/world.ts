import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInProcessTransport } from '../../src/client/in-process.ts';
import { createRuntimeClient, type RuntimeClient } from '../../src/client/runtime-client.ts';
import { RuntimeConfig } from '../../src/contract/config.ts';
import { daemonOperations } from '../../src/contract/daemon.ts';
import type { Clock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { CompletionChunk, Provider } from '../../src/core/provider.ts';
import { readAgentYaml } from '../../src/daemon/agent-yaml.ts';
import { openDaemon } from '../../src/daemon/daemon.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { connectMcpServer } from '../../src/mcp/mcp-client.ts';
import { createConfiguredProviders } from '../../src/providers/from-config.ts';
import { openRuntime } from '../../src/runtime/runtime.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { createJsonToolStore } from '../../src/store/tool-store.ts';
import { createToolRegistry } from '../../src/tools/tool-registry.ts';
import { createToolService } from '../../src/tools/tool-service.ts';
import { Arrivals, Gates, withMethods } from './gates.ts';
import { CONTEXT_TOKENS, FALLBACK, LIMITS } from './moves.ts';

/** Unit: milliseconds. */
const PATIENCE = { startTimeoutMs: 120_000, endTimeoutMs: 120_000, researchTimeoutMs: 120_000, toolTimeoutMs: 120_000, drainTimeoutMs: 1 };
const VERSION = '0.0.0-test';

/** A clock that stands still until it is moved, or runs on from where it stood. */
export class TestClock implements Clock {
  #ms: number;
  readonly #runsSince: number | null;

  constructor(startMs: number, runs = false) {
    this.#ms = startMs;
    this.#runsSince = runs ? performance.now() : null;
  }

  now(): number {
    return this.#ms + (this.#runsSince === null ? 0 : Math.floor(performance.now() - this.#runsSince));
  }

  advance(ms: number): void {
    this.#ms += ms;
  }
}

export interface WorldOptions {
  readonly folder: string;
  readonly modelUrl: string;
  readonly clock: TestClock;
  /** Nothing waits for the test. */
  readonly open?: boolean;
}

/** A running runtime server with doors to everything outside of it. */
export interface World {
  readonly url: string;
  readonly client: RuntimeClient;
  readonly clock: TestClock;
  readonly gates: Gates;
  /** Ids of operations whose handler was called over HTTP. */
  readonly entered: Arrivals<string>;
  /** A model answer was read to its end. */
  readonly answersRead: Arrivals<true>;
  /** Another agent writes to the session. */
  message(session: string): Promise<unknown>;
  /** Sessions whose work was left undone go on. */
  resume(): Promise<number>;
  close(): Promise<void>;
}

export function temporaryFolder(): { folder: string; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'signet-model-'));
  mkdirSync(join(folder, 'data'));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

export async function openWorld({ folder, modelUrl, clock, open = false }: WorldOptions): Promise<World> {
  const gates = new Gates();
  if (open) gates.open();
  const info = { version: VERSION, host: '127.0.0.1', port: 0, startedAtMs: clock.now(), shuttingDown: false };
  const loaded = readAgentYaml(folder);
  const daemon = openDaemon({ folder, config: loaded, clock, log: silentLogger, info, openapi: () => ({ openapi: '3.1.0' }) });
  const handlers = gates.gateHooks(daemon.handlers);
  const log = await openSignalLog({ path: join(folder, 'data', 'signals.db'), synchronous: 'normal' });
  const config = configOf(modelUrl);
  const answersRead = new Arrivals<true>('end of a model answer');
  const tools = createToolRegistry({ limits: config.limits, log: silentLogger });
  tools.register(gates.tool('scout', { runBeforeGeneration: true }));
  tools.register(gates.tool('gated'));
  tools.register(gates.tool('risky', { needsApproval: true }));
  tools.register(gates.tool('forbidden'));
  const store = createJsonToolStore(folder);
  const toolService = createToolService({ registry: tools, store, connectMcp: connectMcpServer, allowedHosts: [], log: silentLogger });
  const call = createInProcessTransport(daemonOperations, handlers);
  const runtime = await openRuntime({
    log: gates.gateLog(log),
    daemon: { baseUrl: 'http://127.0.0.1', call },
    providers: watchedProviders(config, answersRead),
    tools,
    toolService,
    config,
    clock,
    logger: silentLogger,
    info: { version: VERSION, workspace: folder, startedAt: clock.now() },
    random: () => 1,
  });
  daemon.onMessage(runtime.hear);
  const message = (toSessionKey: string) =>
    call(daemonOperations.sendAgentMessage, { content: 'Hello.', fromAgentId: 'dot', toAgentId: 'default', toSessionKey });
  const entered = new Arrivals<string>('request');
  const server = createHttpServer({
    operations: runtime.operations,
    handlers: announce(runtime.handlers, entered),
    streams: runtime.streams,
    sockets: runtime.sockets,
    security: {},
    title: 'Signet runtime',
    version: VERSION,
    log: silentLogger,
  });
  const { url } = await server.listen('127.0.0.1', 0);
  const close = async () => {
    gates.shut();
    await runtime.drain();
    await server.close();
    await toolService.close();
    await log.close();
    daemon.close();
  };
  const client = createRuntimeClient({ baseUrl: url });
  return { url, client, clock, gates, entered, answersRead, message, resume: () => runtime.resume(), close };
}

function configOf(baseUrl: string): RuntimeConfig {
  const provider = {
    kind: 'anthropic',
    apiKey: 'test',
    baseUrl,
    model: FALLBACK.model,
    models: { [FALLBACK.model]: { contextTokens: CONTEXT_TOKENS } },
  };
  const config = RuntimeConfig.parse({
    providers: { main: provider, [FALLBACK.provider]: provider },
    default: 'main',
    fallback: [FALLBACK],
    approvals: [{ tool: 'forbidden', decision: 'deny' }],
  });
  // Shorter than agent.yaml allows: the clock of the test moves in steps of its own. Budgets are of real time, and nothing is to run out of it.
  return { ...config, limits: { ...config.limits, ...LIMITS, ...PATIENCE } };
}

/** The real providers; the test is told when one has been read to its end. */
function watchedProviders(config: RuntimeConfig, answersRead: Arrivals<true>) {
  const registry = createConfiguredProviders(config, {});
  for (const id of ['main', FALLBACK.provider]) {
    const provider = registry.get(id);
    async function* stream(...request: Parameters<Provider['stream']>): AsyncGenerator<CompletionChunk> {
      try {
        yield* provider.stream(...request);
      } finally {
        answersRead.push(true);
      }
    }
    registry.register(withMethods(provider, { stream }), { origin: 'test', default: id === 'main' });
  }
  return registry;
}

/** The same handlers; the test is told which one was called. */
function announce<T extends object>(handlers: T, entered: Arrivals<string>): T {
  const told = Object.entries(handlers).map(([id, handler]) => [
    id,
    (...request: unknown[]) => {
      const answer = (handler as (...request: unknown[]) => unknown)(...request);
      entered.push(id);
      return answer;
    },
  ]);
  return Object.fromEntries(told) as T;
}
