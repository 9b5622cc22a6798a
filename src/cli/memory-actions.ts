import type { Memory, RecalledMemory } from '../contract/memory.ts';
import { memoryOperations } from '../contract/memory.ts';
import { memoryLifecycleOperations } from '../contract/memory-lifecycle.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { type DaemonFlags, requireDaemonApi } from './daemon-api.ts';
import { readStdinText } from './stdin-text.ts';
import { formatTable } from './terminal.ts';
import { plainLine, plainText, safeJson } from './terminal-text.ts';

/** Importance of what a person asks to remember, when nothing else is said. */
const IMPORTANCE = 0.7;
const LINE_CHARS_MAX = 100;
/** A memory that is read from stdin may be so long, in characters; the daemon has the same limit. */
const STDIN_CHARS_MAX = 100_000;

type Flags = DaemonFlags & { readonly agent?: string; readonly json?: boolean };
export type RememberFlags = Flags & {
  readonly who: string;
  readonly tags?: string;
  readonly importance?: number;
  readonly type?: string;
  readonly project?: string;
  readonly private?: boolean;
  readonly critical?: boolean;
};
export type RecallFlags = Flags & {
  readonly limit: number;
  readonly type?: string;
  readonly tags?: string;
  readonly who?: string;
  readonly project?: string;
  readonly since?: string;
  readonly until?: string;
  readonly explain?: boolean;
};
export type ListFlags = Flags & {
  readonly type?: string;
  readonly tags?: string;
  readonly project?: string;
  readonly forgotten?: boolean;
  readonly limit: number;
  readonly offset: number;
};

export async function remember(context: CliContext, text: string, flags: RememberFlags): Promise<void> {
  if (flags.private && !flags.agent) throw new CliExit(EXIT.usage, '--private needs --agent: the agent whose memory it is');
  const content = text === '-' ? await readStdinText(context, 'a memory', STDIN_CHARS_MAX) : text;
  const { who, tags, type, project, critical } = flags;
  const memory = await requireDaemonApi(context, flags).call(memoryOperations.remember, {
    content,
    who,
    sourceType: 'cli',
    agentId: flags.agent,
    importance: critical ? 1 : (flags.importance ?? IMPORTANCE),
    ...(critical ? { pinned: true } : {}),
    ...(flags.private ? { scope: 'private' as const } : {}),
    ...(tags === undefined ? {} : { tags }),
    ...(type === undefined ? {} : { type }),
    ...(project === undefined ? {} : { project }),
  });
  if (flags.json) return print(context, memory);
  context.stdout.write(`${memory.id}${memory.deduped ? ' (known already)' : ''}\n`);
  if (memory.warning !== undefined) context.stderr.write(`signet: ${memory.warning}\n`);
}

export async function recall(context: CliContext, query: string, flags: RecallFlags): Promise<void> {
  const { limit, type, tags, who, project } = flags;
  const times = { since: timeOf('--since', flags.since), until: timeOf('--until', flags.until) };
  const asked = { query, limit, type, tags, who, project, ...times, agentId: flags.agent };
  const explain = flags.explain ? { explain: true } : {};
  const answer = await requireDaemonApi(context, flags).call(memoryOperations.recall, { ...asked, ...explain });
  if (flags.json) return print(context, answer);
  if (answer.results.length === 0) return void context.stderr.write('Nothing was found.\n');
  context.stdout.write(answer.results.map(formatHit).join(''));
  if (!answer.strong) context.stderr.write('No strong match: none of these may be what you look for.\n');
}

export async function listMemories(context: CliContext, flags: ListFlags): Promise<void> {
  const { type, tags, project, limit, offset, forgotten, agent: agentId } = flags;
  const page = await requireDaemonApi(context, flags).call(memoryLifecycleOperations.listMemories, {
    ...{ type, tags, project, limit, offset, forgotten, agentId },
  });
  if (flags.json) return print(context, page);
  if (page.memories.length === 0) return void context.stderr.write('No memories.\n');
  context.stdout.write(formatMemories(page.memories));
  if (page.next !== null) context.stderr.write(`${page.total - page.next} more; see them with --offset ${page.next}\n`);
}

