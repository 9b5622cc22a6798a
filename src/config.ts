import { homedir } from 'node:os';
import { resolve } from 'node:path';
import type { AgentYaml } from './contract/config.ts';
import { AppError } from './core/errors.ts';
import { type LoadedAgentYaml, readAgentYaml } from './daemon/agent-yaml.ts';

export const DAEMON_PORT = 3850;
export const RUNTIME_PORT = 7700;
const HOST = '127.0.0.1';
const PORT_MAX = 65_535;
const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export type Environment = Readonly<Record<string, string | undefined>>;

/** Everything a start depends on. The environment wins over agent.yaml, which wins over the defaults; flags are in the environment already. */
export interface Settings {
  /** Absolute path of the workspace. */
  readonly folder: string;
  readonly host: string;
  readonly port: number;
  readonly runtimePort: number;
  readonly logLevel: LogLevel;
  readonly loaded: LoadedAgentYaml;
  readonly env: Environment;
}

/** @throws AppError `config_invalid` naming the variable, or file, line and column */
export function resolveSettings(env: Environment): Settings {
  const folder = resolve(set(env.SIGNET_PATH) ?? `${homedir()}/.agents`);
  const loaded = readAgentYaml(folder);
  const { daemon, runtime } = loaded.config;
  return {
    folder,
    host: loopbackName(set(env.SIGNET_HOST) ?? daemon.host ?? HOST),
    port: port('SIGNET_PORT', env.SIGNET_PORT) ?? daemon.port ?? DAEMON_PORT,
    runtimePort: port('SIGNET_RUNTIME_PORT', env.SIGNET_RUNTIME_PORT) ?? runtime.port ?? RUNTIME_PORT,
    logLevel: logLevel(env.SIGNET_LOG_LEVEL, loaded.config),
    loaded,
    env,
  };
}

/** `localhost` may mean ::1 or 127.0.0.1; clients are told one address, so one is taken. */
function loopbackName(host: string): string {
  return host === 'localhost' ? HOST : host;
}

function port(name: string, value: string | undefined): number | undefined {
  const text = set(value);
  if (text === undefined) return undefined;
  const number = Number(text);
  if (Number.isInteger(number) && number >= 0 && number <= PORT_MAX) return number;
  throw new AppError('config_invalid', { detail: `${name} is "${text}"; give a port from 0 to ${PORT_MAX}, where 0 takes any free one` });
}

function logLevel(value: string | undefined, config: AgentYaml): LogLevel {
  const level = set(value) ?? config.daemon.logLevel ?? 'info';
  const known = LOG_LEVELS.find((name) => name === level);
  if (known) return known;
  throw new AppError('config_invalid', { detail: `SIGNET_LOG_LEVEL is "${level}"; give one of ${LOG_LEVELS.join(', ')}` });
}

/** An empty variable counts as not set. */
function set(value: string | undefined): string | undefined {
  return value === undefined || value.trim() === '' ? undefined : value.trim();
}
