import type { CallerLimit } from '../contract/scope.ts';
import type { StoredTurn, transcriptOperations } from '../contract/transcript.ts';
import { type Owner, requireWithin } from '../core/caller-scope.ts';
import { isoTime } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import { ownerOf, type SessionLine, scopeOf } from '../core/memory-store.ts';
import type { Handlers, RequestContext } from '../core/operation-call.ts';
import type { KeptTurn } from '../core/transcript.ts';
import type { ContinuityStore } from '../core/transcript-continuity.ts';
import { redactSecrets } from '../core/transcript-redact.ts';
import { agentOf, askingAgent, plainKey } from './hook-session.ts';
import type { JobDeps } from './job-deps.ts';

/** Ratings of one key that are shown. */
const SCORES_MAX = 50;
const RELEVANCE_MAX = 200;
/** Turns of one memory's source that are shown. */
const SOURCE_TURNS_MAX = 20;
const CHARS_PER_TOKEN = 4;

export interface TranscriptDeps extends JobDeps {
  readonly keyOwners: (key: string) => Promise<readonly Owner[]>;
}

/** Handlers of what sessions left behind. Each agent sees its own; without an agent those of `default`. */
export function createTranscriptHandlers(deps: TranscriptDeps): Handlers<typeof transcriptOperations> {
  return {
    getTranscript: async ({ key, agentId, after, limit }, context) => {
      const line = lineOf(key, agentId, context);
      await requireLine(deps, line, context.caller);
      const known = await deps.transcripts.line(line);
      if (!known) {
        const detail = `no turns are kept for session ${JSON.stringify(line.sessionKey)} of agent ${line.agentId}; they arrive when a session ends`;
        throw new AppError('transcript_not_found', { detail });
      }
      const turns = await deps.transcripts.turns(line, { after, limit });
      const last = turns.at(-1)?.number ?? after;
      const { harness, project, turns: total } = known;
      return { ...line, harness, project, turns: turns.map(storedTurn), total, next: last < total && turns.length > 0 ? last : null };
    },
    searchTranscripts: async ({ query, agentId, project, sessionKey, limit }, context) => {
      const owner = ownerOf(scopeOf(agentOf(agentId, context)));
      const hits = await deps.transcripts.search(owner, {
        text: query,
        project,
        sessionKey: sessionKey === undefined ? undefined : plainKey(sessionKey),
        limit,
      });
      const results = hits.map((hit) => ({ ...storedTurn(hit), sessionKey: hit.sessionKey, project: hit.project, score: hit.score }));
      return { results, count: results.length };
    },
    getContinuity: async ({ key, agentId }, context) => {
      const line = lineOf(key, agentId, context);
      await requireLine(deps, line, context.caller);
      return showContinuity(deps, line);
    },
    listSummaries: async ({ agentId, sessionKey, ...filter }, context) => {
      const owner = ownerOf(scopeOf(agentOf(agentId, context)));
      const key = sessionKey === undefined ? {} : { sessionKey: plainKey(sessionKey) };
      const { nodes, total } = await deps.temporal.list(owner, { ...filter, ...key });
      const summaries = nodes.map((node) => ({
        ...node,
        agent_id: node.agentId,
        session_key: node.sessionKey,
        token_count: Math.ceil(node.content.length / CHARS_PER_TOKEN),
        earliest_at: node.earliestAt,
        latest_at: node.latestAt,
        created_at: node.createdAt,
      }));
      return { summaries, total };
    },
    memorySources: async ({ id, agentId }, context) => {
      const reader = scopeOf(agentOf(agentId, context), context.caller);
      if (!(await deps.memories.get(reader, id))) {
        throw new AppError('memory_not_found', { detail: `no memory ${id} that this caller may see` });
      }
      // A memory may be seen by all; what was said around it is the business of the agent that said it.
      const owner = ownerOf(reader);
      const sources = await sourcesWithin(deps, await deps.transcripts.sources(owner, id), owner, context.caller);
      return { id, sources: await Promise.all(sources.map((source) => withTurns(deps, owner, source))) };
    },
  };
}

/** A line of another project, or of none that is known, is not shown to a token for one project. @throws AppError forbidden, session_not_found */
async function requireLine({ keyOwners }: TranscriptDeps, { agentId, sessionKey }: SessionLine, limit: CallerLimit = {}): Promise<void> {
  if (limit.project === undefined) return;
  const owners = (await keyOwners(sessionKey)).filter(({ agent }) => agent === agentId);
  if (owners.length === 0)
    throw new AppError('session_not_found', { detail: `no session ${JSON.stringify(sessionKey)} of agent ${agentId}` });
  for (const owner of owners) requireWithin({ project: limit.project }, owner);
}

async function sourcesWithin<T extends { readonly sessionKey: string }>(
  { transcripts }: TranscriptDeps,
  sources: readonly T[],
  agentId: string,
  { project }: CallerLimit = {},
): Promise<readonly T[]> {
  if (project === undefined) return sources;
  const projects = await Promise.all(sources.map(({ sessionKey }) => transcripts.line({ agentId, sessionKey })));
  return sources.filter((_source, index) => projects[index]?.project === project);
}

async function showContinuity({ continuity }: JobDeps, line: SessionLine) {
  const checkpoint = await checkpointOf(continuity, line);
  const scores = await continuity.scores(line, SCORES_MAX);
  const memories = await continuity.relevance(line, RELEVANCE_MAX);
  return {
    ...line,
    checkpoint: checkpoint ? { text: checkpoint.text, at: isoTime(checkpoint.atMs) } : null,
    scores: scores.map(({ atMs, ...score }) => ({ ...score, at: isoTime(atMs) })),
    memories: memories.map(({ memoryId, relevance, atMs }) => ({ id: memoryId, relevance, at: isoTime(atMs) })),
  };
}

/** What session-start begins with: the summary of the last compaction, then the last prompts, else the last words. */
async function checkpointOf(continuity: ContinuityStore, line: SessionLine): Promise<{ text: string; atMs: number } | undefined> {
  const prompts = await continuity.checkpoint(line);
  const words = await continuity.lastWords(line);
  const parts = [words?.summary, prompts?.text ?? words?.tail].filter((part) => part !== undefined);
  if (parts.length === 0) return undefined;
  // Older last words were stored as they were said.
  return { text: redactSecrets(parts.join('\n\n')), atMs: prompts?.atMs ?? words?.atMs ?? 0 };
}

async function withTurns(deps: JobDeps, agentId: string, source: { sessionKey: string; from: number; to: number }) {
  const { sessionKey, from, to } = source;
  const turns = await deps.transcripts.turns(
    { agentId, sessionKey },
    { after: from - 1, limit: Math.min(to - from + 1, SOURCE_TURNS_MAX) },
  );
  return { ...source, turns: turns.map(storedTurn) };
}

function lineOf(key: string, agentId: string | undefined, context: RequestContext): SessionLine {
  const sessionKey = plainKey(key);
  return { agentId: ownerOf(scopeOf(askingAgent({ agentId, sessionKey }, context))), sessionKey };
}

function storedTurn({ number, role, content, at }: KeptTurn): StoredTurn {
  return { number, role, content, at: at ?? null };
}
