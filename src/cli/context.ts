import { readableStack } from '../core/readable-stack.ts';
import type { Environment, Input, Output } from './terminal.ts';

/** What the program needs from outside; `src/main.ts` gives the real things, tests their own. */
export interface CliContext {
  readonly version: string;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly stdin: Input;
  readonly env: Environment;
  /** Folder that relative paths and the default project mean. */
  readonly cwd: string;
  /** The file that `start` runs in the background: `bin/signet.js`. */
  readonly launcher: string;
  /**
   * Run daemon and runtime in this process until they are told to stop, by signals that this function handles itself.
   * The flags of the command line are in `env` already, under the names they mirror (SIGNET_PATH, SIGNET_PORT, ...).
   */
  startDaemon(env: Environment): Promise<void>;
  /** Rejects, with `config_invalid`, when `startDaemon` would for its configuration; starts nothing. */
  checkStart(env: Environment): Promise<void>;
  /** Be told of Ctrl-C (SIGINT) until the returned function is called. */
  onInterrupt(handler: () => void): () => void;
}

/** Exit codes; documented in docs/cli.md. */
export const EXIT = { ok: 0, failure: 1, usage: 2, unanswered: 4, interrupted: 130 } as const;

/** Ends the program with this code, after `message` (if any) on stderr. */
export class CliExit extends Error {
  readonly exitCode: number;

  constructor(exitCode: number, message = '') {
    super(message);
    this.name = 'CliExit';
    this.exitCode = exitCode;
  }
}

/** What a person reads of a failure: the detail of an expected one, the stack of a bug. */
export function describeFailure(error: unknown): string {
  if (error instanceof CliExit) return error.message;
  // By name: importing the class would load all schemas before the first character is printed.
  const { name, code, detail } = (error ?? {}) as { name?: string; code?: string; detail?: string };
  if (name === 'AppError') return `${detail} (${code})`;
  return error instanceof Error ? readableStack(error) : String(error);
}
