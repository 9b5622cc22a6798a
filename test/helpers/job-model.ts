import type { JobKind } from '../../src/contract/jobs.ts';
import type { Reply } from './model-server/reply.ts';
import type { ModelRequest } from './model-server/request.ts';
import type { ModelServer } from './model-server/server.ts';

/** Words by which the instructions of a job are told apart. */
const MARKS: Readonly<Record<JobKind, string>> = {
  extraction: 'You keep the long-term memory',
  continuity: 'You judge how well',
  condensation: 'You condense summaries',
  synthesis: 'You write MEMORY.md',
};

type Said = (prompt: string) => unknown;

/** What the model answers to each kind of job: an object as JSON, a text as it is. Kinds left out get an answer that does nothing. */
export function answerJobs(model: ModelServer, answers: Partial<Record<JobKind, Said>>): void {
  const idle: Record<JobKind, Said> = {
    extraction: () => ({ summary: '', facts: [] }),
    continuity: () => ({ score: 0.5, confidence: 0.5, reasoning: '', memories: [] }),
    condensation: () => ({ summary: 'condensed' }),
    synthesis: () => '# Memory\n\nNothing yet.',
  };
  model.respond((request): Reply | undefined => {
    const kind = jobKindOf(request);
    if (kind === undefined) return undefined;
    const answer = (answers[kind] ?? idle[kind])(promptOf(request));
    return { text: typeof answer === 'string' ? answer : JSON.stringify(answer) };
  });
}

/** Undefined for a call that is no job's. */
export function jobKindOf(request: ModelRequest): JobKind | undefined {
  const text = JSON.stringify(request.body);
  return (Object.keys(MARKS) as JobKind[]).find((kind) => text.includes(MARKS[kind]));
}

/** What a chat completion was asked by its user. */
export function promptOf({ body }: ModelRequest): string {
  const messages = body.messages as { role: string; content: unknown }[];
  const said = messages.findLast((message) => message.role === 'user')?.content;
  return typeof said === 'string' ? said : (said as { text?: string }[]).map((part) => part.text ?? '').join('');
}
