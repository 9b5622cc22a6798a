import { statSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute } from 'node:path';
import type { AgentYaml } from '../contract/config.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import { type ExecAnswer, SECRET_CHARS_MIN, type secretOperations } from '../contract/secrets.ts';
import type { Clock } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Handlers, RequestContext } from '../core/operation-call.ts';
import type { SecretVault } from '../core/secret-vault.ts';

/** Commands at once; each may hold some megabytes. */
const COMMANDS_MAX = 8;
/** When to come back; unit: milliseconds. */
const RETRY_AFTER_MS = 1_000;

export interface SecretDeps {
  readonly folder: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly config: AgentYaml;
  /** Environment of the daemon: PATH for commands, and what 1Password needs. */
  readonly env: NodeJS.ProcessEnv;
}

type Operations = typeof secretOperations;
type ExecInput = Omit<ParsedInputOf<Operations['execWithSecrets']>, 'secrets'> & { readonly secrets: Readonly<Record<string, string>> };

/** Handlers of /api/secrets. Most daemons are never asked for a secret: what does the work is loaded when one is. */
export function createSecretHandlers(deps: SecretDeps): Handlers<Operations> {
  let opening: Promise<SecretVault> | undefined;
  const vault = (): Promise<SecretVault> => {
    opening ??= openVault(deps);
    return opening;
  };
  let running = 0;
  const exec = async (input: ExecInput, context: RequestContext): Promise<ExecAnswer> => {
    if (running >= COMMANDS_MAX) {
      const detail = `${COMMANDS_MAX} commands with secrets run, which is as many as may; try again when one has ended`;
      throw new AppError('overloaded', { detail, retryAfterMs: RETRY_AFTER_MS });
    }
    running += 1;
    try {
      return await runCommand(deps, await vault(), input, context);
    } finally {
      running -= 1;
    }
  };
  return {
    listSecrets: async () => ({ secrets: await (await vault()).names() }),
    hasSecret: async ({ name }) => {
      const dates = await (await vault()).find(name);
      if (!dates) throw await missing(name);
      return { name, ...dates };
    },
    putSecret: async ({ name, value }) => {
      if (value.trim().length < SECRET_CHARS_MIN || value.includes('\0')) throw unfit();
      await (await vault()).put(name, value);
      deps.log.info({ secretName: name }, 'a secret was stored');
      return { success: true, name };
    },
    deleteSecret: async ({ name }) => {
      if (!(await (await vault()).remove(name))) throw await missing(name);
      deps.log.info({ secretName: name }, 'a secret was deleted');
      return { success: true, name };
    },
    execWithSecrets: exec,
    execWithSecret: ({ name, secrets, ...input }, context) => exec({ ...input, secrets: secrets ?? { [name]: name } }, context),
  };
}

async function openVault({ folder, clock, config, env }: SecretDeps): Promise<SecretVault> {
  const [{ createSecretStore }, { systemKeyring }] = await Promise.all([
    import('../store/secret-store.ts'),
    import('../store/secret-keyring.ts'),
  ]);
  return createSecretStore({ workspace: folder, clock, keyring: config.secrets.keyring ? systemKeyring(env) : undefined });
}

async function runCommand({ env, log }: SecretDeps, vault: SecretVault, input: ExecInput, context: RequestContext): Promise<ExecAnswer> {
  const [{ resolveSecret }, { runWithSecrets }] = await Promise.all([import('./secret-reference.ts'), import('./secret-exec.ts')]);
  const cwd = folderOf(input.cwd, env);
  const startedAt = performance.now();
  const secrets = new Map<string, string>();
  for (const [variable, reference] of Object.entries(input.secrets)) {
    secrets.set(variable, await resolveSecret({ vault, env }, reference, context.signal));
  }
  // What 1Password took is part of the time the caller waits.
  const timeoutMs = Math.max(1, input.timeoutMs - (performance.now() - startedAt));
  const answer = await runWithSecrets(env, { command: input.command, cwd, secrets, timeoutMs, signal: context.signal });
  const { code, timedOut, truncated } = answer;
  // Neither the command nor its output: people write secrets into both.
  log.info({ secrets: Object.values(input.secrets), code, timedOut, truncated, client: context.client }, 'a command was run with secrets');
  return answer;
}

function folderOf(cwd: string | undefined, env: NodeJS.ProcessEnv): string {
  const folder = cwd ?? (env.HOME || homedir());
  if (isAbsolute(folder) && isFolder(folder)) return folder;
  const detail = `cwd must be an absolute path of an existing folder on the machine of the daemon, not ${JSON.stringify(folder)}`;
  throw new AppError('invalid_request', { detail, errors: [{ pointer: '/cwd', detail }] });
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false; // Absent, or behind a folder nobody may look into: a command could not run there either.
  }
}

async function missing(name: string): Promise<AppError> {
  return (await import('./secret-reference.ts')).secretNotFound(name);
}

function unfit(): AppError {
  const detail = `value must have at least ${SECRET_CHARS_MIN} characters beside whitespace, and no zero byte`;
  return new AppError('invalid_request', { detail, errors: [{ pointer: '/value', detail }] });
}
