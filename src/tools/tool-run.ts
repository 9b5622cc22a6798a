import { performance } from 'node:perf_hooks';
import { AppError, isAppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Tool, ToolContext } from '../core/tool.ts';
import { type ToolOutput, writeOutput } from './tool-output.ts';

/** How a call of a tool ended. A failed one is a result as well: the model reads `output`. */
export interface ToolRun {
  /** For the model: a string as it is, other values as JSON, `<code>: <message>` of a failed call. */
  readonly output: string;
  /** The tool's value, safe for JSON.stringify; null when the call failed. */
  readonly value: unknown;
  readonly isError: boolean;
  /** A code of the error table, or `aborted` when the caller's signal ended the call. */
  readonly error?: { readonly code: string; readonly message: string };
  readonly durationMs: number;
  /** UTF-8 bytes of the whole output, before any cut. */
  readonly bytes: number;
  /** The output was longer than it may be; its last line says by how much. */
  readonly truncated?: true;
}

export interface RunLimits {
  readonly timeoutMs: number;
  readonly outputBytesMax: number;
}

type Outcome = { readonly value: unknown } | { readonly error: unknown };

/**
 * Run a tool whose input is known to fit. The result comes at the deadline and at the caller's abort even when the tool hears neither.
 * Never throws.
 *
 * @param context  its signal is the caller's; the tool gets one that aborts at the deadline too
 */
export async function runTool(tool: Tool, input: unknown, context: ToolContext, limits: RunLimits, log: Logger): Promise<ToolRun> {
  const startedAt = performance.now();
  const stop = new AbortController();
  const onAbort = (): void => stop.abort(new Aborted(context.signal.reason));
  const timer = setTimeout(() => stop.abort(timedOut(tool.name, limits.timeoutMs)), limits.timeoutMs);
  context.signal.addEventListener('abort', onAbort, { once: true });
  if (context.signal.aborted) onAbort();
  try {
    const outcome = await settle(tool, input, context, stop.signal, log);
    if ('error' in outcome) return failedRun(outcome.error, limits.outputBytesMax, performance.now() - startedAt);
    return finishedRun(outcome.value, limits.outputBytesMax, performance.now() - startedAt);
  } finally {
    clearTimeout(timer);
    context.signal.removeEventListener('abort', onAbort);
  }
}

/** The result of a call that failed, also of one that never began. */
export function failedRun(error: unknown, outputBytesMax: number, durationMs: number): ToolRun {
  const { code, message } = describe(error);
  const output = writeOutput(`${code}: ${message}`, outputBytesMax);
  return { ...shownOutput(output), value: null, isError: true, error: { code, message: shorten(message, outputBytesMax) }, durationMs };
}

function finishedRun(value: unknown, outputBytesMax: number, durationMs: number): ToolRun {
  try {
    const output = writeOutput(value, outputBytesMax);
    return { ...shownOutput(output), value: output.value, isError: false, durationMs };
  } catch (error) {
    const detail = `the tool answered a value that cannot be written as JSON: ${describe(error).message}`;
    return failedRun(new AppError('tool_failed', { detail, cause: error }), outputBytesMax, durationMs);
  }
}

/** The first of: the tool's end, the abort of `signal`. A tool that ends later is heard by the log alone. */
function settle(tool: Tool, input: unknown, context: ToolContext, signal: AbortSignal, log: Logger): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  if (signal.aborted) return Promise.resolve({ error: signal.reason });
  let isOver = false;
  const end = (outcome: Outcome): void => {
    if (isOver) {
      const fields = { tool: tool.name, callKey: context.callKey, failed: 'error' in outcome };
      log.debug(fields, 'a tool ended after its call was given up; what it answered is dropped');
      return;
    }
    isOver = true;
    resolve(outcome);
  };
  signal.addEventListener('abort', () => end({ error: signal.reason }), { once: true });
  const inner: ToolContext = {
    ...context,
    signal,
    progress(message, fraction) {
      if (!isOver) context.progress(message, fraction);
    },
  };
  execute(tool, input, inner).then(
    (value) => end({ value }),
    (error) => end({ error }),
  );
  return promise;
}

/** Async, so that a tool that throws at once is as good as one that rejects. */
async function execute(tool: Tool, input: unknown, context: ToolContext): Promise<unknown> {
  return tool.execute(input, context);
}

function shownOutput({ text, bytes, truncated }: ToolOutput): { output: string; bytes: number; truncated?: true } {
  return { output: text, bytes, ...(truncated ? { truncated } : {}) };
}

/** The caller's own abort, told apart from a deadline and from a tool that throws an abort error of its own. */
class Aborted extends Error {
  constructor(reason: unknown) {
    super('the call was cancelled', { cause: reason });
  }
}

function describe(error: unknown): { code: string; message: string } {
  if (error instanceof Aborted) return { code: 'aborted', message: error.message };
  if (isAppError(error)) return { code: error.code, message: error.detail };
  const message = error instanceof Error ? error.message : safeText(error);
  return { code: 'tool_failed', message: message === '' ? 'the tool failed without saying why' : message };
}

/** What a tool throws may be anything, also an object that cannot be made text. */
function safeText(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    return ''; // Nothing to say about it; the caller has a sentence for that.
  }
}

function shorten(message: string, bytesMax: number): string {
  return writeOutput(message, bytesMax).text;
}

function timedOut(name: string, timeoutMs: number): AppError {
  return new AppError('timeout', { detail: `tool ${name} did not answer within ${timeoutMs} ms` });
}
