import { type FSWatcher, statSync, watch } from 'node:fs';
import { join } from 'node:path';
import { isAppError } from '../core/errors.ts';
import { GENERATION_NAMES } from '../core/generation.ts';
import type { Logger } from '../core/logger.ts';
import { CONFIG_FILES, type LoadedAgentYaml, readAgentYaml } from './agent-yaml.ts';

/** Editors write a file in several steps; it is read when it has been still for this long. Unit: milliseconds. */
const STILL_MS = 100;

/** Sections that take effect at once. A change of any other key waits for a restart. */
export const RELOADED = [
  'agent',
  'agents',
  'workflows',
  'hooks',
  'crossAgent',
  'memory',
  'daemon.logLevel',
  'runtime.approvals',
  'runtime.approvalExpiry',
  'runtime.spawn.agents',
  'runtime.secretTools.agents',
  'runtime.toolClasses',
  ...GENERATION_NAMES.flatMap((name) => [`runtime.${name}`, `runtime.providers.*.${name}`]),
  'runtime.providers.*.models.*',
];

/** All that is wrong with agent.yaml as it stands, why it is not taken among it. */
export function problemsOf({ fault, read }: Pick<LiveConfig, 'fault' | 'read'>): string[] {
  return [...(fault === null ? [] : [fault]), ...read.problems];
}

/** The configuration in force. `loaded.config` is one object for as long as the process runs: what is reloaded is written into it. */
export interface LiveConfig {
  readonly loaded: LoadedAgentYaml;
  /** Of the file as it was read last. */
  readonly read: Pick<LoadedAgentYaml, 'file' | 'problems'>;
  /** Dotted keys that differ in the file and wait for a restart. */
  readonly waiting: readonly string[];
  /** Why the file as it stands is not taken; null when it is. The last good one stays in force. */
  readonly fault: string | null;
  /** Read the file now. */
  reload(): void;
  /** While something is wrong, read it again: another file it names may be right by now. A changed agent.yaml itself is left to `watch`. */
  look(): void;
  /** Called with the keys that took effect. */
  onChange(listener: (keys: readonly string[]) => void): void;
  /** Look at the file from now on. */
  watch(): void;
  close(): void;
}

export function createLiveConfig({ folder, loaded, log }: { folder: string; loaded: LoadedAgentYaml; log: Logger }): LiveConfig {
  const { config } = loaded;
  const listeners: ((keys: readonly string[]) => void)[] = [];
  let read: LoadedAgentYaml = loaded;
  let waiting: string[] = [];
  let fault: string | null = null;
  let unwatch: (() => void) | undefined;
  let stamp = stampOf(folder);
  const reload = (): void => {
    stamp = stampOf(folder);
    try {
      read = readAgentYaml(folder);
    } catch (error) {
      if (!isAppError(error)) throw error;
      if (fault !== error.detail)
        log.warn({ category: 'config', detail: error.detail }, 'agent.yaml is not valid; what was in force stays');
      fault = error.detail;
      return;
    }
    fault = null;
    const fresh = read.config;
    const changed = changedPaths(config, fresh);
    const paths = changed.filter(isReloaded);
    for (const path of paths) assign(config, fresh, path);
    const applied = paths.map((path) => path.join('.'));
    const told = waiting.join();
    waiting = changed.filter((path) => !isReloaded(path)).map((path) => path.join('.'));
    if (applied.length > 0) {
      log.info({ category: 'config', keys: applied }, 'the configuration has changed');
      for (const listener of listeners) listener(applied);
    }
    if (waiting.length > 0 && waiting.join() !== told)
      log.warn({ category: 'config', keys: waiting }, 'changes of the configuration wait for a restart');
  };
  return {
    loaded,
    get read() {
      return read;
    },
    get waiting() {
      return waiting;
    },
    get fault() {
      return fault;
    },
    reload,
    look() {
      if (problemsOf({ fault, read }).length > 0 && stamp === stampOf(folder)) reload();
    },
    onChange: (listener) => void listeners.push(listener),
    watch() {
      unwatch = watchFile(folder, reload, log);
    },
    close: () => unwatch?.(),
  };
}

/** Another one when a configuration file was written: what an editor is in the middle of writing must not be read. */
function stampOf(folder: string): string {
  try {
    return CONFIG_FILES.map((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs).join();
  } catch {
    return ''; // A folder that cannot be looked into: reading it says why.
  }
}

/** @returns function that ends it */
function watchFile(folder: string, changed: () => void, log: Logger): () => void {
  let timer: NodeJS.Timeout | undefined;
  let watcher: FSWatcher | undefined;
  try {
    // The folder, not the file: editors put a new file in its place.
    watcher = watch(folder, { persistent: false }, (_event, name) => {
      if (name !== null && !CONFIG_FILES.some((file) => file === name)) return;
      clearTimeout(timer);
      timer = setTimeout(changed, STILL_MS).unref();
    });
    watcher.on('error', (error) => log.warn({ category: 'config', err: error }, 'changes of agent.yaml are no longer noticed'));
  } catch (error) {
    log.warn({ category: 'config', err: error }, 'changes of agent.yaml will not be noticed');
  }
  return () => {
    clearTimeout(timer);
    watcher?.close();
  };
}

type Path = readonly string[];

/** As deep as the pattern at least: a map that was not there when the process started is held by nobody. */
function isReloaded(path: Path): boolean {
  return RELOADED.some((pattern) => {
    const parts = pattern.split('.');
    return path.length >= parts.length && parts.every((part, at) => part === '*' || part === path[at]);
  });
}

/** Paths whose values differ, as deep as both sides have maps; lists count as one value. */
function changedPaths(before: unknown, after: unknown, prefix: Path = []): Path[] {
  if (!isMap(before) || !isMap(after)) return JSON.stringify(before) === JSON.stringify(after) ? [] : [prefix];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => changedPaths(before[name], after[name], [...prefix, name]));
}

/** Write one value into the object others hold; a key that is gone is removed. */
function assign(target: object, source: object, path: Path): void {
  const last = path.at(-1)!;
  const step = (at: unknown, name: string): unknown => (at as Record<string, unknown>)[name];
  const to = path.slice(0, -1).reduce<unknown>(step, target) as Record<string, unknown>;
  const from = path.slice(0, -1).reduce<unknown>(step, source) as Record<string, unknown>;
  if (Object.hasOwn(from, last)) to[last] = from[last];
  else delete to[last];
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
