import { EXEC_CALL_TIMEOUT_MS, SECRET_CHARS_MAX, secretOperations } from '../contract/secrets.ts';
import { isAppError } from '../core/errors.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { type DaemonFlags, requireDaemonApi } from './daemon-api.ts';
import { plainText, safeJson } from './terminal-text.ts';

const CTRL_C = '\u0003';
const CTRL_D = '\u0004';
const BACKSPACE = /[\b\u007f]/;

export type SecretFlags = DaemonFlags & { readonly json?: boolean };
export type ExecFlags = SecretFlags & { readonly secret: readonly string[]; readonly timeout: number };

export async function putSecret(context: CliContext, name: string, flags: SecretFlags): Promise<void> {
  const daemon = requireDaemonApi(context, flags);
  const value = context.stdin.isTTY ? await askHidden(context, `Value of ${name} (not shown): `) : await readValue(context);
  const answer = await daemon.call(secretOperations.putSecret, { name, value });
  context.stdout.write(flags.json ? `${safeJson(answer)}\n` : `${name} is stored.\n`);
}

export async function listSecrets(context: CliContext, flags: SecretFlags): Promise<void> {
  const answer = await requireDaemonApi(context, flags).call(secretOperations.listSecrets, {});
  if (flags.json) return void context.stdout.write(`${safeJson(answer)}\n`);
  if (answer.secrets.length === 0) return void context.stderr.write('No secrets.\n');
  context.stdout.write(answer.secrets.map((name) => `${name}\n`).join(''));
}

/** By its exit code; nothing is printed unless JSON is asked for. */
export async function hasSecret(context: CliContext, name: string, flags: SecretFlags): Promise<void> {
  try {
    const answer = await requireDaemonApi(context, flags).call(secretOperations.hasSecret, { name });
    if (flags.json) context.stdout.write(`${safeJson({ ...answer, exists: true })}\n`);
  } catch (error) {
    if (!isAppError(error, 'secret_not_found')) throw error;
    if (flags.json) context.stdout.write(`${safeJson({ name, exists: false })}\n`);
    throw new CliExit(EXIT.failure);
  }
}

export async function deleteSecret(context: CliContext, name: string, flags: SecretFlags): Promise<void> {
  const answer = await requireDaemonApi(context, flags).call(secretOperations.deleteSecret, { name });
  context.stdout.write(flags.json ? `${safeJson(answer)}\n` : `${name} is forgotten.\n`);
}

export async function execWithSecrets(context: CliContext, command: readonly string[], flags: ExecFlags): Promise<void> {
  const secrets = Object.fromEntries(flags.secret.map(readReference));
  const answer = await requireDaemonApi(context, flags).call(
    secretOperations.execWithSecrets,
    { command: shellCommand(command), secrets, cwd: context.cwd, timeoutMs: flags.timeout * 1_000 },
    { timeoutMs: EXEC_CALL_TIMEOUT_MS },
  );
  if (flags.json) context.stdout.write(`${safeJson(answer)}\n`);
  else {
    context.stdout.write(plainText(answer.stdout));
    context.stderr.write(plainText(answer.stderr));
    if (answer.truncated) context.stderr.write('signet: the command wrote more than is kept; the end is missing\n');
    if (answer.timedOut) context.stderr.write(`signet: the command was given up after ${flags.timeout} s\n`);
  }
  if (answer.code !== 0) throw new CliExit(answer.code);
}

/** One word is a command of the shell; several reach the program they begin with as they are. */
function shellCommand(words: readonly string[]): string {
  return words.length === 1 ? words.join('') : words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
}

/** `NAME` stands for `NAME=NAME`. */
function readReference(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 0 && text.startsWith('op://')) throw new CliExit(EXIT.usage, `say which variable holds it: VARIABLE=${text}`);
  return at < 0 ? [text, text] : [text.slice(0, at), text.slice(at + 1)];
}

/** All of stdin without the line break that `echo` and most programs add. */
async function readValue({ stdin }: CliContext): Promise<string> {
  let text = '';
  stdin.setEncoding('utf8');
  for await (const chunk of stdin) {
    text += chunk;
    if (text.length > SECRET_CHARS_MAX + 2) throw new CliExit(EXIT.failure, `a secret has at most ${SECRET_CHARS_MAX} characters`);
  }
  return text.replace(/\r?\n$/, '');
}

/** One line of a terminal that shows nothing of it. */
async function askHidden({ stdin, stderr }: CliContext, question: string): Promise<string> {
  const terminal = stdin as typeof stdin & { setRawMode?(on: boolean): unknown };
  stderr.write(question);
  terminal.setRawMode?.(true);
  stdin.setEncoding('utf8');
  let value = '';
  try {
    for await (const chunk of stdin) {
      for (const char of chunk as string) {
        if (char === '\r' || char === '\n' || char === CTRL_D) return value;
        if (char === CTRL_C) throw new CliExit(EXIT.interrupted);
        value = BACKSPACE.test(char) ? [...value].slice(0, -1).join('') : value + char;
        if (value.length > SECRET_CHARS_MAX) throw new CliExit(EXIT.failure, `a secret has at most ${SECRET_CHARS_MAX} characters`);
      }
    }
    return value;
  } finally {
    terminal.setRawMode?.(false);
    stderr.write('\n');
  }
}
