import { isSignal } from '../client/session-stream.ts';
import { newId } from '../core/clock.ts';
import type { Conversation } from './chat-conversation.ts';
import { createChatView } from './chat-view.ts';
import { CliExit, EXIT } from './context.ts';
import { watchRuntime } from './runtime-watch.ts';
import { createStyle } from './terminal.ts';
import { plainLine, plainText, safeJson } from './terminal-text.ts';

/**
 * One prompt: the answer alone on stdout, what happened meanwhile on stderr. Ctrl-C aborts the turn.
 *
 * @throws CliExit when the turn fails, is aborted, or the runtime is lost
 */
export async function printAnswer({ context, client, session, flags }: Conversation, content: string): Promise<void> {
  const promptId = newId('prm');
  const leave = new AbortController();
  let interrupts = 0;
  const unlisten = context.onInterrupt(() => {
    if (++interrupts > 1) leave.abort();
    else client.session.abort(session.id, { clearQueue: false }).catch((error) => leave.abort(error));
  });
  const unwatch = watchRuntime(client, (lost) => lost && leave.abort(new CliExit(EXIT.failure, 'the runtime does not answer any more')));
  try {
    await followTurn({ context, client, session, flags }, promptId, content, leave.signal);
    if (interrupts > 0) throw new CliExit(EXIT.interrupted, 'aborted');
    const { answer, status, error } = await client.session.getPrompt(session.id, promptId);
    if (status !== 'completed' || !answer) {
      const why = error ? `${plainLine(error.message, 1_000)} (${plainLine(error.code, 64)})` : `the prompt is ${status}`;
      throw new CliExit(EXIT.failure, why);
    }
    const text = plainText(answer.content);
    context.stdout.write(flags.json ? `${safeJson(answer, 2)}\n` : text.endsWith('\n') ? text : `${text}\n`);
  } finally {
    unwatch();
    unlisten();
    if (flags.end) await client.session.end(session.id, { reason: 'chat ended' }).catch(() => {}); // The answer stands; the session ends by itself when idle.
  }
}

/** Send the prompt and show its tools until its turn has ended. The stream is opened at the cursor before the prompt: nothing is missed. */
async function followTurn(
  { context, client, session }: Conversation,
  promptId: string,
  content: string,
  signal: AbortSignal,
): Promise<void> {
  const style = createStyle(context.stderr, context.env);
  const view = createChatView({ answer: null, notes: context.stderr, style });
  await client.session.promptAsync(session.id, { content, promptId }, { signal });
  for await (const event of client.session.stream(session.id, { after: session.seq, deltas: false, signal })) {
    if (/^(tool:(call|result)|harness:retry|hook:error|compaction:)/.test(event.name)) view.show(event);
    if (isSignal(event, 'tool:approval:requested')) {
      view.note(
        style.yellow(
          `${plainLine(event.payload.name, 64)} waits for an approval: decide it in another terminal with signet chat --session ${session.id}`,
        ),
      );
    }
    if (isSignal(event, 'turn:end') && event.payload.promptIds.includes(promptId)) return;
    if ((isSignal(event, 'prompt:cancelled') || isSignal(event, 'turn:rejected')) && event.payload.promptId === promptId) return;
  }
  if (signal.reason instanceof Error && signal.reason.name !== 'AbortError') throw signal.reason;
  throw new CliExit(
    signal.aborted ? EXIT.interrupted : EXIT.failure,
    signal.aborted ? 'left; the turn may still run' : 'the session has ended',
  );
}