export async function showHistory(context: CliContext, id: string, flags: Flags & { readonly limit: number }): Promise<void> {
  const asked = { id, limit: flags.limit, agentId: flags.agent };
  const answer = await requireDaemonApi(context, flags).call(memoryLifecycleOperations.memoryHistory, asked);
  if (flags.json) return print(context, answer);
  const rows = answer.history.map((entry) => [
    String(entry.version),
    entry.createdAt,
    entry.event,
    plainLine(entry.changedBy, LINE_CHARS_MAX),
    plainLine(entry.reason ?? '', LINE_CHARS_MAX),
    plainLine(entry.newContent ?? '', LINE_CHARS_MAX),
  ]);
  context.stdout.write(formatTable(['VERSION', 'AT', 'EVENT', 'BY', 'REASON', 'CONTENT'], rows));
}

/** One call a memory: each is meant, so none needs to be confirmed. Fails when one of them stays. */
/** Exit code 1 when one of the memories is not there, or not for this caller: the others are rated. */
export async function rateMemories(
  context: CliContext,
  { rating, ids }: { readonly rating: number; readonly ids: readonly string[] },
  flags: Flags & { readonly session: string },
): Promise<void> {
  const feedback = Object.fromEntries(ids.map((id) => [id, rating]));
  const asked = { sessionKey: flags.session, feedback, agentId: flags.agent };
  const answer = await requireDaemonApi(context, flags).call(memoryLifecycleOperations.memoryFeedback, asked);
  if (flags.json) print(context, answer);
  else context.stdout.write(`${answer.recorded} rated\n`);
  const missing = Object.keys(feedback).length - answer.recorded;
  if (missing > 0) throw new CliExit(EXIT.failure, `${missing} of these ids name no memory that this caller may see`);
}

export async function forgetMemories(
  context: CliContext,
  ids: readonly string[],
  flags: Flags & { readonly reason: string; readonly force?: boolean },
): Promise<void> {
  const daemon = requireDaemonApi(context, flags);
  const { reason, force = false, agent: agentId } = flags;
  const answers = [];
  for (const id of ids) {
    answers.push(await daemon.call(memoryOperations.deleteMemory, { id, reason, force, agentId }));
    // At once: if the next one fails, it is known what was done.
    if (!flags.json) context.stdout.write(`${id} forgotten; recover it within 30 days with: signet memory recover ${id}\n`);
  }
  if (flags.json) print(context, answers);
}

export async function recoverMemory(context: CliContext, id: string, flags: Flags & { readonly reason: string }): Promise<void> {
  const asked = { id, reason: flags.reason, agentId: flags.agent };
  const answer = await requireDaemonApi(context, flags).call(memoryLifecycleOperations.recoverMemory, asked);
  context.stdout.write(`${answer.id} recovered, version ${answer.newVersion}\n`);
}

export function formatMemories(memories: readonly Memory[]): string {
  const rows = memories.map((memory) => [
    memory.id,
    memory.created_at.slice(0, 10),
    plainLine(memory.type, LINE_CHARS_MAX),
    memory.importance.toFixed(2),
    memory.scope === 'global' ? memory.agentId : `${memory.agentId}, ${memory.scope}`,
    plainLine(`${memory.pinned ? '* ' : ''}${memory.content}`, LINE_CHARS_MAX),
  ]);
  return formatTable(['MEMORY', 'DAY', 'TYPE', 'WEIGHT', 'AGENT', 'CONTENT'], rows);
}

function formatHit({ id, content, type, created_at: at, score, tags, agentId, scope, match, explain }: RecalledMemory): string {
  const head = [id, `score ${score.toFixed(2)}`, type, at.slice(0, 10), agentId, scope, tags].filter(Boolean).join('  ');
  const why = explain
    ? [`${match} match; ${explain.inject}`, ...explain.parts.map(partLine)].map((line) => `    ${plainText(line)}\n`)
    : [];
  return `${plainText(content).trimEnd()}\n  ${plainText(head)}\n${why.join('')}`;
}

function partLine({ share, says }: { readonly share: number; readonly says: string }): string {
  return `${`${Math.round(share * 100)} %`.padStart(5)}  ${says}`;
}

function print(context: CliContext, value: unknown): void {
  context.stdout.write(`${safeJson(value, 2)}\n`);
}

function timeOf(flag: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new CliExit(EXIT.usage, `${flag} is no time: ${text}; write it as 2025-03-01 or 2025-03-01T12:00:00Z`);
  return new Date(ms).toISOString();
}
