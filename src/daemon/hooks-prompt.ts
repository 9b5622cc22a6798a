import type { hookOperations } from '../contract/hooks.ts';
import { QUERY_CHARS_MAX, RECALL_LIMIT_MAX, type RecalledMemory } from '../contract/memory.ts';
import { feedbackInText } from '../core/feedback-text.ts';
import { ownerOf, type Recalled } from '../core/memory-store.ts';
import type { Handlers } from '../core/operation-call.ts';
import { askedDeeds, searchText, withoutEnvelopes } from '../core/prompt-text.ts';
import { messagesFor } from './cross-agent-hook.ts';
import { type HookDeps, hookMemory } from './hook-deps.ts';
import { createHook, type HookInput, type HookSession } from './hook-session.ts';
import { MEMORIES_NOTE, NO_STRONG_MATCH, POSSIBLE_NOTE, TURN_GUIDANCE } from './hook-texts.ts';
import { packRecalled } from './inject-memories.ts';
import { besideSuccessors, notShownLately } from './inject-successors.ts';
import { cutText, localTime } from './inject-text.ts';
import { type Fallback, fallbackFor, fittingLines } from './transcript-fallback.ts';

/** What a prompt is about stands in its first words; more terms would only thin out what a memory can cover. */
const PROMPT_TERMS_MAX = 12;
/** Without a strong hit so many are shown as possibly related. */
const POSSIBLE_SHOWN_MAX = 3;
/** A memory is not shown again for so many turns, unless there is no other. */
const REPEAT_AFTER_TURNS = 5;
/** Hits beyond the limit that are looked at in place of those shown lately. */
const REPEATS_PASSED_MAX = 20;
const MEMORY_LINE_CHARS_MAX = 500;
/** Ratings taken from one call. */
const RATINGS_MAX = 200;
const STANDING_TYPES: ReadonlySet<string> = new Set(['preference', 'rule']);
const HEADING = '## Relevant Memory';

type PromptHooks = Pick<Handlers<typeof hookOperations>, 'hookUserPromptSubmit'>;

/** @source spec/hooks, "User Prompt Submit Hook" */
export function createPromptHooks(deps: HookDeps): PromptHooks {
  return {
    hookUserPromptSubmit: createHook(deps, 'hookUserPromptSubmit', {
      silent: () => ({ inject: '', memoryCount: 0, memories: [], strong: false, queryTerms: [], engine: 'none' }),
      answer: async (input, session, context) => {
        const answer = await submitPrompt(deps, session, input);
        // Last: what is noted as shown is on its way.
        const { text, shown } = await messagesFor(deps.messages, session, input, deps.config.crossAgent.injectCharsMax, context.signal);
        return shown.length === 0 ? answer : { ...answer, inject: `${answer.inject}\n\n${text}`, messages: shown };
      },
    }),
  };
}

async function submitPrompt(deps: HookDeps, session: HookSession, input: HookInput<'hookUserPromptSubmit'>) {
  await keepRatings(deps, session, { ...feedbackInText(input.lastAssistantMessage ?? ''), ...input.memory_feedback });
  const { recallLimit, injectCharsMax } = deps.config.hooks.userPromptSubmit;
  const prompt = [input.userMessage, input.userPrompt, input.prompt].find((candidate) => candidate?.trim()) ?? '';
  const said = withoutEnvelopes(prompt);
  // A recall looks at so many characters; a prompt may be a file that was pasted.
  const text = searchText(said.slice(0, QUERY_CHARS_MAX), input.lastAssistantMessage?.slice(-QUERY_CHARS_MAX));
  const recent = session.line ? await deps.sessions.recentlyInjected(session.line, REPEAT_AFTER_TURNS) : new Set<string>();
  const deeds = text === '' ? askedDeeds(said.slice(0, QUERY_CHARS_MAX)) : '';
  const limit = recallLimit && recallLimit + Math.min(recent.size, REPEATS_PASSED_MAX);
  const found = deeds === '' ? await recallFor(deps, session, text, limit) : await rulesFor(deps, session, deeds, limit);
  const { reader, project, key } = session;
  const results = await besideSuccessors(deps.memories, reader, found.results);
  const fresh = notShownLately(results, recent);
  const candidates = (fresh.some(({ match }) => match === 'strong' || match === 'possible') ? fresh : results).slice(0, recallLimit);
  const worth = worthShowing(candidates);
  const fallback =
    worth.length > 0 || recallLimit === 0 ? undefined : await fallbackFor(deps.lineage, reader, { text, project, sessionKey: key });
  if (session.line) await deps.lineage.prompted(session.line, said);
  const memories = { query: text, candidates: worth, project };
  const { inject, shown } = compose(localTime(deps.clock.now()), memories, injectCharsMax, fallback);
  if (session.line) {
    const ids = new Set(shown.map((memory) => memory.id));
    const hits = results
      .filter((result, rank) => rank < recallLimit || ids.has(result.id))
      .map(({ id, score }) => ({ memoryId: id, score, injected: ids.has(id) }));
    await deps.sessions.recordHits(session.line, hits, found.stems);
  }
  return {
    inject,
    memoryCount: shown.length,
    memories: shown.map((memory) => ({ ...hookMemory(memory), score: memory.score })),
    strong: shown.some(({ match }) => match === 'strong'),
    queryTerms: [...found.terms],
    engine: fallback?.engine ?? found.method,
    ...(found.degraded ? { degraded: found.degraded } : {}),
  };
}

