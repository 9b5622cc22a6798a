import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { AuthMode } from './contract/auth-config.ts';
import type { AgentYaml } from './contract/config.ts';
import { isLoopbackName } from './contract/loopback.ts';
import { type RecordingConfig, RecordingMode } from './contract/recording.ts';
import { AppError } from './core/errors.ts';
import { type LoadedAgentYaml, readAgentYaml } from './daemon/agent-yaml.ts';

export const DAEMON_PORT = 3850;
export const RUNTIME_PORT = 7700;
/** What a process is: daemon and runtime together, or the runtime alone beside a daemon elsewhere. */
const ROLES = ['all', 'runtime'] as const;
export type Role = (typeof ROLES)[number];
const HOST = '127.0.0.1';
const PORT_MAX = 65_535;
/** When neither the environment nor agent.yaml says one. */
export const LOG_LEVEL = 'info';
const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export type Environment = Readonly<Record<string, string | undefined>>;

/** Everything a start depends on. The environment wins over agent.yaml, which wins over the defaults; flags are in the environment already. */
export interface Settings {
  /** Absolute path of the workspace. */
  readonly folder: string;
  /** Of the daemon. */
  readonly host: string;
  /** Of the runtime: loopback unless a key of its own says otherwise. */
  readonly runtimeHost: string;
  /** Both servers speak HTTPS with it; null for plain HTTP. Paths are absolute. */
  readonly tls: { readonly cert: string; readonly key: string; readonly name?: string } | null;
  /** Both servers also answer at Unix domain sockets of the workspace. */
  readonly socket: boolean;
  readonly port: number;
  readonly runtimePort: number;
  readonly role: Role;
  /** Address of the daemon, without a slash at its end; read by the role `runtime` only. */
  readonly daemonUrl: string;
  readonly logLevel: LogLevel;
  readonly authMode: AuthMode;
  /** An absolute path when there is one; every mode but live has one. */
  readonly recording: RecordingConfig;
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
    runtimeHost: runtimeHost(set(env.SIGNET_RUNTIME_HOST) ?? runtime.host, set(env.SIGNET_HOST) ?? daemon.host),
    tls: tlsFiles(folder, loaded.config),
    socket: flag('SIGNET_SOCKET', env.SIGNET_SOCKET) ?? daemon.socket,
    port: port('SIGNET_PORT', env.SIGNET_PORT) ?? daemon.port ?? DAEMON_PORT,
    runtimePort: port('SIGNET_RUNTIME_PORT', env.SIGNET_RUNTIME_PORT) ?? runtime.port ?? RUNTIME_PORT,
    role: role(env.SIGNET_ROLE),
    daemonUrl: daemonUrl(env.SIGNET_DAEMON_URL),
    logLevel: logLevel(env.SIGNET_LOG_LEVEL, loaded.config),
    authMode: authMode(env.SIGNET_AUTH_MODE, loaded.config),
    recording: recording(env, folder, loaded.config),
    loaded,
    env,
  };
}

/** The runtime runs tools and spends money, so an address for the daemon does not open it too. @source docs/decisions/0015-the-runtime-stays-on-loopback.md */
function runtimeHost(own: string | undefined, daemon: string | undefined): string {
  if (own !== undefined) return loopbackName(own);
  return daemon !== undefined && isLoopbackName(daemon) ? loopbackName(daemon) : HOST;
}

function tlsFiles(folder: string, { server: { tls } }: AgentYaml): Settings['tls'] {
  if (!tls) return null;
  const { name } = tls;
  return { cert: resolve(folder, tls.cert), key: resolve(folder, tls.key), ...(name === undefined ? {} : { name }) };
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

function flag(name: string, value: string | undefined): boolean | undefined {
  const text = set(value);
  if (text === undefined) return undefined;
  if (text === '1' || text === 'true') return true;
  if (text === '0' || text === 'false') return false;
  throw new AppError('config_invalid', { detail: `${name} is "${text}"; give 1 or 0` });
}

function role(value: string | undefined): Role {
  const text = set(value) ?? 'all';
  const known = ROLES.find((name) => name === text);
  if (known) return known;
  throw new AppError('config_invalid', { detail: `SIGNET_ROLE is "${text}"; give one of ${ROLES.join(', ')}` });
}

function daemonUrl(value: string | undefined): string {
  const text = set(value) ?? `http://${HOST}:${DAEMON_PORT}`;
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol)) return text.replace(/\/+$/, '');
  throw new AppError('config_invalid', { detail: `SIGNET_DAEMON_URL is "${text}"; give an address such as http://${HOST}:${DAEMON_PORT}` });
}

function logLevel(value: string | undefined, config: AgentYaml): LogLevel {
  const level = set(value) ?? config.daemon.logLevel ?? LOG_LEVEL;
  const known = LOG_LEVELS.find((name) => name === level);
  if (known) return known;
  throw new AppError('config_invalid', { detail: `SIGNET_LOG_LEVEL is "${level}"; give one of ${LOG_LEVELS.join(', ')}` });
}

function authMode(value: string | undefined, config: AgentYaml): AuthMode {
  const mode = set(value) ?? config.auth.mode;
  const known = AuthMode.options.find((name) => name === mode);
  if (known) return known;
  throw new AppError('config_invalid', { detail: `SIGNET_AUTH_MODE is "${mode}"; give one of ${AuthMode.options.join(', ')}` });
}

function recording(env: Environment, folder: string, { signals }: AgentYaml): RecordingConfig {
  const mode = recordingMode(env) ?? signals.recording.mode;
  const path = set(env.SIGNALS_RECORDING) ?? signals.recording.path;
  if (mode !== 'live' && path === undefined) {
    const fix = 'name the file with SIGNALS_RECORDING, or signals.recording.path in agent.yaml';
    throw new AppError('config_invalid', { detail: `the mode of recording is "${mode}", and no file is named; ${fix}` });
  }
  return { ...signals.recording, mode, ...(path === undefined ? {} : { path: resolve(folder, path) }) };
}

/** SIGNALS_MODE; undefined when it is not set. @throws AppError `config_invalid` */
export function recordingMode(env: Environment): RecordingMode | undefined {
  const text = set(env.SIGNALS_MODE);
  const known = RecordingMode.options.find((mode) => mode === text);
  if (known === undefined && text !== undefined) {
    throw new AppError('config_invalid', { detail: `SIGNALS_MODE is "${text}"; give one of ${RecordingMode.options.join(', ')}` });
  }
  return known;
}

/** An empty variable counts as not set. */
function set(value: string | undefined): string | undefined {
  return value === undefined || value.trim() === '' ? undefined : value.trim();
}
