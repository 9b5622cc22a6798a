import type { RuntimeClient } from '../client/runtime-client.ts';
import type { Session } from '../contract/session.ts';
import type { ChatView } from './chat-view.ts';
import { describeFailure } from './context.ts';
import { formatTurns, type Style } from './terminal.ts';
import { plainLine } from './terminal-text.ts';

const HELP: readonly (readonly [string, string])[] = [
  ['/help', 'this list'],
  ['/abort', 'stop the running turn and forget the prompts that wait'],
  ['/compact', 'replace the conversation so far by a summary'],
  ['/status', 'state, usage and context of the session'],
  ['/tools', 'tools the model may call'],
  ['/quit', 'leave; the session stays (also Ctrl-D)'],
];

export interface SlashParts {
  readonly client: RuntimeClient;
  readonly session: Session;
  readonly view: ChatView;
  readonly style: Style;
  leave(): void;
}

/** Run one command of the conversation; rejects with the AppError of the call it makes. */
export async function runSlashCommand(name: string, { client, session, view, style, leave }: SlashParts): Promise<void> {
  switch (name) {
    case 'help':
      for (const [command, meaning] of HELP) view.note(`${command.padEnd(10)}${style.dim(meaning)}`);
      return;
    case 'abort': {
      const { aborted, cancelled } = await client.session.abort(session.id, { clearQueue: true });
      const waiting = cancelled.length > 0 ? `, ${cancelled.length} waiting prompts forgotten` : '';
      return view.note(style.dim(`${aborted ? 'aborted' : 'nothing was running'}${waiting}`));
    }
    case 'compact':
      // Its end is told by the stream; the next line must not wait for it.
      void client.session.compact(session.id).catch((error) => view.note(style.yellow(plainLine(describeFailure(error), 500))));
      return;
    case 'status':
      return showSession(await client.session.get(session.id), view);
    case 'tools':
      for (const tool of (await client.tools.list({ agent: session.agent })).tools) {
        view.note(`${plainLine(tool.name, 64).padEnd(24)} ${style.dim(plainLine(tool.description, 100))}`);
      }
      return;
    case 'quit':
    case 'exit':
      return leave();
    default:
      view.note(style.yellow(`there is no /${name}; /help lists the commands`));
  }
}

function showSession(session: Session, view: ChatView): void {
  const { usage, context } = session;
  const share = context.limit > 0 ? ` (${Math.round((100 * context.tokens) / context.limit)} %)` : '';
  const cost = session.costUsd ? `, $${session.costUsd.toFixed(4)}` : '';
  view.note(`${session.id}  ${session.state}, ${formatTurns(session.turns)}, ${session.queue.length} waiting`);
  view.note(`model    ${plainLine(`${session.provider}, ${session.model}`, 120)}`);
  view.note(
    `agent    ${session.agent}${session.bypassed ? ', hooks bypassed' : ''}${session.degraded ? ', without memory: the daemon did not answer' : ''}`,
  );
  view.note(`tokens   ${usage.inputTokens} in, ${usage.outputTokens} out${cost}`);
  view.note(`context  ${context.tokens} of ${context.limit} tokens${share}`);
}
