import { spawn } from 'node:child_process';

/** A keyring may ask its user for a password; nobody sits before a daemon for ever; unit: milliseconds. */
const KEYRING_TIMEOUT_MS = 5_000;
/** A key is 64 characters; unit: bytes. */
const OUTPUT_BYTES_MAX = 4_096;
const SERVICE = 'signet';

/** The keyring of the operating system, by its own command line. No secret is ever an argument: those can be seen by every user. */
export interface Keyring {
  /** Undefined when it has none under this name, or does not answer. Never throws. */
  read(account: string): Promise<string | undefined>;
  /** False when it was not taken. Never throws. */
  write(account: string, key: string): Promise<boolean>;
}

/** @param env  where the commands are looked for; undefined where this system has no keyring we know */
export function systemKeyring(env: NodeJS.ProcessEnv, platform: NodeJS.Platform = process.platform): Keyring | undefined {
  const run = (command: string, args: readonly string[], input = '') => runTool(command, args, input, env);
  if (platform === 'darwin') return macKeyring(run);
  return platform === 'linux' ? linuxKeyring(run) : undefined;
}

type Run = (command: string, args: readonly string[], input?: string) => Promise<string | undefined>;

/** On macOS: commands of `security` on its standard input. */
function macKeyring(run: Run): Keyring {
  return {
    read: (account) => run('security', ['find-generic-password', '-s', SERVICE, '-a', account, '-w']),
    async write(account, key) {
      const done = await run('security', ['-i'], `add-generic-password -U -s ${SERVICE} -a ${account} -l "Signet secrets" -w ${key}\n`);
      return done !== undefined;
    },
  };
}

/** The Secret Service of a Linux desktop, through libsecret. */
function linuxKeyring(run: Run): Keyring {
  const attributes = (account: string) => ['service', SERVICE, 'account', account];
  return {
    read: (account) => run('secret-tool', ['lookup', ...attributes(account)]),
    async write(account, key) {
      return (await run('secret-tool', ['store', '--label=Signet secrets', ...attributes(account)], key)) !== undefined;
    },
  };
}

/** What it wrote, trimmed; undefined when it failed, is not installed, or took too long. */
function runTool(command: string, args: readonly string[], input: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'ignore'], timeout: KEYRING_TIMEOUT_MS, killSignal: 'SIGKILL' });
  let output = '';
  child.on('error', () => resolve(undefined));
  // A tool that reads nothing closes its end.
  child.stdin.on('error', () => undefined);
  child.stdout.on('data', (chunk: Buffer) => {
    if (output.length < OUTPUT_BYTES_MAX) output += chunk.toString();
  });
  child.on('close', (code) => resolve(code === 0 ? output.trim() : undefined));
  child.stdin.end(input);
  return promise;
}
