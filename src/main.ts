import { writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runCli } from './cli/program.ts';
import { VERSION } from './contract/version.ts';
import { readableStack } from './core/readable-stack.ts';

/** The file that starts this program, from dist/ and from src/ alike. */
const LAUNCHER = fileURLToPath(new URL('../bin/signet.js', import.meta.url));

/** As Node itself ends after an exception that nothing caught. */
const EXIT_FAULT = 1;

let isServing = false;

// `signet … | head` closes its end when it has seen enough: that is no fault, and nobody reads on. A daemon does not need readers.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    if (!isServing) process.exit();
  });
}

// Node's own report begins with the line of the fault: of a built file, all of its text.
process.on('uncaughtException', (error: unknown) => {
  const text = error instanceof Error ? readableStack(error) : String(error);
  try {
    writeSync(process.stderr.fd, `signet ended by a fault of its own:\n${text}\n`);
  } finally {
    process.exit(EXIT_FAULT);
  }
});

const exitCode = await runCli(
  {
    version: VERSION,
    stdout: process.stdout,
    stderr: process.stderr,
    stdin: process.stdin,
    env: process.env,
    cwd: process.cwd(),
    launcher: LAUNCHER,
    startDaemon: async (env) => {
      isServing = true;
      const { serve } = await import('./serve.ts');
      await serve(env, (text) => process.stdout.write(text));
    },
    checkStart: async (env) => {
      const { resolveSettings } = await import('./config.ts');
      resolveSettings(env);
    },
    onInterrupt: (handler) => {
      process.on('SIGINT', handler);
      return () => process.off('SIGINT', handler);
    },
  },
  process.argv.slice(2),
);
process.exitCode = exitCode;
