import { existsSync, type FSWatcher, watch } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from '../../core/logger.ts';
import { AGENTS, type AgentWatcher, type WatchOptions, watchAgents } from './agent-watcher.ts';

/** The look at the files that comes and goes with the agents. */
export interface Watch {
  /** Resolves when every change from now on is noticed. */
  begin(): Promise<void>;
  /** Let go of the files; `begin` looks at those that are of interest then. */
  drop(): void;
  close(): Promise<void>;
}

/** @param options.came  called when there may be a first agent: begin again */
export function createWatch(options: WatchOptions & { readonly came: () => void }): Watch {
  const { folder, log, names, came } = options;
  let watcher: Promise<AgentWatcher> | undefined;
  let unwatch: (() => void) | undefined;
  let isClosed = false;
  const drop = async (): Promise<void> => {
    const old = watcher;
    watcher = undefined;
    await old?.then((each) => each.close()).catch(() => undefined); // It failed when it was begun, and said so.
  };
  return {
    begin: async () => {
      if (isClosed) return;
      if (watcher === undefined && (names().length > 0 || existsSync(join(folder, AGENTS)))) {
        unwatch?.();
        unwatch = undefined;
        watcher = watchAgents(options);
      }
      if (watcher === undefined) unwatch ??= awaitFirstAgent(folder, log, came);
      await (await watcher)?.ready;
    },
    drop: () => void drop(),
    close: async () => {
      isClosed = true;
      unwatch?.();
      await drop();
    },
  };
}

/** Without agents nothing is to be watched but whether the first one comes. @returns function that ends it */
function awaitFirstAgent(folder: string, log: Logger, came: () => void): () => void {
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(folder, { persistent: false }, (_event, name) => {
      if (name === AGENTS || name === null) came();
    });
    watcher.on('error', (err) => log.warn({ category: 'agents', folder, err }, 'a first agent will be noticed at the next start'));
  } catch (err) {
    log.warn({ category: 'agents', folder, err }, 'a first agent will be noticed at the next start');
  }
  return () => watcher?.close();
}
