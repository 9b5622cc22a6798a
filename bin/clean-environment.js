// Plain JavaScript that old Nodes can read, as signet.js is.
import { closeSync, constants, fstatSync, ftruncateSync, openSync, readFileSync, readSync, writeSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

/** Says in the environment of the new image that the keys are in what it finds as its standard input. */
const MARK = 'SIGNET_KEYS_ON_STDIN';
const STDIN = 0;
/** Of Linux; Node has no name for it: a file that never had a name, and is gone when nobody has it open. */
const O_TMPFILE = 0o20000000;
/** Names of variables that hold keys, and programs' own ways to hand over logins. */
const KEY_NAME = /(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PAT|CREDENTIALS?|DSN|AUTH|HEADERS?)S?$|^OP_/i;
/** A login in an address: `https://user:password@host`. */
const LOGIN = /:\/\/[^/\s:@]*:[^/\s@]+@/;
/** Commands get these as they are, and Node reads some before any program. */
const KEPT = /^(?:PATH|NODE_.*|https?_proxy|no_proxy|all_proxy)$/i;
/** A variable that agent.yaml names: `apiKeyEnv: NAME`. */
const NAMED = /apiKeyEnv["']?\s*:\s*["']?([A-Za-z_][A-Za-z0-9_]*)/g;

/**
 * Replaces this process by the same program with an environment that holds no keys, when there are any. Every program of the same user can read the
 * environment that a process was started with (`/proc/<pid>/environ`), and nothing a program does later changes it. The keys go through a file
 * without a name that the new image has as its standard input; it puts them back into `process.env`, which is memory of its own.
 *
 * @param node  program to go on as
 * @param args  its arguments, without its name
 * @returns     when there was nothing to hide, or this system cannot replace a process
 */
export function restartWithoutKeys(node, args) {
  if (process.platform !== 'linux' || typeof process.execve !== 'function' || needsChannel()) return;
  const keys = keysOf(process.env, namesIn(agentYaml(process.env, args)));
  const names = Object.keys(keys);
  if (names.length === 0 || !putOnStdin(JSON.stringify(keys))) return;
  const env = { ...process.env, [MARK]: '1' };
  for (const name of names) delete env[name];
  process.execve(node, [node, ...args], env);
}

/**
 * Takes the keys that `restartWithoutKeys` has left into `process.env`, and leaves nothing of them behind. Standard input is empty then.
 *
 * @returns  whether this process was replaced: another time would never end
 */
export function takeKeys() {
  if (process.env[MARK] === undefined) return false;
  delete process.env[MARK];
  const { size, nlink } = fstatSync(STDIN);
  // Somebody else's mark: what has a name was not left by us.
  if (nlink !== 0) return true;
  const bytes = Buffer.alloc(size);
  readSync(STDIN, bytes, 0, size, 0);
  ftruncateSync(STDIN, 0);
  closeSync(STDIN);
  // The lowest number that is free: again standard input.
  openSync('/dev/null', 'r');
  Object.assign(process.env, JSON.parse(bytes.toString('utf8')));
  bytes.fill(0);
  return true;
}

/** A channel to the parent does not outlive the change. pm2 opens one always, and needs it only when it was told to wait or to send a message. */
function needsChannel() {
  const { pm_id: pm2, wait_ready: waits, shutdown_with_message: tells } = process.env;
  return process.channel !== undefined && process.channel !== null && (pm2 === undefined || waits === 'true' || tells === 'true');
}

function keysOf(env, named) {
  const isKey = ([name, value]) => !KEPT.test(name) && (KEY_NAME.test(name) || LOGIN.test(value) || named.includes(name));
  return Object.fromEntries(Object.entries(env).filter(isKey));
}

function namesIn(yaml) {
  return [...yaml.matchAll(NAMED)].map(([, name]) => name);
}

/** Its text; empty where there is none that can be read: the start itself says what is wrong with it. */
function agentYaml(env, args) {
  const at = args.indexOf('--path');
  const given = at >= 0 ? args[at + 1] : args.find((arg) => arg.startsWith('--path='))?.slice('--path='.length);
  try {
    return readFileSync(join(given || env.SIGNET_PATH || join(env.HOME || homedir(), '.agents'), 'agent.yaml'), 'utf8');
  } catch {
    return '';
  }
}

/** False where no file without a name can be made. */
function putOnStdin(text) {
  const bytes = Buffer.from(text);
  for (const folder of ['/dev/shm', tmpdir()]) {
    const open = () => openSync(folder, O_TMPFILE | constants.O_DIRECTORY | constants.O_RDWR, 0o600);
    try {
      // Before standard input is given up: is there room for it?
      const tried = open();
      writeSync(tried, bytes, 0, bytes.length, 0);
      closeSync(tried);
    } catch {
      continue; // No such folder, a full one, or a file system without such files.
    }
    closeSync(STDIN);
    // The lowest number that is free is taken, and standard input is what the new image inherits.
    if (open() !== STDIN) return false;
    writeSync(STDIN, bytes, 0, bytes.length, 0);
    return true;
  }
  return false;
}
