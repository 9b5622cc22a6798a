import { checkInput } from '../contract/input-check.ts';
import type { NewToken, TokenInfo } from '../contract/tokens.ts';
import { tokenOperations } from '../contract/tokens.ts';
import { VERSION } from '../contract/version.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import type { TokenBook } from '../core/token.ts';
import type { CliContext } from './context.ts';
import { type DaemonFlags, requireDaemonApi } from './daemon-api.ts';
import { formatTable } from './terminal.ts';
import { plainLine, plainText, safeJson } from './terminal-text.ts';
import { findDaemon, workspaceFolder } from './workspace.ts';

/** Of a name or a project in a line. */
const CELL_CHARS_MAX = 60;

type Flags = DaemonFlags & { readonly json?: boolean };
export type CreateFlags = Flags & Pick<NewToken, 'role' | 'agent' | 'project'> & { readonly days: number | 'never' };

export async function createToken(context: CliContext, name: string, flags: CreateFlags): Promise<void> {
  const { role, agent, project, days } = flags;
  const request = { name, role, agent, project, expiresInDays: days === 'never' ? null : days };
  const created = await withTokens(context, flags, {
    daemon: (daemon) => daemon.call(tokenOperations.createToken, request),
    files: (tokens) => {
      const checked = checkInput(tokenOperations.createToken, request);
      if (!checked.ok) throw new AppError('invalid_request', { detail: checked.detail, errors: checked.errors });
      return tokens.create(checked.value);
    },
  });
  if (flags.json) return void context.stdout.write(`${safeJson(created)}\n`);
  context.stdout.write(`${created.token}\n`);
  context.stderr.write(`${describe(created)}\nIt is not shown again. Send it as "Authorization: Bearer …", or set SIGNET_TOKEN.\n`);
}

export async function listTokens(context: CliContext, flags: Flags): Promise<void> {
  const answer = await withTokens(context, flags, {
    daemon: (daemon) => daemon.call(tokenOperations.listTokens, {}),
    files: async (tokens) => ({ tokens: await tokens.list() }),
  });
  if (flags.json) return void context.stdout.write(`${safeJson(answer)}\n`);
  if (answer.tokens.length === 0) return void context.stderr.write('No tokens.\n');
  const rows = answer.tokens.map((token) => [
    ...[token.id, token.role, token.agent ?? 'any', token.project === null ? 'any' : plainLine(token.project, CELL_CHARS_MAX)],
    ...[token.expiresAt ?? 'never', plainLine(token.name, CELL_CHARS_MAX)],
  ]);
  context.stdout.write(formatTable(['ID', 'ROLE', 'AGENT', 'PROJECT', 'EXPIRES', 'NAME'], rows));
}

export async function revokeToken(context: CliContext, id: string, flags: Flags): Promise<void> {
  const revoked = await withTokens(context, flags, {
    daemon: (daemon) => daemon.call(tokenOperations.revokeToken, { id }),
    files: async (tokens) => {
      const found = await tokens.revoke(id);
      if (found) return found;
      throw new AppError('token_not_found', { detail: `no token ${id} is valid; signet token list shows those that are` });
    },
  });
  context.stdout.write(flags.json ? `${safeJson(revoked)}\n` : `${revoked.id} (${plainLine(revoked.name, CELL_CHARS_MAX)}) is revoked.\n`);
}

interface Ways<T> {
  readonly daemon: (daemon: ReturnType<typeof requireDaemonApi>) => Promise<T>;
  readonly files: (tokens: TokenBook) => Promise<T>;
}

/** Through the daemon when one runs or an address was given; else on the files of the workspace, so that a first token can be made at all. */
async function withTokens<T>(context: CliContext, flags: Flags, { daemon, files }: Ways<T>): Promise<T> {
  const folder = workspaceFolder(context, flags.path);
  if (flags.url || context.env.SIGNET_DAEMON_URL || findDaemon(folder)) return daemon(requireDaemonApi(context, flags));
  const [{ lockWorkspace }, { createTokenStore }] = await Promise.all([
    import('../store/workspace-lock.ts'),
    import('../store/token-store.ts'),
  ]);
  const startedAt = isoTime(systemClock.now());
  const lock = lockWorkspace(folder, { pid: process.pid, version: VERSION, host: '127.0.0.1', startedAt, port: null, runtimePort: null });
  try {
    return await files(createTokenStore({ workspace: folder, clock: systemClock }));
  } finally {
    lock.release();
  }
}

function describe({ id, name, role, agent, project, expiresAt }: TokenInfo): string {
  const limits = [agent === null ? '' : ` for the agent ${agent}`, project === null ? '' : ` in ${plainText(project)}`].join('');
  return `${id} (${plainLine(name, CELL_CHARS_MAX)}): role ${role}${limits}, ${expiresAt === null ? 'does not expire' : `valid until ${expiresAt}`}.`;
}
