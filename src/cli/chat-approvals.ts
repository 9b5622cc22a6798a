import type { RuntimeClient } from '../client/runtime-client.ts';
import { isSignal, type SessionEvent } from '../client/session-stream.ts';
import type { Session } from '../contract/session.ts';
import { isAppError } from '../core/errors.ts';
import { visibleJson, visibleStart } from '../core/visible-text.ts';
import type { ChatView } from './chat-view.ts';
import { describeFailure } from './context.ts';
import type { Style } from './terminal.ts';
import { plainLine } from './terminal-text.ts';

/** A page of a call's input fits a small terminal together with the question; unit: rows, and columns of each. */
const PAGE_ROWS = 16;
const PAGE_COLUMNS = 78;
/** An input that is no longer stands on the line of its question; unit: characters. */
const ONE_LINE_CHARS_MAX = 200;

const ROW = new RegExp(`.{1,${PAGE_COLUMNS}}`, 'gu');

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
  readonly reason: string;
  /** The whole input. */
  readonly pages: readonly string[];
  /** Pages that were shown; consent is taken after the last. */
  shown: number;
}

/** Questions about tool calls, one at a time, oldest first. */
export function createApprovals({ client, session, view, style, person }: ApprovalParts): Approvals {
  const questions = new Map<string, Question>();
  const oldest = () => questions.values().next().value;
  const { ask, turnPage } = createAsker({ client, session, view, style, person });

  function add(id: string, name: string, input: unknown, reason: string): void {
    if (questions.has(id)) return;
    const question = { id, name, reason, pages: pagesOf(input), shown: 0 };
    questions.set(id, question);
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
      for (const { id, tool, input, reason } of items) add(id, tool, input, reason);
    },
    see(event) {
      if (isSignal(event, 'tool:approval:requested')) {
        const { id, name, input, reason } = event.payload;
        add(id, name, input, reason);
      } else if (isSignal(event, 'tool:approval:resolved')) remove(event.payload.id);
      else if (isSignal(event, 'turn:end')) questions.clear();
    },
    async answer(line) {
      const question = person ? oldest() : undefined;
      if (!question || line.trim().startsWith('/')) return false;
      const decision = DECISIONS[line.trim().toLowerCase()];
      const isRead = question.shown >= question.pages.length;
      if (!isRead && decision !== 'deny') {
        // Also after `y`: nobody agrees to what was not shown.
        turnPage(question);
        return true;
      }
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

/** Shows a question: the call, its input page by page, and what may be answered. */
function createAsker({ client, session, view, style, person }: ApprovalParts) {
  function ask(question: Question | undefined): void {
    if (!question) return;
    const { id, name, pages } = question;
    const reason = question.reason ? ` (${visibleStart(question.reason, 200)})` : '';
    question.shown = 1;
    const isOneLine = pages.length === 1 && !pages[0]!.includes('\n');
    view.note(style.yellow(`${visibleStart(name, 64)} wants to run${reason}:${isOneLine ? ' ' : '\n'}${pages[0]}`));
    if (person) choose(question);
    else view.note(elsewhere(client, session.id, id));
  }
  function choose({ pages, shown }: Question): void {
    if (shown < pages.length) {
      view.note(`Page ${shown} of ${pages.length} of its input. ${style.bold('Enter')} shows the next, ${style.bold('n')} denies it`);
      return;
    }
    view.note(`Allow it? ${style.bold('y')} once, ${style.bold('a')} always in this session, ${style.bold('n')} no`);
  }
  function turnPage(question: Question): void {
    if (question.shown < question.pages.length) {
      view.note(style.yellow(question.pages[question.shown]!));
      question.shown += 1;
    }
    choose(question);
  }
  return { ask, turnPage };
}

/** All of an input, every character visible, in pieces that fit a screen; at least one. */
function pagesOf(input: unknown): string[] {
  const short = visibleJson(input);
  if (short.length <= ONE_LINE_CHARS_MAX) return [short];
  const rows = visibleJson(input, 2)
    .split('\n')
    .flatMap((line) => line.match(ROW) ?? ['']);
  const pages: string[] = [];
  for (let at = 0; at < rows.length; at += PAGE_ROWS) pages.push(rows.slice(at, at + PAGE_ROWS).join('\n'));
  return pages;
}

function elsewhere(client: RuntimeClient, session: string, approval: string): string {
  return `It still waits for an approval: decide it with POST ${client.baseUrl}/session/${session}/approvals/${approval}, or come back with signet chat --session ${session}`;
}