/** How the person wants done what a prompt asks to be done: rules and preferences that speak of all of it, and nothing else. */
async function rulesFor(deps: HookDeps, session: HookSession, deeds: string, limit: number): Promise<Recalled> {
  const found = await recallFor(deps, session, deeds, limit);
  const results = found.results.filter(({ type, score }) => STANDING_TYPES.has(type) && score === 1);
  return { ...found, results, strong: results.some(({ match }) => match === 'strong') };
}

/** What is sure enough to be shown: beside a strong match all that may be related, without one the first few. */
function worthShowing(candidates: readonly RecalledMemory[]): RecalledMemory[] {
  if (candidates.some(({ match }) => match === 'strong')) return candidates.filter(({ match }) => match !== 'none');
  return candidates.filter(({ match }) => match === 'possible').slice(0, POSSIBLE_SHOWN_MAX);
}

async function recallFor(deps: HookDeps, session: HookSession, text: string, limit: number): Promise<Recalled> {
  if (limit === 0) return { results: [], method: 'none', strong: false, terms: [], stems: [] };
  return deps.memories.recall(session.reader, {
    text: text.slice(0, QUERY_CHARS_MAX),
    limit: Math.min(limit, RECALL_LIMIT_MAX),
    termsMax: PROMPT_TERMS_MAX,
    filter: session.project === undefined ? {} : { aroundProject: session.project },
  });
}

async function keepRatings(deps: HookDeps, session: HookSession, ratings: Readonly<Record<string, number>>): Promise<void> {
  const kept = Object.entries(ratings).slice(0, RATINGS_MAX);
  if (kept.length === 0) return;
  const line = session.line ?? { agentId: ownerOf(session.reader), sessionKey: '' };
  await deps.sessions.feedback(session.reader, line, Object.fromEntries(kept));
}

/** Date, memories or the word that there are none, guidance; never beyond `charsMax`. */
function compose(
  time: string,
  {
    query,
    candidates,
    project,
  }: { readonly query: string; readonly candidates: readonly RecalledMemory[]; readonly project?: string | undefined },
  charsMax: number,
  fallback: Fallback | undefined,
): { inject: string; shown: RecalledMemory[] } {
  const date = `Now: ${time}`;
  const frame = [date, `${HEADING}\n\n${POSSIBLE_NOTE}\n`, TURN_GUIDANCE].join('\n\n').length;
  const left = charsMax - frame;
  const note = candidates.some(({ match }) => match === 'strong') ? MEMORIES_NOTE : POSSIBLE_NOTE;
  const { text, shown } = packRecalled(candidates, query, left, Math.min(MEMORY_LINE_CHARS_MAX, left - 1), project);
  const earlier = fallback && fittingLines(fallback.lines, left + POSSIBLE_NOTE.length - fallback.note.length);
  const found = shown.length > 0 ? `${note}\n${text}` : earlier && `${fallback.note}\n${earlier}`;
  const parts = [date, found ? `${HEADING}\n\n${found}` : NO_STRONG_MATCH, TURN_GUIDANCE];
  return { inject: cutText(parts.join('\n\n'), charsMax), shown };
}
