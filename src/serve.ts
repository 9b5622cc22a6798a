import { setFlagsFromString } from 'node:v8';
import { start } from './compose.ts';
import { type Environment, resolveSettings, type Settings } from './config.ts';
import { AppError } from './core/errors.ts';
import type { LeveledLogger } from './core/logger.ts';
import { createLogger } from './log.ts';
import { openServers } from './open-servers.ts';
import { collectWhenQuiet } from './quiet-collector.ts';
import { surviveFaults } from './uncaught-faults.ts';

/** Signals that end the daemon in order. A second one ends it at once. */
const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** One Ctrl-C may arrive twice: the terminal tells the whole group, and npm tells its child once more; unit: milliseconds. */
const SAME_PRESS_MS = 1_000;
const EXIT_FORCED = 130;
const EXIT_FENCED = 1;
/** When everything is closed, what still keeps the process is cut off after this; unit: milliseconds. */
const EXIT_GRACE_MS = 1_000;
/**
 * V8 doubles its young generation under load and keeps it: measured, 60 MiB more after a burst of a thousand sessions. A daemon that mostly waits
 * is better off with small, frequent collections.
 */
const YOUNG_HEAP_FLAG = '--semi-space-growth-factor=1';

/**
 * Runs daemon and runtime in the foreground until a signal stops them. Resolves when all is closed; what still keeps the process then is cut off.
 *
 * @throws what `start` throws; AppError `internal` after too many faults that nobody caught. Ends the process when another daemon took the workspace.
 */
export async function serve(env: Environment, print: (text: string) => void): Promise<void> {
  setFlagsFromString(YOUNG_HEAP_FLAG);
  // A full disk or a reader that has gone must not end the daemon.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  const settings = resolveSettings(env);
  const logger = createLogger(settings.logLevel);
  const stop = Promise.withResolvers<StopReason>();
  listenForSignals((signal) => stop.resolve({ text: signal }));
  surviveFaults(logger, (text) => stop.resolve({ text, fault: new AppError('internal', { detail: text }) }));
  const running = await start(settings, logger);
  const stopCollecting = collectWhenQuiet(logger);
  print(banner(running, settings));
  process.send?.('ready');
  running.resumed.then((count) => count > 0 && logger.info({ sessions: count }, 'sessions go on where the last run left them'));
  running.fenced.then((error) => endFenced(logger, error));
  const { text, fault } = await stop.promise;
  print(`\n${text}: draining, running turns get up to ${settings.loaded.config.runtime.limits.drainTimeoutMs / 1_000} s\n`);
  stopCollecting();
  const { interrupted } = await running.close();
  print(
    interrupted > 0
      ? `stopped; ${interrupted === 1 ? '1 session goes' : `${interrupted} sessions go`} on at the next start\n`
      : 'stopped\n',
  );
  letGo();
  if (fault) throw fault;
}

interface StopReason {
  readonly text: string;
  /** Why it ends by itself; undefined when it was told to. */
  readonly fault?: AppError;
}

function listenForSignals(stop: (signal: string) => void): void {
  let pressedAt: number | undefined;
  // One listener for all of them, never taken off: between two a signal would end the process as if nobody listened.
  const onSignal = (signal: string) => {
    if (pressedAt !== undefined && performance.now() - pressedAt > SAME_PRESS_MS) process.exit(EXIT_FORCED);
    pressedAt ??= performance.now();
    stop(signal);
  };
  for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
}

/** The channel of a process manager (pm2) would keep the process; so would whatever else was not closed. */
function letGo(): void {
  if (process.connected) process.disconnect();
  setTimeout(() => process.exit(), EXIT_GRACE_MS).unref();
}

/** At once, as by kill -9: closing would write into files that are another daemon's now. Nothing acknowledged is lost. */
function endFenced(logger: LeveledLogger, error: AppError): never {
  logger.error({ err: error }, 'this daemon lost its workspace');
  process.stderr.write(`signet: ${error.code}: ${error.detail}\n`);
  process.exit(EXIT_FENCED);
}

function banner(running: Awaited<ReturnType<typeof start>>, { tls, authMode, role }: Settings): string {
  const { daemon, runtime, provider, folder } = running;
  // A daemon elsewhere is not ours.
  const open = role === 'runtime' ? openServers({ daemon: runtime, runtime }).slice(1) : openServers(running);
  const safety = tls ? 'with TLS' : 'IN CLEAR: set server.tls, or put a TLS proxy in front';
  const answers = provider.offlineDemo
    ? `${provider.id} (offline, no API key is set: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or runtime.providers in agent.yaml)`
    : `${provider.id}, model ${provider.model} (from ${provider.origin})`;
  return [
    'Signet is running.',
    `  runtime   ${runtime.url}   sessions, streams, tools`,
    `  daemon    ${daemon.url}   memory, hooks`,
    `  provider  ${answers}`,
    `  data      ${folder}`,
    ...open.map((server) => `  OPEN      other machines reach the ${server}, auth.mode ${authMode}, ${safety}`),
    '',
  ].join('\n');
}
