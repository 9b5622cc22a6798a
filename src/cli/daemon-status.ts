import { daemonOperations } from '../contract/daemon.ts';
import type { BackgroundBudget } from '../contract/usage.ts';
import { isAppError } from '../core/errors.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { daemonAt } from './daemon-api.ts';
import { identityByCommand } from './daemon-stop.ts';
import { createStyle, formatDuration, type Style } from './terminal.ts';
import { plainText, safeJson } from './terminal-text.ts';
import { budgetLine } from './usage-command.ts';
import { type AddressFlags, clientAt, daemonUrlOfInfo, findDaemon, findRuntime, workspaceFolder } from './workspace.ts';

/** Deadline of each question, in ms: a status that hangs is no status. */
const STATUS_TIMEOUT_MS = 3_000;

export interface StatusProvider {
  readonly id: string;
  readonly model: string;
  readonly origin: string;
  readonly offlineDemo: boolean;
}

export interface Status {
  readonly running: boolean;
  /** The process of `pid` is there, yet its runtime does not answer: it hangs, is stopped, or still starts. */
  readonly unanswered: boolean;
  readonly workspace: string;
  readonly runtimeUrl: string | null;
  readonly daemonUrl: string | null;
  readonly pid: number | null;
  readonly version: string | null;
  readonly uptimeMs: number | null;
  readonly health: string | null;
  /** Why it is degraded, of the runtime and of its daemon. */
  readonly reasons: readonly string[];
  readonly daemonReachable: boolean | null;
  readonly provider: StatusProvider | null;
  readonly sessions: { readonly alive: number; readonly byState: Readonly<Record<string, number>> } | null;
  /** What is wrong with agent.yaml as it stands; null when the daemon does not say. */
  readonly configProblems: readonly string[] | null;
  /** The daily budget of background jobs; null when the daemon does not say. */
  readonly background: BackgroundBudget | null;
  readonly problem: string | null;
}

/** Ask the runtime how it is. Never throws for one that does not answer: `running` and `problem` tell. */
export async function readStatus(context: CliContext, flags: AddressFlags): Promise<Status> {
  const workspace = workspaceFolder(context, flags.path);
  const daemon = findDaemon(workspace);
  const address = findRuntime(context, flags);
  const known = {
    workspace,
    runtimeUrl: address?.url ?? null,
    daemonUrl: daemon && daemonUrlOfInfo(daemon),
    pid: daemon?.pid ?? null,
    version: daemon?.version ?? null,
  };
  const unanswered = daemon !== null && !address?.given && identityByCommand(daemon.pid) !== 'foreign';
  const nothing = {
    running: false,
    unanswered,
    ...known,
    uptimeMs: null,
    health: null,
    reasons: [],
    daemonReachable: null,
    provider: null,
    sessions: null,
    configProblems: null,
    background: null,
  };
  if (!address) return { ...nothing, problem: null };
  const client = clientAt(context, address.url, flags.path);
  try {
    const health = await client.health({ timeoutMs: STATUS_TIMEOUT_MS });
    const info = await client.info({ timeoutMs: STATUS_TIMEOUT_MS });
    const daemonReasons = await readDaemonReasons(context, info.daemonUrl, flags.path);
    return {
      running: true,
      unanswered: false,
      workspace: info.workspace,
      runtimeUrl: client.baseUrl,
      daemonUrl: info.daemonUrl,
      pid: health.pid,
      version: health.version,
      uptimeMs: health.uptimeMs,
      health: health.status === 'healthy' && daemonReasons.length > 0 ? 'degraded' : health.status,
      // A daemon of an earlier version gives no reasons.
      reasons: [...new Set([...(health.reasons ?? []), ...daemonReasons])],
      daemonReachable: health.daemon.reachable,
      provider: info.provider,
      sessions: health.sessions,
      ...(await readDaemon(context, { url: info.daemonUrl, pid: health.pid, path: flags.path })),
      problem: null,
    };
  } catch (error) {
    if (!isAppError(error)) throw error;
    return { ...nothing, problem: daemon || address.given ? error.detail : null };
  }
}

interface DaemonPlace {
  /** As the runtime reaches it: seen from another machine this may be another daemon. */
  readonly url: string;
  readonly pid: number;
  readonly path: string | undefined;
}

