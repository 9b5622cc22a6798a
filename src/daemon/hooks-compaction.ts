import type { hookOperations } from '../contract/hooks.ts';
import { MEMORY_CHARS_MAX } from '../contract/memory.ts';
import type { Caller } from '../core/caller.ts';
import { ownerOf } from '../core/memory-store.ts';
import type { Handlers } from '../core/operation-call.ts';
import { redactSecrets } from '../core/transcript-redact.ts';
import type { HookDeps } from './hook-deps.ts';
import { createHook, type HookInput, type HookSession } from './hook-session.ts';
import { MEMORIES_NOTE, SUMMARY_GUIDELINES, SUMMARY_INSTRUCTION } from './hook-texts.ts';
import { cutText, packMemories } from './inject-text.ts';
import { unaskedVisibility } from './memory-input.ts';

/** Recent memories shown to the summary, in characters. */
const RECENT_CHARS_MAX = 2_000;
const MEMORY_LINE_CHARS_MAX = 300;
/** What the harness says of its session so far, in characters: the model holds the session itself. */
const CONTEXT_CHARS_MAX = 20_000;
/** What was stored last matters most here: the summary need not say it again. */
const RECENCY_BIAS = 0.9;
const SUMMARY_IMPORTANCE = 0.8;

type CompactionHooks = Pick<Handlers<typeof hookOperations>, 'hookPreCompaction' | 'hookCompactionComplete'>;

/** @source spec/hooks, "Pre-Compaction Hook" and "Compaction Complete Hook" */
export function createCompactionHooks(deps: HookDeps): CompactionHooks {
  return {
    hookPreCompaction: createHook(deps, 'hookPreCompaction', {
      silent: () => ({ summaryPrompt: '', guidelines: '', instructions: '' }),
      answer: (input, session) => prepareSummary(deps, session, input),
    }),
    hookCompactionComplete: createHook(deps, 'hookCompactionComplete', {
      silent: () => ({ success: true as const, memoryId: '' }),
      answer: (input, session, { caller }) => keepSummary(deps, session, input, caller),
    }),
  };
}

async function prepareSummary(deps: HookDeps, { reader, project }: HookSession, input: HookInput<'hookPreCompaction'>) {
  const { messageCount, sessionContext } = input;
  const { includeRecentMemories, memoryLimit, summaryGuidelines } = deps.config.hooks.preCompaction;
  const guidelines = summaryGuidelines ?? SUMMARY_GUIDELINES;
  const filter = project === undefined ? {} : { aroundProject: project };
  const wanted = includeRecentMemories && memoryLimit > 0;
  const recent = wanted ? await deps.memories.ranked(reader, { limit: memoryLimit, recencyBias: RECENCY_BIAS, filter }) : [];
  const { text } = packMemories(recent, RECENT_CHARS_MAX, MEMORY_LINE_CHARS_MAX);
  const parts = [SUMMARY_INSTRUCTION, guidelines];
  if (messageCount !== undefined) parts.push(`The session holds ${messageCount} messages.`);
  if (sessionContext !== undefined) parts.push(`## Session So Far\n\n${cutText(redactSecrets(sessionContext), CONTEXT_CHARS_MAX)}`);
  if (text !== '') parts.push(`## Already Remembered\n\n${MEMORIES_NOTE}\n${text}`);
  const summaryPrompt = parts.join('\n\n');
  return { summaryPrompt, guidelines, instructions: summaryPrompt };
}

function tooLong(chars: number): string {
  return `the summary has ${chars} characters, a memory at most ${MEMORY_CHARS_MAX}: it is kept whole; injects show parts of it`;
}

/** The summary belongs to its agent alone; without one it is global, unless `memory.defaultVisibility` says otherwise. */
async function keepSummary(deps: HookDeps, session: HookSession, input: HookInput<'hookCompactionComplete'>, caller: Caller | undefined) {
  const { reader, line } = session;
  const { harness, transcript, transcriptPath } = input;
  const summary = redactSecrets(input.summary);
  // A transcript knows its project; the request's is for compactions that come before any transcript.
  const project = (line && (await deps.sessions.projectOf(line))) ?? session.project;
  const { turns: _, ...kept } = line
    ? await deps.lineage.keep(line, { harness, project, transcript, transcriptPath, caller })
    : { turns: [] };
  const { memory } = await deps.memories.remember({
    content: summary,
    type: 'session_summary',
    importance: SUMMARY_IMPORTANCE,
    tags: ['session', 'summary', input.harness],
    pinned: false,
    who: 'system',
    agentId: ownerOf(reader),
    scope: unaskedVisibility(deps.config, ownerOf(reader), reader.agentId === null ? 'global' : 'private'),
    project,
    sessionKey: session.key,
    sourceType: input.harness,
    sourceId: session.key,
  });
  if (line) await deps.sessions.compacted(line, summary);
  await deps.lineage.compacted(ownerOf(reader), { sessionKey: session.key, content: summary, memoryId: memory.id, harness, project });
  const asked = transcript !== undefined || transcriptPath !== undefined;
  const warning = summary.length > MEMORY_CHARS_MAX ? { warning: tooLong(summary.length) } : {};
  return { success: true as const, memoryId: memory.id, ...(asked && 'total' in kept ? { transcript: kept } : {}), ...warning };
}
