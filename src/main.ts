import { fileURLToPath } from 'node:url';
import { runCli } from './cli/program.ts';
import { VERSION } from './contract/version.ts';

/** The file that starts this program, from dist/ and from src/ alike. */
const LAUNCHER = fileURLToPath(new URL('../bin/signet.js', import.meta.url));

let isServing = false;

// `signet … | head` closes its end when it has seen enough: that is no fault, and nobody reads on. A daemon does not need readers.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    if (!isServing) process.exit();
  });
}

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
