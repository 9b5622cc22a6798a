import { isSignal, type SessionEvent } from '../client/session-stream.ts';
import { visibleStart } from '../core/visible-text.ts';
import type { Output, Style } from './terminal.ts';
import { createTextFilter, plainLine } from './terminal-text.ts';

/** Characters of a tool's input or output in its line. */
const TOOL_CHARS_MAX = 120;
const NOTE_CHARS_MAX = 300;

export interface ChatView {
  /** Print what a person wants to see of an event; everything foreign is made safe for a terminal. */
  show(event: SessionEvent): void;
  /** A line of our own; foreign parts must be plain already. */
  note(line: string): void;
  /** Begin a new line unless one has just begun. */
  finishLine(): void;
}

export interface ViewOptions {
  /** The answer; null when it is printed elsewhere. */
  readonly answer: Output | null;
  /** Everything else. */
  readonly notes: Output;
  readonly style: Style;
  /** Called before anything is printed, to clear a line that is being typed. */
  readonly beforeWrite?: () => void;
}

/** Streams the answer as it comes; tool calls, states and failures are dim lines of their own. */
export function createChatView({ answer, notes, style, beforeWrite = () => {} }: ViewOptions): ChatView {
  let open: 'answer' | 'thinking' | null = null;
  let call = beginCall();

  function write(output: Output, text: string): void {
    beforeWrite();
    output.write(text);
  }
  function finishLine(): void {
    if (open) write(open === 'answer' && answer ? answer : notes, '\n');
    open = null;
  }
  function note(line: string): void {
    finishLine();
    write(notes, `${line}\n`);
  }
  function printAnswer(text: string): void {
    if (text === '' || !answer) return;
    if (open === 'thinking') finishLine();
    call.printed += text.length;
    const safe = call.filter(text);
    if (safe === '') return;
    write(answer, safe);
    open = safe.endsWith('\n') ? null : 'answer';
  }
  function printThinking(text: string): void {
    if (text === '') return;
    if (open === 'answer') finishLine();
    write(notes, style.dim(call.thinkingFilter(text)));
    open = 'thinking';
  }

  function show(event: SessionEvent): void {
    if (isSignal(event, 'harness:start')) {
      finishLine();
      call = beginCall(event.payload.purpose === 'summary');
    } else if (isSignal(event, 'text:delta')) printAnswer(takeFresh(call, event.payload));
    else if (isSignal(event, 'thinking:delta')) printThinking(takeFresh(call, event.payload));
    else if (isSignal(event, 'text:complete') && !call.summary) {
      printAnswer(event.payload.content.slice(call.printed));
      if (open === 'answer') finishLine();
    } else if (isSignal(event, 'harness:retry') || isSignal(event, 'session:resumed')) call = beginCall();
    const line = describeEvent(event, style);
    if (line !== undefined) note(line);
  }
  return { show, note, finishLine };
}

interface ModelCall {
  readonly filter: (chunk: string) => string;
  readonly thinkingFilter: (chunk: string) => string;
  /** A summary of the conversation is not for the reader. */
  readonly summary: boolean;
  /** Characters of the answer that were printed. */
  printed: number;
  /** Position of the stream in all the call has said, thinking included. */
  position: number;
}

function beginCall(summary = false): ModelCall {
  return { filter: createTextFilter(), thinkingFilter: createTextFilter(), summary, printed: 0, position: 0 };
}

/**
 * The part of a delta that was not there before: after a reconnect some may come twice. After a gap nothing is taken any more: the
 * whole text at the end fills what is missing.
 */
function takeFresh(call: ModelCall, { content, offset }: { readonly content: string; readonly offset: number }): string {
  const begin = offset - content.length;
  if (call.summary || begin > call.position || offset <= call.position) return '';
  const fresh = content.slice(call.position - begin);
  call.position = offset;
  return fresh;
}

