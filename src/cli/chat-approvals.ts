import type { RuntimeClient } from '../client/runtime-client.ts';
import { isSignal, type SessionEvent } from '../client/session-stream.ts';
import type { Session } from '../contract/session.ts';
import { isAppError } from '../core/errors.ts';
import type { ChatView } from './chat-view.ts';
import { describeFailure } from './context.ts';
import type { Style } from './terminal.ts';
import { plainLine } from './terminal-text.ts';

/** Characters of a call's input that are shown before somebody agrees to it. */
const INPUT_CHARS_MAX = 1_000;

const DECISIONS: Readonly<Record<string, 'once' | 'always' | 'deny'>> = {
  y: 'once',
  yes: 'once',
  a: 'always',
  always: 'always',
  n: 'deny',
  no: 'deny',
};

export interface ApprovalParts {
  readonly client: RuntimeClient;
  readonly session: Session;
  readonly view: ChatView;
  readonly style: Style;
  /** Somebody reads and can answer; otherwise it is only told where to decide. */
  readonly person: boolean;
}

export interface Approvals {
  /** Calls that were waiting before we came. */
  load(): Promise<void>;
  see(event: SessionEvent): void;
  waiting(): boolean;
  /** Take a line as the answer to the oldest question; false when there is none. */
  answer(line: string): Promise<boolean>;
}

interface Question {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  readonly reason: string;
}

/** Questions about tool calls, one at a time, oldest first. */
export function createApprovals({ client, session, view, style, person }: ApprovalParts): Approvals {
  const questions = new Map<string, Question>();
  const oldest = () => questions.values().next().value;

  function ask(question: Question | undefined): void {
    if (!question) return;
    const tool = plainLine(question.name, 64);
    const reason = question.reason ? ` (${plainLine(question.reason, 200)})` : '';
    view.note(style.yellow(`${tool} wants to run${reason}: ${plainLine(JSON.stringify(question.input) ?? '', INPUT_CHARS_MAX)}`));
    view.note(
      person
        ? `Allow it? ${style.bold('y')} once, ${style.bold('a')} always in this session, ${style.bold('n')} no`
        : elsewhere(client, session.id, question.id),
    );
  }
  function add(question: Question): void {
    if (questions.has(question.id)) return;
    questions.set(question.id, question);
    if (questions.size === 1 || !person) ask(question);
  }
  function remove(id: string): void {
    const wasAsked = oldest()?.id === id;
    if (questions.delete(id) && wasAsked && person) ask(oldest());
  }

  return {
    waiting: () => person && questions.size > 0,
    async load() {
      const { items } = await client.approvals.list({ session: session.id });
      for (const item of items) add({ id: item.id, name: item.tool, input: item.input, reason: item.reason });
    },
    see(event) {
      if (isSignal(event, 'tool:approval:requested')) add(event.payload);
      else if (isSignal(event, 'tool:approval:resolved')) remove(event.payload.id);
      else if (isSignal(event, 'turn:end')) questions.clear();
    },
    async answer(line) {
      const question = person ? oldest() : undefined;
      if (!question || line.trim().startsWith('/')) return false;
      const decision = DECISIONS[line.trim().toLowerCase()];
      if (!decision) {
        ask(question);
        return true;
      }
      try {
        await client.approvals.decide(session.id, question.id, decision);
      } catch (error) {
        if (!isAppError(error)) throw error;
        view.note(style.yellow(plainLine(describeFailure(error), 500))); // Decided elsewhere or too late: the question is over.
      }
      remove(question.id);
      return true;
    },
  };
}

function elsewhere(client: RuntimeClient, session: string, approval: string): string {
  return `It still waits for an approval: decide it with POST ${client.baseUrl}/session/${session}/approvals/${approval}, or come back with signet chat --session ${session}`;
}
