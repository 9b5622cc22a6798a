import type { OutputOf } from '../contract/operation.ts';
import { hasLogin } from '../contract/plain-url.ts';
import type { CallbackTool, McpServer, ToolInfo, ToolRegistration, toolOperations } from '../contract/tool.ts';
import { untilAborted } from '../core/deadline.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { redactKeys } from '../core/log-redaction.ts';
import type { Logger } from '../core/logger.ts';
import type { ConnectMcp } from '../core/mcp-connection.ts';
import type { ToolContext } from '../core/tool.ts';
import type { ToolRegistrationStore } from '../core/tool-store.ts';
import { requireCallbackHost } from './callback-host.ts';
import { createCallbackTool } from './callback-tool.ts';
import { createServerLink, type ServerLink } from './server-link.ts';
import type { ToolRegistry } from './tool-registry.ts';

/** Most MCP servers at once; each may be a process. */
export const MCP_SERVERS_MAX = 64;

export interface ToolServiceDeps {
  /** Holds the built-in tools already. */
  readonly registry: ToolRegistry;
  readonly store: ToolRegistrationStore;
  readonly connectMcp: ConnectMcp;
  /** Host names besides loopback that callbacks may live on. */
  readonly allowedHosts: readonly string[];
  readonly log: Logger;
  /** First wait in ms before a server that was away at the start is tried again. */
  readonly retryMs?: number;
}

type CallAnswer = OutputOf<typeof toolOperations.callTool>;

/** Tools that come and go while the program runs. Behind the operations listTools, registerTool, callTool and unregisterTool. */
export interface ToolService {
  /** @param agent  leaves out the tools that are not for it */
  list(agent?: string): ToolInfo[];
  /** Can a tool of this name turn up without anybody registering it? Those of a server come when it answers, and may change. */
  mayCome(name: string): boolean;
  /**
   * Resolves when a tool of this name is there, or nothing can bring it any more: no server that has not answered yet could have it.
   *
   * @throws `signal.reason`
   */
  arrival(name: string, signal: AbortSignal): Promise<void>;
  /** May a server that has not answered since this process began have a tool of this name? */
  isAwaited(name: string): boolean;
  /** Resolves when each server that may have one of these tools was tried once. @throws `signal.reason` */
  attempted(names: readonly string[], signal: AbortSignal): Promise<void>;
  /**
   * Register and store. Nothing remains of a registration that fails.
   *
   * @returns the tools that are new, sorted by name
   * @throws AppError `tool_exists`, `invalid_request`, `tool_failed` or `timeout` (an MCP server that does not answer), `overloaded`,
   *   `draining` after close, and what the store throws
   */
  register(registration: ToolRegistration): Promise<ToolInfo[]>;
  /**
   * Remove and forget a callback tool, or an MCP server with all its tools.
   *
   * @returns the tools that are gone, sorted
   * @throws AppError `tool_not_found`; `invalid_request` for a built-in tool, a configured server or a single tool of a server
   */
  unregister(name: string): Promise<string[]>;
  /** Run one tool as a model would. @throws AppError `tool_not_found`; any other failure is an answer with `isError` */
  call(name: string, input: unknown, context: ToolContext, timeoutMs?: number): Promise<CallAnswer>;
  /**
   * At the start: stored tools come back, servers of the configuration are added. Does not wait for servers: they are tried in the
   * background until they answer, and the log says so. A stored tool was accepted once and is so now; one whose name is taken by the
   * configuration, or by a tool of this program, is left out with a warning and stays stored.
   *
   * @throws AppError what the store throws
   */
  restore(configured?: readonly McpServer[]): Promise<void>;
  /** Ends all servers; their tools are gone from the registry, not from the store. May be called again. Never throws. */
  close(): Promise<void>;
}

export function createToolService(deps: ToolServiceDeps): ToolService {
  return new RegisteredTools(deps);
}

/** What runs under a name that was registered or configured. */
interface Live {
  readonly isConfigured: boolean;
  toolNames(): string[];
  /** Present for MCP servers. */
  readonly link?: ServerLink;
}

