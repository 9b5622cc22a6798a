import { DEFAULT_AGENT } from '../contract/ids.ts';
import type { Memory } from '../contract/memory.ts';
import { AppError } from '../core/errors.ts';
import { type Decision, EXTRACTION_SCHEMA, EXTRACTION_SYSTEM, extractionPrompt, partOf, readExtraction } from '../core/extraction.ts';
import type { JobPayload, LeasedJob } from '../core/job.ts';
import { contentHash } from '../core/memory-hash.ts';
import type { MemoryDraft, SessionLine } from '../core/memory-store.ts';
import type { KeptTurn } from '../core/transcript.ts';
import { redactSecrets } from '../core/transcript-redact.ts';
import { type Ask, type JobDeps, type Outcome, readerOf } from './job-deps.ts';
import { unaskedVisibility } from './memory-input.ts';

/** Turns looked at for one part; a part holds fewer unless they are very short. */
const TURNS_MAX = 1_000;
/** What a session said that memories are looked up for: its longest turns, and the words of each. */
const LOOKUPS_MAX = 12;
const LOOKUP_CHARS_MAX = 1_000;
const HITS_PER_LOOKUP = 5;
/** Memories shown to the model. */
const KNOWN_MAX = 20;
const ANSWER_TOKENS_MAX = 4_000;

/**
 * Take facts and a summary out of the turns of one session. Nothing in a transcript can make this do more than add memories to its own scope
 * and put a newer one in the place of an older one there: those are the only two things a decision can be.
 *
 * @source spec/hooks, "Overview": session-end queues the session summary
 */
export async function runExtraction(deps: JobDeps, job: LeasedJob, ask: Ask): Promise<Outcome> {
  const line = { agentId: job.agentId, sessionKey: job.sessionKey ?? '' };
  const { from, to } = rangeOf(job.payload);
  const turns = partOf(await deps.transcripts.turns(line, { after: from - 1, limit: Math.min(to - from + 1, TURNS_MAX) }));
  const last = turns.at(-1);
  if (!last) return { done: { ...job.result, note: 'these turns are not there any more' } };
  const saidAt = Date.parse(last.at ?? '');
  const atMs = Number.isNaN(saidAt) ? job.createdAtMs : saidAt;

  const known = await knownMemories(deps, line, turns);
  const answer = await ask({
    route: 'extraction',
    system: EXTRACTION_SYSTEM,
    prompt: extractionPrompt(turns, known, atMs),
    schema: EXTRACTION_SCHEMA,
    maxTokens: ANSWER_TOKENS_MAX,
    context: { shown: known.map((memory) => memory.id) },
  });
  const shown = new Set(Array.isArray(answer.context.shown) ? answer.context.shown.map(String) : []);
  const { summary, decisions, notes } = readExtraction(answer.text, turns, shown, atMs);

  const kept = { added: [] as string[], superseded: [] as string[], known: [] as string[] };
  const project = (await deps.transcripts.line(line))?.project ?? null;
  for (const [index, decision] of decisions.entries()) {
    const { id, outcome } = await apply(deps, line, { decision, project, key: `${job.id}:${from}:${index}` });
    await deps.transcripts.linkMemory(line, id, decision.turnFrom, decision.turnTo, job.id);
    kept[outcome].push(id);
  }
  await addNode(deps, job, line, { turns, summary, project, atMs });
  const result = merged(job.result, { ...kept, notes });
  if (last.number < to) return { more: { ...job.payload, from: last.number + 1, to }, result };
  return { done: result };
}

function rangeOf({ from, to }: JobPayload): { from: number; to: number } {
  return { from: Number(from), to: Number(to) };
}