/** The line an event deserves in a terminal, undefined for most. */
export function describeEvent(event: SessionEvent, style: Style): string | undefined {
  if (isSignal(event, 'tool:call')) return style.dim(`→ ${visibleStart(event.payload.name, 64)} ${brief(event.payload.input)}`);
  if (isSignal(event, 'tool:result')) {
    const { name, isError, error, output, durationMs } = event.payload;
    const line = `← ${visibleStart(name, 64)} ${isError ? 'failed' : 'answered'} after ${Math.round(durationMs)} ms: ${brief(error?.message ?? output)}`;
    return isError ? style.red(line) : style.dim(line);
  }
  if (isSignal(event, 'tool:progress')) {
    return event.payload.message ? style.dim(`  ${visibleStart(event.payload.message, TOOL_CHARS_MAX)}`) : undefined;
  }
  if (isSignal(event, 'turn:end')) return describeTurnEnd(event.payload, style);
  return describeTrouble(event, style) ?? describeState(event, style);
}

function describeTurnEnd(end: Readonly<Record<string, unknown>>, style: Style): string | undefined {
  const error = end.error as { code: string; message: string } | undefined;
  if (end.stopReason === 'aborted') return style.yellow('aborted');
  if (error) return style.red(`✗ ${plainLine(error.message, NOTE_CHARS_MAX)} (${plainLine(error.code, 64)})`);
  const usage = end.usage as { inputTokens: number; outputTokens: number };
  const cost = typeof end.costUsd === 'number' && end.costUsd > 0 ? `, $${end.costUsd.toFixed(4)}` : '';
  return style.dim(`· ${(Number(end.durationMs) / 1_000).toFixed(1)} s, ${usage.inputTokens} tokens in, ${usage.outputTokens} out${cost}`);
}

function describeTrouble(event: SessionEvent, style: Style): string | undefined {
  if (isSignal(event, 'harness:retry')) {
    const { message, delayMs } = event.payload;
    return style.yellow(`the model failed: ${plainLine(message, NOTE_CHARS_MAX)}; once more in ${(delayMs / 1_000).toFixed(1)} s`);
  }
  if (isSignal(event, 'session:resumed')) return style.yellow('the daemon was restarted; the turn goes on');
  if (isSignal(event, 'hook:error'))
    return style.yellow(`hook ${event.payload.hook} failed: ${plainLine(event.payload.message, NOTE_CHARS_MAX)}`);
  if (isSignal(event, 'compaction:error')) return style.yellow(`compaction failed: ${plainLine(event.payload.message, NOTE_CHARS_MAX)}`);
  if (isSignal(event, 'turn:rejected')) return style.yellow(`the prompt was not taken: ${event.payload.reason}`);
  if (event.name === 'gap') return style.yellow('earlier signals of this session are no longer kept');
  return undefined;
}

const STATE_EVENT = /^session:(starting|researching|generating|tool-looping|compacting|aborting|ending|ended)$/;

function describeState(event: SessionEvent, style: Style): string | undefined {
  if (isSignal(event, 'turn:queued')) return style.dim(`· queued, place ${event.payload.position}`);
  if (isSignal(event, 'research:end')) {
    const { memories, faults = [] } = event.payload;
    const failed = faults.map(({ name, message }) => style.yellow(`· ${name} failed: ${plainLine(message, NOTE_CHARS_MAX)}`));
    const found = memories > 0 ? [style.dim(`· ${memories} ${memories === 1 ? 'memory' : 'memories'} found`)] : [];
    return [...found, ...failed].join('\n') || undefined;
  }
  if (isSignal(event, 'compaction:complete')) {
    return style.dim(`· compacted from ${event.payload.tokensBefore} to ${event.payload.tokensAfter} tokens`);
  }
  const state = STATE_EVENT.exec(event.name)?.[1];
  return state ? style.dim(`· ${state}`) : undefined;
}

/** What a tool is given, or gives, must not be hidden by a character that a terminal obeys. */
function brief(value: unknown): string {
  return visibleStart(typeof value === 'string' ? value.replace(/[\t\n\r]+/g, ' ') : (JSON.stringify(value) ?? ''), TOOL_CHARS_MAX);
}
