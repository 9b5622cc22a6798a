import type { CliContext } from './context.ts';

/** Harnesses write at once and close; one that keeps stdin open does not hold up its own turn for longer. Unit: milliseconds. */
const STDIN_TIMEOUT_MS = 1_000;
/** A payload holds a prompt or a summary, never a transcript: that is a file. Unit: characters. */
const STDIN_CHARS_MAX = 16_777_216;
const BYTE_ORDER_MARK = '\uFEFF';

/** What a harness says of an event, as its own JSON: nothing in it is certain. */
export type HookPayload = Readonly<Record<string, unknown>>;

export interface ReadPayload {
  readonly payload: HookPayload;
  /** What is missing in it, or why nothing of stdin is in it. */
  readonly problem?: string;
}

/**
 * The JSON object on stdin; empty when there is none, and when a person at a terminal runs the command. Never rejects.
 *
 * @param ofSession  the event is one of a session, so a payload and the id of the session in it are missed
 */
export async function readPayload({ stdin }: CliContext, ofSession: boolean): Promise<ReadPayload> {
  if (stdin.isTTY) return { payload: {} };
  const { text, problem } = await readBounded(stdin);
  const payload = parseObject(text.replace(BYTE_ORDER_MARK, ''));
  if (payload) return ofSession && sessionKeyOf(payload) === undefined ? { payload, problem: 'stdin has no session_id' } : { payload };
  if (problem !== undefined) return { payload: {}, problem };
  if (text.trim() !== '') return { payload: {}, problem: 'stdin is no JSON object' };
  return ofSession ? { payload: {}, problem: 'stdin is empty' } : { payload: {} };
}

/** Id of the session, in the spellings of harnesses. */
export function sessionKeyOf(payload: HookPayload): string | undefined {
  return textOf(payload, 'session_id', 'sessionId', 'sessionKey', 'session_key');
}

/** The first of these fields that is a text with something in it. */
export function textOf(payload: HookPayload, ...names: readonly string[]): string | undefined {
  return names.map((name) => payload[name]).find((value): value is string => typeof value === 'string' && value.trim() !== '');
}

/** The first of these fields that is a whole number from 0 on. */
export function countOf(payload: HookPayload, ...names: readonly string[]): number | undefined {
  return names.map((name) => payload[name]).find((value): value is number => Number.isSafeInteger(value) && Number(value) >= 0);
}

/** Gives stdin up in the end, however it ended: an open one would keep the process alive. */
async function readBounded(stdin: CliContext['stdin']): Promise<{ text: string; problem?: string }> {
  let text = '';
  let problem: string | undefined;
  const timer = setTimeout(() => {
    problem = `stdin was not closed within ${STDIN_TIMEOUT_MS} ms`;
    stdin.destroy();
  }, STDIN_TIMEOUT_MS);
  try {
    stdin.setEncoding('utf8');
    for await (const chunk of stdin) {
      text += String(chunk);
      if (text.length > STDIN_CHARS_MAX) return { text: '', problem: `stdin has more than ${STDIN_CHARS_MAX} characters` };
    }
  } catch (error) {
    problem ??= `stdin could not be read: ${(error as Error).message}`;
  } finally {
    clearTimeout(timer);
    stdin.destroy();
  }
  return problem === undefined ? { text } : { text, problem };
}

function parseObject(text: string): HookPayload | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as HookPayload) : undefined;
  } catch {
    return undefined; // The caller says so, beside what was wrong with stdin.
  }
}
