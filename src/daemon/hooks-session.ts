import type { hookOperations } from '../contract/hooks.ts';
import type { Memory } from '../contract/memory.ts';
import { ownerOf, type TranscriptTurn } from '../core/memory-store.ts';
import type { Handlers } from '../core/operation-call.ts';
import { type HookDeps, hookMemory } from './hook-deps.ts';
import { createHook, type HookInput, type HookSession } from './hook-session.ts';
import { MEMORIES_NOTE, MEMORY_CHECK_LOOP } from './hook-texts.ts';
import { type Identity, loadIdentity } from './identity.ts';
import { cutText, type InjectSection, oneLine, packMemories, packSections, quoted } from './inject-text.ts';

/** Session start's whole inject, in characters (about 2,500 tokens). The budgets below add up to less, so that no section pushes out another. */
export const SESSION_INJECT_CHARS_MAX = 9_800;
const BUDGET_CHARS = {
  introduction: 320,
  agents: 2_000,
  soul: 1_000,
  identity: 500,
  user: 900,
  memories: 1_500,
  recentContext: 1_200,
  summary: 700,
  tail: 500,
} as const;
const MEMORY_LINE_CHARS_MAX = 400;
/** The last words of a session that a later one may start from, in characters. */
const TAIL_CHARS_MAX = 2_000;
const TAIL_LINE_CHARS_MAX = 400;
/** Harnesses end a session with this reason when the user throws it away. */
const REASON_CLEAR = 'clear';

type SessionHooks = Pick<Handlers<typeof hookOperations>, 'hookSessionStart' | 'hookSessionEnd'>;

/** @source spec/hooks, "Session Start Hook" */
export function createSessionHooks(deps: HookDeps): SessionHooks {
  return {
    hookSessionStart: createHook(deps, 'hookSessionStart', {
      claim: 'renew',
      silent: () => ({ inject: '', memories: [] }),
      answer: (input, session) => startSession(deps, session, input.resume ?? false),
    }),
    hookSessionEnd: createHook(deps, 'hookSessionEnd', {
      claim: 'end',
      silent: () => ({ memoriesSaved: 0 }),
      answer: (input, session) => endSession(deps, session, input),
    }),
  };
}

async function startSession(deps: HookDeps, session: HookSession, resume: boolean) {
  const { includeIdentity, includeRecentContext, recallLimit, recencyBias } = deps.config.hooks.sessionStart;
  const identity = loadIdentity(deps, ownerOf(session.reader));
  const checkpoint = session.line && (await deps.sessions.resume(session.line, resume));
  const filter = session.project === undefined ? {} : { aroundProject: session.project };
  const ranked = recallLimit === 0 ? [] : await deps.memories.ranked(session.reader, { limit: recallLimit, recencyBias, filter });
  const { text, shown } = packMemories(ranked, BUDGET_CHARS.memories, MEMORY_LINE_CHARS_MAX);
  await noteShown(deps, session, shown);

  const recentContext = includeRecentContext ? identity.files['MEMORY.md'] : undefined;
  const sections: InjectSection[] = [
    ...(includeIdentity ? identitySections(identity) : []),
    { heading: 'Relevant Memories', text: text && `${MEMORIES_NOTE}\n${text}`, charsMax: BUDGET_CHARS.memories + MEMORIES_NOTE.length + 1 },
    { heading: 'Recent Context', text: recentContext ?? '', charsMax: BUDGET_CHARS.recentContext },
    { heading: 'Checkpoint', text: quoted(checkpoint?.summary ?? ''), charsMax: BUDGET_CHARS.summary },
    { heading: 'Where The Last Session Ended', text: quoted(checkpoint?.tail ?? ''), charsMax: BUDGET_CHARS.tail },
    { heading: 'Memory Check Loop', text: MEMORY_CHECK_LOOP, charsMax: MEMORY_CHECK_LOOP.length },
  ];
  const { name, description } = identity;
  return {
    ...(includeIdentity && name !== undefined ? { identity: { name, ...(description === undefined ? {} : { description }) } } : {}),
    memories: shown.map(hookMemory),
    ...(recentContext === undefined ? {} : { recentContext }),
    inject: packSections(sections, SESSION_INJECT_CHARS_MAX),
    ...(session.key === undefined ? {} : { sessionKey: session.key }),
  };
}

function identitySections({ name, description, files }: Identity): InjectSection[] {
  const introduction = name === undefined ? '' : `You are ${[name, description].filter(Boolean).join(', ').replace(/\.$/, '')}.`;
  return [
    { text: introduction, charsMax: BUDGET_CHARS.introduction },
    { heading: 'Agent Instructions', text: files['AGENTS.md'] ?? '', charsMax: BUDGET_CHARS.agents },
    { heading: 'Soul', text: files['SOUL.md'] ?? '', charsMax: BUDGET_CHARS.soul },
    { heading: 'Identity', text: files['IDENTITY.md'] ?? '', charsMax: BUDGET_CHARS.identity },
    { heading: 'About The User', text: files['USER.md'] ?? '', charsMax: BUDGET_CHARS.user },
  ];
}

/** The first prompts need not repeat what the session began with. */
async function noteShown(deps: HookDeps, session: HookSession, shown: readonly Memory[]): Promise<void> {
  if (!session.line || shown.length === 0) return;
  const hits = shown.map((memory) => ({ memoryId: memory.id, score: 0, injected: true }));
  await deps.sessions.recordHits(session.line, hits);
}

/** The path of a transcript is kept as lineage and never opened: a hook must not make the daemon read files for its caller. */
async function endSession(deps: HookDeps, { line, project }: HookSession, input: HookInput<'hookSessionEnd'>) {
  if (line && input.reason !== REASON_CLEAR) {
    const turns = input.transcript ?? [];
    await deps.sessions.end(line, {
      harness: input.harness,
      project: project ?? input.cwd,
      reason: input.reason,
      transcriptPath: input.transcriptPath,
      turns,
      tail: lastWords(turns),
    });
  }
  return { memoriesSaved: 0 };
}

function lastWords(turns: readonly TranscriptTurn[]): string | undefined {
  const lines: string[] = [];
  let left = TAIL_CHARS_MAX;
  for (let index = turns.length - 1; index >= 0 && left > 0; index -= 1) {
    const { role, content } = turns[index]!;
    const line = cutText(`${oneLine(role)}: ${oneLine(content)}`, Math.min(left, TAIL_LINE_CHARS_MAX));
    left -= line.length + 1;
    if (line !== '') lines.push(line);
  }
  return lines.reverse().join('\n') || undefined;
}
