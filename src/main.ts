import { fileURLToPath } from 'node:url';
import { runCli } from './cli/program.ts';
import { VERSION } from './contract/version.ts';

/** The file that starts this program, from dist/ and from src/ alike. */
const LAUNCHER = fileURLToPath(new URL('../bin/signet.js', import.meta.url));

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
      const { serve } = await import('./serve.ts');
      await serve(env, (text) => process.stdout.write(text));
    },
    onInterrupt: (handler) => {
      process.on('SIGINT', handler);
      return () => process.off('SIGINT', handler);
    },
  },
  process.argv.slice(2),
);
process.exitCode = exitCode;
