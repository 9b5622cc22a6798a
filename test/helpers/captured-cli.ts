import { PassThrough } from 'node:stream';
import type { CliContext } from '../../src/cli/context.ts';
import type { Signet } from './signet.ts';

export interface CapturedCli {
  readonly context: CliContext;
  /** Everything written so far. */
  out(): string;
  err(): string;
}

/** What the command line needs, in this process, against a running Signet. */
export function captureCli(signet: Pick<Signet, 'runtimeUrl' | 'folder'>): CapturedCli {
  let out = '';
  let err = '';
  return {
    context: {
      version: '0.0.0',
      stdout: { write: (text) => (out += text) },
      stderr: { write: (text) => (err += text) },
      stdin: new PassThrough(),
      env: { HOME: signet.folder, SIGNET_RUNTIME_URL: signet.runtimeUrl },
      cwd: signet.folder,
      launcher: '',
      startDaemon: () => Promise.reject(new Error('these commands start nothing')),
      checkStart: () => Promise.reject(new Error('these commands start nothing')),
      onInterrupt: () => () => {},
    },
    out: () => out,
    err: () => err,
  };
}