/** Memories of the session's own scope that speak of the same things; pinned ones are nobody's to replace. */
async function knownMemories(deps: JobDeps, line: SessionLine, turns: readonly KeptTurn[]): Promise<Memory[]> {
  const reader = readerOf(line.agentId);
  const scope = scopeFor(deps, line.agentId);
  const spoken = turns.filter((turn) => turn.role === 'user' || turn.role === 'assistant');
  const longest = [...spoken].sort((a, b) => b.content.length - a.content.length || a.number - b.number).slice(0, LOOKUPS_MAX);
  const found = new Map<string, Memory>();
  for (const turn of longest) {
    // The words may go to an embedder elsewhere.
    const text = redactSecrets(turn.content).slice(0, LOOKUP_CHARS_MAX);
    const { results } = await deps.memories.recall(reader, { text, limit: HITS_PER_LOOKUP, filter: { scope, pinned: false } });
    for (const memory of results) if (memory.agentId === line.agentId && found.size < KNOWN_MAX) found.set(memory.id, memory);
  }
  return [...found.values()];
}

/** What an agent's sessions say stays with it; `default` is nobody in particular. */
function scopeFor({ config }: Pick<JobDeps, 'config'>, agentId: string): MemoryDraft['scope'] {
  return unaskedVisibility(config, agentId, agentId === DEFAULT_AGENT ? 'global' : 'private');
}

interface Application {
  readonly decision: Decision;
  readonly project: string | null;
  /** The same decision again is the same memory. */
  readonly key: string;
}

async function apply(deps: JobDeps, line: SessionLine, { decision, project, key }: Application) {
  const reader = readerOf(line.agentId);
  const draft: MemoryDraft = {
    content: redactSecrets(decision.content),
    type: decision.type,
    importance: decision.importance,
    tags: [],
    pinned: false,
    who: 'extraction',
    agentId: line.agentId,
    scope: scopeFor(deps, line.agentId),
    project,
    sessionKey: line.sessionKey,
    sourceType: 'extraction',
    sourceId: line.sessionKey,
    idempotencyKey: key,
    actor: { type: 'pipeline', sessionId: line.sessionKey },
  };
  const target = decision.target === undefined ? undefined : await deps.memories.get(reader, decision.target);
  // Forgotten, pinned or said in the same words in the meantime: then there is nothing to take the place of.
  const replaces = target && !target.pinned && contentHash(target.content) !== contentHash(draft.content);
  const { memory, deduped } = await deps.memories.remember(replaces ? { ...draft, supersedes: target.id } : draft);
  const outcome = replaces ? ('superseded' as const) : deduped ? ('known' as const) : ('added' as const);
  return { id: memory.id, outcome };
}

interface Part {
  readonly turns: readonly KeptTurn[];
  readonly summary: string;
  readonly project: string | null;
  readonly atMs: number;
}

async function addNode(deps: JobDeps, job: LeasedJob, line: SessionLine, { turns, summary, project, atMs }: Part): Promise<void> {
  if (summary === '') return;
  const firstAt = Date.parse(turns[0]?.at ?? '');
  const { harness } = (await deps.transcripts.line(line)) ?? {};
  await deps.temporal.add({
    ...line,
    kind: 'session',
    project,
    harness,
    content: redactSecrets(summary),
    source: `${job.id}:${turns[0]!.number}`,
    earliestMs: Number.isNaN(firstAt) ? atMs : firstAt,
    latestMs: atMs,
  });
  if (await deps.temporal.condensable(line.agentId)) {
    const queued = await deps.jobs.add({ kind: 'condensation', agentId: line.agentId, payload: {} });
    if (!queued) throw new AppError('overloaded', { detail: 'the queue of background work is full' });
  }
}

/** Results of all parts of a long session, one after the other. */
function merged(before: JobPayload | null, now: Readonly<Record<string, readonly string[]>>): JobPayload {
  const list = (name: string): unknown[] => (Array.isArray(before?.[name]) ? (before[name] as unknown[]) : []);
  return Object.fromEntries(Object.entries(now).map(([name, values]) => [name, [...list(name), ...values]]));
}