class RegisteredTools implements ToolService {
  readonly #deps: ToolServiceDeps;
  /** What the store holds, by the name that unregister takes. */
  readonly #stored = new Map<string, ToolRegistration>();
  readonly #live = new Map<string, Live>();
  #saving: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(deps: ToolServiceDeps) {
    this.#deps = deps;
  }

  list(agent?: string): ToolInfo[] {
    return this.#deps.registry.list(agent);
  }

  mayCome(name: string): boolean {
    return [...this.#live].some(([server, { link }]) => link !== undefined && name.startsWith(`${server}_`));
  }

  isAwaited(name: string): boolean {
    return !this.#deps.registry.get(name) && this.#late(name).length > 0;
  }

  async arrival(name: string, signal: AbortSignal): Promise<void> {
    while (this.isAwaited(name)) await untilAborted(Promise.race(this.#late(name).map(({ connected }) => connected)), signal);
  }

  async attempted(names: readonly string[], signal: AbortSignal): Promise<void> {
    const late = names.filter((name) => this.isAwaited(name)).flatMap((name) => this.#late(name));
    await untilAborted(Promise.all([...new Set(late)].map(({ tried }) => tried)), signal);
  }

  /** Servers that are registered, have not answered yet, and name their tools so. */
  #late(name: string): ServerLink[] {
    return [...this.#live].flatMap(([server, { link }]) => (link && !link.hasConnected && name.startsWith(`${server}_`) ? [link] : []));
  }

  async register(registration: ToolRegistration): Promise<ToolInfo[]> {
    const name = nameOf(registration);
    if ('mcpServer' in registration) requirePlainUrl(registration);
    else await requireCallbackHost(new URL(registration.callback.url), this.#deps.allowedHosts);
    this.#requireFree(name);
    try {
      if ('mcpServer' in registration) await this.#addServer(registration, false).open();
      else this.#addCallback(registration);
      this.#stored.set(name, registration);
      await this.#save();
    } catch (error) {
      this.#stored.delete(name);
      await this.#remove(name);
      throw error;
    }
    const names = this.#live.get(name)?.toolNames() ?? [];
    this.#deps.log.info({ name, tools: names.length }, 'tools registered');
    return this.list().filter((tool) => names.includes(tool.name));
  }

  async unregister(name: string): Promise<string[]> {
    const registration = this.#stored.get(name);
    if (!registration) throw notRemovable(name, this.#deps.registry, this.#live.has(name));
    this.#stored.delete(name);
    try {
      await this.#save();
    } catch (error) {
      this.#stored.set(name, registration);
      throw error;
    }
    const names = await this.#remove(name);
    this.#deps.log.info({ name, tools: names.length }, 'tools removed');
    return names;
  }

  async call(name: string, input: unknown, context: ToolContext, timeoutMs?: number): Promise<CallAnswer> {
    const { registry } = this.#deps;
    if (!registry.get(name)) throw new AppError('tool_not_found', { detail: `no tool named ${name} is registered` });
    const { value, isError, error, durationMs, output } = await registry.run(name, input, context, { timeoutMs });
    return { name, output: isError ? output : value, isError, ...(error ? { error: { ...error } } : {}), durationMs };
  }

  async restore(configured: readonly McpServer[] = []): Promise<void> {
    for (const config of configured) this.#addServer(config, true).keepTrying();
    for (const registration of await this.#deps.store.load()) this.#bringBack(registration);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#saving, ...[...this.#live.values()].map(({ link }) => link?.close())]);
  }

  #bringBack(registration: ToolRegistration): void {
    const name = nameOf(registration);
    try {
      this.#requireFree(name);
      if ('mcpServer' in registration) this.#addServer(registration, false).keepTrying();
      else this.#addCallback(registration, 'accepted');
    } catch (error) {
      if (!isAppError(error)) throw error;
      this.#deps.log.warn({ name, reason: error.detail }, 'a stored tool could not come back and is left out');
    }
    this.#stored.set(name, registration);
  }

  #addCallback(tool: CallbackTool, past?: 'accepted'): void {
    const { origin, pathname } = new URL(tool.callback.url);
    this.#deps.registry.register(createCallbackTool(tool, this.#deps), { callback: redactKeys(`${origin}${pathname}`) }, past);
    this.#live.set(tool.name, { isConfigured: false, toolNames: () => [tool.name] });
  }

  #addServer(config: McpServer, isConfigured: boolean): ServerLink {
    const servers = [...this.#live.values()].filter(({ link }) => link).length;
    if (servers >= MCP_SERVERS_MAX) {
      throw new AppError('overloaded', { detail: `${MCP_SERVERS_MAX} MCP servers are registered; remove one first` });
    }
    const link = createServerLink(this.#deps, config);
    this.#live.set(config.mcpServer, { isConfigured, toolNames: () => link.toolNames(), link });
    return link;
  }

  /** Of what was registered only: a stored name may have been left out because the configuration took it. */
  async #remove(name: string): Promise<string[]> {
    const entry = this.#live.get(name);
    if (!entry || entry.isConfigured) return [];
    this.#live.delete(name);
    const names = entry.toolNames();
    for (const tool of names) this.#deps.registry.unregister(tool);
    await entry.link?.close();
    return names;
  }

  #requireFree(name: string): void {
    if (this.#isClosed) throw new AppError('draining', { detail: 'no tools are registered any more: the server is shutting down' });
    if (!this.#deps.registry.get(name) && !this.#live.has(name) && !this.#stored.has(name)) return;
    throw new AppError('tool_exists', { detail: `${name} is registered already; remove it first, or choose another name` });
  }

  /** One after the other, so that the newest list is the one that stays. */
  #save(): Promise<void> {
    const done = this.#saving.then(() => this.#deps.store.save([...this.#stored.values()]));
    this.#saving = done.catch(() => undefined); // The caller of the failed save hears of it; the next one tries anew.
    return done;
  }
}

/** @throws AppError `invalid_request` */
function requirePlainUrl({ url }: McpServer): void {
  if (url === undefined || !hasLogin(url)) return;
  const detail =
    'url must not hold a user or password: keep them as a secret (signet secret set), and give the server its key by env or its own login';
  throw new AppError('invalid_request', { detail, errors: [{ pointer: '/url', detail }] });
}

function nameOf(registration: ToolRegistration): string {
  return 'mcpServer' in registration ? registration.mcpServer : registration.name;
}

function notRemovable(name: string, registry: ToolRegistry, isLive: boolean): AppError {
  const info = registry.list().find((tool) => tool.name === name);
  if (isLive)
    return new AppError('invalid_request', {
      detail: `${name} is still being registered, or stands in the configuration: remove it there`,
    });
  if (!info) return new AppError('tool_not_found', { detail: `no tool or MCP server named ${name} is registered` });
  const detail = info.mcpServer
    ? `${name} is a tool of MCP server ${info.mcpServer}; remove the server`
    : `${name} was not registered over the API and cannot be removed`;
  return new AppError('invalid_request', { detail });
}