/** Why the daemon is degraded: memories may be damaged while sessions are well. A daemon that does not answer is told elsewhere. */
async function readDaemonReasons(context: CliContext, url: string, path: string | undefined): Promise<readonly string[]> {
  try {
    const health = await daemonAt(context, url, path).call(daemonOperations.daemonHealth, {}, { timeoutMs: STATUS_TIMEOUT_MS });
    return health.status === 'degraded' ? health.reasons : [];
  } catch (error) {
    if (!isAppError(error)) throw error;
    return [];
  }
}

async function readDaemon(context: CliContext, { url, pid, path }: DaemonPlace): Promise<Pick<Status, 'configProblems' | 'background'>> {
  const nothing = { configProblems: null, background: null };
  try {
    const daemon = daemonAt(context, url, path);
    const status = await daemon.call(daemonOperations.daemonStatus, {}, { timeoutMs: STATUS_TIMEOUT_MS });
    return status.pid === pid ? { configProblems: status.config.problems, background: status.background ?? null } : nothing;
  } catch (error) {
    if (!isAppError(error)) throw error;
    return nothing;
  }
}

/** Print the state; exit code 1 when nothing runs, as service managers expect, and 4 when what runs does not answer. */
export async function showStatus(context: CliContext, flags: AddressFlags & { readonly json?: boolean }): Promise<void> {
  const status = await readStatus(context, flags);
  context.stdout.write(flags.json ? `${safeJson(status, 2)}\n` : formatStatus(status, createStyle(context.stdout, context.env)));
  if (!status.running) throw new CliExit(status.unanswered ? EXIT.unanswered : EXIT.failure);
}

export function formatStatus(status: Status, style: Style): string {
  if (!status.running && status.unanswered) {
    const lines = [`${style.yellow('●')} Signet runs as pid ${status.pid} on ${status.workspace} but does not answer`];
    if (status.problem) lines.push(`  ${plainText(status.problem)}`);
    return `${[...lines, '  End it with: signet stop --force', '  What it wrote last: signet logs'].join('\n')}\n`;
  }
  if (!status.running) {
    const lines = [`${style.red('○')} Signet is not running on ${status.workspace}`];
    if (status.problem) lines.push(`  ${plainText(status.problem)}`);
    return `${[...lines, '  Start it with: signet start'].join('\n')}\n`;
  }
  const light = status.health === 'healthy' ? style.green('●') : style.yellow('●');
  return `${[
    `${light} Signet ${status.version} is ${status.health}, pid ${status.pid}, up ${formatDuration(status.uptimeMs ?? 0)}`,
    ...status.reasons.map((reason) => `  ${style.yellow(plainText(reason))}`),
    `  runtime   ${status.runtimeUrl}`,
    `  daemon    ${status.daemonUrl}${status.daemonReachable ? '' : style.red('  does not answer')}`,
    `  provider  ${status.provider ? plainText(formatProvider(status.provider)) : 'unknown'}`,
    `  sessions  ${formatSessionCounts(status.sessions)}`,
    `  data      ${plainText(status.workspace)}`,
    ...(status.background?.met ? [`  ${style.yellow(budgetLine(status.background))}`] : []),
    ...configLines(status.configProblems ?? [], style),
  ].join('\n')}\n`;
}

function configLines(problems: readonly string[], style: Style): string[] {
  return problems.flatMap((text) => text.split('\n')).map((line) => `  config    ${style.yellow(plainText(line))}`);
}

/** Which provider answers when a session names none; the demo has one model, of its own name. */
export function formatProvider({ id, model, origin, offlineDemo }: StatusProvider): string {
  return offlineDemo ? `${id} (offline)` : `${id}, ${model || 'no model'} (${origin})`;
}

/** Two counts: the sessions with an actor, and all that the log holds, those that have ended last. */
function formatSessionCounts(sessions: Status['sessions']): string {
  const states = Object.entries(sessions?.byState ?? {}).filter(([, count]) => count > 0);
  states.sort(([a], [b]) => Number(a === 'ended') - Number(b === 'ended'));
  const stored = states.map(([state, count]) => `${count} ${state}`).join(', ');
  return `${sessions?.alive ?? 0} in memory${stored ? `; stored: ${stored}` : ''}`;
}
