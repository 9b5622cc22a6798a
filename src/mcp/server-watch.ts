import { agentFileOperations } from '../contract/agent-files.ts';
import type { Logger } from '../core/logger.ts';
import type { McpServerDeps } from './server.ts';
import { createDaemonCalls, type DaemonCalls, type McpCaller } from './server-caller.ts';
import { resourceUri } from './server-resources.ts';

/** A message of the server to its client that wants no answer. */
export interface Notice {
  readonly method: 'notifications/resources/list_changed' | 'notifications/resources/updated';
  readonly params?: { readonly uri: string };
}

export interface ResourceWatch {
  /** @returns function that ends it */
  add(caller: McpCaller, listener: (notice: Notice) => void): () => void;
  /** Look now, instead of at the next beat. */
  look(): Promise<void>;
}

interface Watched {
  readonly daemon: DaemonCalls;
  readonly stop: AbortController;
  readonly listeners: Set<(notice: Notice) => void>;
  /** Hash by resource; undefined until the first look. */
  seen: ReadonlyMap<string, string> | undefined;
}

/**
 * Tells of changes of an agent's resources. It looks at them again and again, once for all listeners of an agent and only while there are
 * some: a look asks the state of six files. File system events would come sooner, but not over HTTP, and not on every file system.
 */
export function createResourceWatch({ call, log }: Pick<McpServerDeps, 'call' | 'log'>, everyMs: number): ResourceWatch {
  const watched = new Map<string, Watched>();
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;
  const look = (): Promise<void> => {
    looking ??= Promise.all([...watched.values()].map((each) => lookAt(each, log)))
      .then(() => undefined)
      .finally(() => {
        looking = undefined;
      });
    return looking;
  };
  return {
    look,
    add(caller, listener) {
      const key = caller.agentId ?? '';
      let each = watched.get(key);
      if (!each) {
        const stop = new AbortController();
        each = { daemon: createDaemonCalls(call, { agentId: caller.agentId }, stop.signal), stop, listeners: new Set(), seen: undefined };
        watched.set(key, each);
        void lookAt(each, log);
      }
      const { listeners, stop } = each;
      listeners.add(listener);
      timer ??= setInterval(() => void look(), everyMs).unref();
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        watched.delete(key);
        stop.abort();
        if (watched.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
}

async function lookAt(watched: Watched, log: Logger): Promise<void> {
  try {
    const { agentId, files } = await watched.daemon.call(agentFileOperations.identityFiles, { content: false });
    const now = new Map(files.map(({ name, hash }) => [resourceUri(agentId, name), hash]));
    const before = watched.seen;
    watched.seen = now;
    if (!before) return;
    const tell = (notice: Notice): void => {
      for (const listener of watched.listeners) listener(notice);
    };
    if ([...before.keys()].join() !== [...now.keys()].join()) tell({ method: 'notifications/resources/list_changed' });
    for (const [uri, hash] of now) {
      if (before.has(uri) && before.get(uri) !== hash) tell({ method: 'notifications/resources/updated', params: { uri } });
    }
  } catch (error) {
    // The next look asks again; that the daemon is away is told by whoever is used.
    if (!watched.stop.signal.aborted) log.debug({ err: error }, 'the resources of an agent could not be looked at');
  }
}
