import { clearLine, createInterface, cursorTo, type Interface } from 'node:readline';
import type { Writable } from 'node:stream';
import type { SessionEvent } from '../client/session-stream.ts';
import { isAppError } from '../core/errors.ts';
import { createApprovals } from './chat-approvals.ts';
import type { Conversation } from './chat-conversation.ts';
import { runSlashCommand } from './chat-slash.ts';
import { createTurns } from './chat-turns.ts';
import { type ChatView, createChatView } from './chat-view.ts';
import { CliExit, describeFailure, EXIT } from './context.ts';
import { watchRuntime } from './runtime-watch.ts';
import { createStyle, formatTurns } from './terminal.ts';
import { plainLine } from './terminal-text.ts';

/** A second Ctrl-C within this time leaves, in ms. */
const LEAVE_WINDOW_MS = 3_000;

/**
 * The conversation: lines in, events out, until Ctrl-D, /quit, the second Ctrl-C or the end of the session.
 * Without a terminal each line of stdin is a prompt, sent when the one before has been answered.
 */
export async function converse(conversation: Conversation): Promise<void> {
  const { context, client, session, flags } = conversation;
  const person = context.stdin.isTTY === true && context.stdout.isTTY === true;
  const style = createStyle(person ? context.stdout : context.stderr, context.env);
  const leave = new AbortController();
  const lines = createInterface({
    input: context.stdin,
    ...(person ? { output: context.stdout as unknown as Writable, terminal: true, prompt: style.cyan('› ') } : { terminal: false }),
  });
  const prompt = createPromptLine(lines, context.stdout as unknown as Writable, person);
  const notes = person ? context.stdout : context.stderr;
  const view = createChatView({ answer: context.stdout, notes, style, beforeWrite: prompt.hide });
  const turns = createTurns(session);
  const approvals = createApprovals({ client, session, view, style, person });

  greet(conversation, view, style.dim);
  if (person) await approvals.load();
  const unwatch = watchRuntime(client, (lost) => {
    view.note(style.yellow(lost ? 'the runtime does not answer; waiting for it to come back' : 'the runtime is back'));
    if (lost && !person) leave.abort(new CliExit(EXIT.failure, 'the runtime does not answer any more'));
  });
  const unlisten = onCtrlC(conversation, lines, { view, turns, leave, person, prompt });
  const show = (event: SessionEvent) => {
    view.show(event);
    turns.see(event);
    approvals.see(event);
    if (person && turns.idle() && /^(turn:end|turn:rejected|session:idle)$/.test(event.name)) prompt.show();
  };
  const reading = readEvents(conversation, show, leave.signal).finally(() => {
    leave.abort();
    lines.close();
  });
  reading.catch(() => {}); // Awaited at the end; until then a failure must not count as unhandled.
  const handle = async (line: string) => {
    prompt.hide(); // The terminal has begun a new line.
    if (await approvals.answer(line)) return;
    const slash = /^\/([a-z]+)$/.exec(line.trim());
    if (slash) await runSlashCommand(slash[1]!, { client, session, view, style, leave: () => leave.abort() });
    else if (line.trim() !== '') await turns.send(client, line);
    if (!person) await turns.settled(leave.signal);
  };
  try {
    prompt.show();
    await takeLines(lines, handle, view, leave.signal, () => {
      if (turns.idle() && !approvals.waiting()) prompt.show();
    });
    leave.abort();
    await reading;
  } finally {
    unlisten();
    unwatch();
    lines.close();
    view.finishLine();
    prompt.clear();
    await bye(conversation, view, style.dim);
  }
  if (leave.signal.reason instanceof CliExit) throw leave.signal.reason;
  if (!person && turns.failures() > 0) throw new CliExit(EXIT.failure, flags.json ? '' : `${turns.failures()} of the prompts failed`);
}

async function readEvents({ client, session }: Conversation, show: (event: SessionEvent) => void, signal: AbortSignal): Promise<void> {
  for await (const event of client.session.stream(session.id, { after: session.seq, signal })) show(event);
}

/** One line after the other; a failure is told and the conversation goes on. */
async function takeLines(
  lines: Interface,
  handle: (line: string) => Promise<void>,
  view: ChatView,
  signal: AbortSignal,
  done: () => void,
): Promise<void> {
  signal.addEventListener('abort', () => lines.close(), { once: true });
  for await (const line of lines) {
    try {
      await handle(line);
    } catch (error) {
      if (!isAppError(error)) throw error;
      view.note(plainLine(describeFailure(error), 1_000));
    }
    if (signal.aborted) return;
    done();
  }
}

interface CtrlCParts {
  readonly view: ChatView;
  readonly turns: { idle(): boolean };
  readonly leave: AbortController;
  readonly person: boolean;
  readonly prompt: { show(): void };
}

/** Once aborts the running turn, twice leaves. */
function onCtrlC(
  { context, client, session }: Conversation,
  lines: Interface,
  { view, turns, leave, person, prompt }: CtrlCParts,
): () => void {
  let last = Number.NEGATIVE_INFINITY;
  const interrupt = () => {
    const again = Date.now() - last < LEAVE_WINDOW_MS;
    last = Date.now();
    if (again) return leave.abort(new CliExit(EXIT.interrupted));
    if (turns.idle()) {
      view.note(person ? 'Ctrl-C again or Ctrl-D leaves' : 'Ctrl-C again leaves');
      return prompt.show();
    }
    view.note('aborting; Ctrl-C again leaves');
    client.session.abort(session.id).catch((error) => view.note(plainLine(describeFailure(error), 1_000)));
  };
  lines.on('SIGINT', interrupt);
  return context.onInterrupt(interrupt);
}

/** The line that is being typed: hidden while something else is printed, shown again with what was typed. `clear` is for the end: whatever stands there. */
function createPromptLine(lines: Interface, output: Writable, person: boolean): { show(): void; hide(): void; clear(): void } {
  let shown = false;
  let closed = false;
  const clear = () => {
    shown = false;
    cursorTo(output, 0);
    clearLine(output, 0);
  };
  lines.once('close', () => {
    closed = true;
  });
  return {
    show() {
      if (!person || closed || shown) return;
      lines.prompt(true);
      shown = true;
    },
    hide() {
      if (shown) clear();
    },
    clear() {
      if (person) clear();
    },
  };
}

function greet({ context, session, flags }: Conversation, view: ChatView, dim: (text: string) => string): void {
  const model = plainLine(`${session.provider}, ${session.model || 'no model'}`, 120);
  const hooks = session.bypassed ? ', hooks bypassed' : '';
  if (!context.stdin.isTTY) return;
  view.note(
    dim(
      `${flags.session ? `session ${session.id} again, ${formatTurns(session.turns)} so far` : `session ${session.id}`}, agent ${session.agent}, ${model}${hooks}`,
    ),
  );
  view.note(dim('/help lists the commands'));
}

/** Sessions outlive their terminal: say how to come back. */
async function bye({ client, session, flags }: Conversation, view: ChatView, dim: (text: string) => string): Promise<void> {
  if (!flags.end) return view.note(dim(`The session stays. Come back with: signet chat --session ${session.id}`));
  try {
    await client.session.end(session.id, { reason: 'chat ended' });
    view.note(dim('The session has ended.'));
  } catch (error) {
    view.note(plainLine(`the session could not be ended: ${describeFailure(error)}`, 1_000));
  }
}
