#!/usr/bin/env node
// Plain JavaScript that old Nodes can read: it finds a Node that is new enough, then starts the program.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import nodeModule, { createRequire } from 'node:module';
import { constants, homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { restartWithoutKeys, takeKeys } from './clean-environment.js';
import { compileCacheFolder, isTrustedAs } from './trusted-folder.js';

const NODE_MAJOR_MIN = 24;
const FORWARDED_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2'];
/** A terminal sends these to the child itself; forwarded they would arrive twice, and twice Ctrl-C means more than once. */
const TERMINAL_SIGNALS = ['SIGINT', 'SIGQUIT'];

const here = fileURLToPath(import.meta.url);

const args = process.argv.slice(2);
const isDaemon = args.includes('start') && args.includes('--foreground');

if (Number(process.versions.node.split('.')[0]) >= NODE_MAJOR_MIN) await run();
else runWith(bundledNode());

async function run() {
  if (!takeKeys() && isDaemon) restartWithoutKeys(process.execPath, [...process.execArgv, here, ...args]);
  const built = join(dirname(here), '..', 'dist', 'main.js');
  const source = join(dirname(here), '..', 'src', 'main.ts');
  const entry = [built, source].find((path) => existsSync(path));
  if (!entry) fail(`the program is missing: neither ${built} nor ${source} exists. Reinstall signet, or run: npm run build`);
  // Never without a folder: Node would take the shared temporary one, where other users can leave code for us to run.
  const cache = compileCacheFolder(process.env, homedir());
  if (cache !== undefined) nodeModule.enableCompileCache?.(cache);
  await import(pathToFileURL(entry).href);
}

/** The Node that npm installed beside this package, undefined where there is none. */
function bundledNode() {
  const name = `node-${process.platform}-${process.arch}`;
  try {
    const node = join(dirname(createRequire(here).resolve(`${name}/package.json`)), 'bin', 'node');
    return isTrustedAs(node, here) ? node : undefined;
  } catch {
    return undefined; // Not installed: another platform, or without optional dependencies.
  }
}

function runWith(node) {
  if (!node || !existsSync(node)) {
    fail(
      `Node ${NODE_MAJOR_MIN} or newer is needed, this is ${process.versions.node}, and no bundled one is installed for ${process.platform}-${process.arch}. ` +
        'Install a newer Node, or reinstall signet with optional dependencies.',
    );
  }
  if (isDaemon) restartWithoutKeys(node, [here, ...args]);
  const child = spawn(node, [here, ...args], { stdio: 'inherit' });
  const onTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
  for (const signal of FORWARDED_SIGNALS) {
    process.on(signal, () => {
      if (!onTerminal || !TERMINAL_SIGNALS.includes(signal)) child.kill(signal);
    });
  }
  child.on('error', (error) => fail(`cannot run ${node}: ${error.message}`));
  child.on('exit', (code, signal) => {
    if (!signal) process.exit(code ?? 1);
    // End the same way, so that whoever waits for us sees what happened.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 100);
  });
}

function fail(message) {
  process.stderr.write(`signet: ${message}\n`);
  process.exit(1);
}
