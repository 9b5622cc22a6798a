import type { hookOperations } from '../contract/hooks.ts';
import type { Memory } from '../contract/memory.ts';
import { ownerOf, type TranscriptTurn } from '../core/memory-store.ts';
import type { Handlers } from '../core/operation-call.ts';
import { redactSecrets } from '../core/transcript-redact.ts';
import { peerLines } from './cross-agent-peers.ts';
import { type HookDeps, hookMemory } from './hook-deps.ts';
import { createHook, type HookInput, type HookSession } from './hook-session.ts';
import { MEMORIES_NOTE, MEMORY_CHECK_LOOP } from './hook-texts.ts';
import { type Identity, loadIdentity } from './identity.ts';
import { cutText, type InjectSection, oneLine, packMemories, packSections, quoted } from './inject-text.ts';

/** Characters of each section. They add up to less than the whole inject has by default, so that no section pushes out another. */
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
  peers: 250,
} as const;
const MEMORY_LINE_CHARS_MAX = 400;
/** The last words of a session that a later one may start from, in characters. */
const TAIL_CHARS_MAX = 2_000;
const TAIL_LINE_CHARS_MAX = 400;
/** Harnesses end a session with this reason when the user throws it away. */
const REASON_CLEAR = 'clear';

/** Harnesses that call session-end after every turn. */
const ENDING_EACH_TURN: ReadonlySet<string> = new Set(['openclaw']);

type SessionHooks = Pick<Handlers<typeof hookOperations>, 'hookSessionStart' | 'hookSessionEnd'>;

/** @source spec/hooks, "Session Start Hook" */
export function createSessionHooks(deps: HookDeps): SessionHooks {
  return {
    hookSessionStart: createHook(deps, 'hookSessionStart', {
      claim: 'renew',
      silent: ({ key }) => ({ identity: { name: '' }, memories: [], recentContext: '', inject: '', context: '', ...keyFields(key) }),
      answer: (input, session) => startSession(deps, session, input),
    }),
    hookSessionEnd: createHook(deps, 'hookSessionEnd', {
      claim: 'end',
      isOver: (input) => !isTurnEnd(input),
      silent: () => ({ memoriesSaved: 0 }),
      answer: async (input, session) => (isTurnEnd(input) ? { memoriesSaved: 0 } : endSession(deps, session, input)),
    }),
  };
}

async function startSession(deps: HookDeps, session: HookSession, input: HookInput<'hookSessionStart'>) {
  const { includeIdentity, includeRecentContext, recallLimit, recencyBias, candidatePoolLimit, maxInjectChars } =
    deps.config.hooks.sessionStart;
  const identity = loadIdentity(deps, ownerOf(session.reader));
  for (const warning of identity.warnings) deps.log.warn({ agent: ownerOf(session.reader), warning }, 'an identity file is damaged');
  const checkpoint = session.line && (await deps.sessions.resume(session.line, input.resume ?? false));
  const prompts = session.line && (await deps.lineage.checkpoint(session.line));
  const parent = { key: session.parentKey, harnessAgentId: input.harnessAgentId };
  if (session.line && (parent.key ?? parent.harnessAgentId) !== undefined) await deps.sessions.noteParent(session.line, parent);
  const filter = session.project === undefined ? {} : { aroundProject: session.project };
  const ranked =
    recallLimit === 0
      ? []
      : await deps.memories.ranked(session.reader, { limit: recallLimit, recencyBias, filter, poolLimit: candidatePoolLimit });
  const { text, shown } = packMemories(ranked, BUDGET_CHARS.memories, MEMORY_LINE_CHARS_MAX);
  await noteShown(deps, session, shown);

  const recentContext = includeRecentContext ? identity.files['MEMORY.md'] : undefined;
  const sections: InjectSection[] = [
    ...(includeIdentity ? identitySections(identity) : []),
    { heading: 'Relevant Memories', text: text && `${MEMORIES_NOTE}\n${text}`, charsMax: BUDGET_CHARS.memories + MEMORIES_NOTE.length + 1 },
    { heading: 'Recent Context', text: recentContext ?? '', charsMax: BUDGET_CHARS.recentContext },
    { heading: 'Checkpoint', text: quoted(redactSecrets(checkpoint?.summary ?? '')), charsMax: BUDGET_CHARS.summary },
    // Older last words were stored as they were said.
    {
      heading: 'Where The Last Session Ended',
      text: quoted(redactSecrets(prompts ?? checkpoint?.tail ?? '')),
      charsMax: BUDGET_CHARS.tail,
    },
    { heading: 'Other Sessions On This Project', text: await peerLines(deps.presence, session), charsMax: BUDGET_CHARS.peers },
    { heading: 'Memory Check Loop', text: MEMORY_CHECK_LOOP, charsMax: MEMORY_CHECK_LOOP.length },
  ];
  const inject = cutText(packSections(sections, maxInjectChars), maxInjectChars);
  const { name, description } = identity;
  return {
    identity: { name: name ?? '', ...(description === undefined ? {} : { description }) },
    memories: shown.map(hookMemory),
    ...(recentContext === undefined ? {} : { recentContext }),
    inject,
    context: inject,
    ...keyFields(session.key),
  };
}

function keyFields(key: string | undefined) {
  return key === undefined ? {} : { sessionKey: key, sessionId: key };
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

/** The session goes on: its claim, its bypass and what it was shown are kept until it falls silent, or ends with a transcript or a reason. */
function isTurnEnd({ harness, reason, transcript, transcriptPath }: HookInput<'hookSessionEnd'>): boolean {
  return ENDING_EACH_TURN.has(harness.toLowerCase()) && reason === undefined && transcript === undefined && transcriptPath === undefined;
}

/** Raw turns first; what a model makes of them comes later, from the queue. */
async function endSession(deps: HookDeps, session: HookSession, input: HookInput<'hookSessionEnd'>) {
  const { line } = session;
  if (!line || input.reason === REASON_CLEAR) return { memoriesSaved: 0 };
  const project = session.project ?? input.cwd;
  const { harness, reason, transcriptPath, transcript } = input;
  const { turns, ...kept } = await deps.lineage.keep(line, { harness, project, transcript, transcriptPath });
  await deps.sessions.end(line, { harness, project, reason, transcriptPath, tail: lastWords(turns) });
  await deps.lineage.settled(line, turns.length > 0);
  if (transcript === undefined && transcriptPath === undefined) return { memoriesSaved: 0 };
  const { problem, ...job } = await deps.lineage.queue(line);
  return { memoriesSaved: 0, ...job, transcript: { ...kept, ...(problem === undefined ? {} : { problem }) } };
}

function lastWords(turns: readonly TranscriptTurn[]): string | undefined {
  const lines: string[] = [];
  let left = TAIL_CHARS_MAX;
  for (let index = turns.length - 1; index >= 0 && left > 0; index -= 1) {
    const { role, content } = turns[index]!;
    const line = cutText(`${oneLine(role)}: ${oneLine(redactSecrets(content))}`, Math.min(left, TAIL_LINE_CHARS_MAX));
    left -= line.length + 1;
    if (line !== '') lines.push(line);
  }
  return lines.reverse().join('\n') || undefined;
}
