import type { CutFile, hookOperations } from '../contract/hooks.ts';
import { type Memory, QUERY_CHARS_MAX, type RecalledMemory } from '../contract/memory.ts';
import type { Caller } from '../core/caller.ts';
import { ownerOf, type Reader, type RecallQuery, type TranscriptTurn } from '../core/memory-store.ts';
import type { Handlers } from '../core/operation-call.ts';
import { redactSecrets } from '../core/transcript-redact.ts';
import { skillsOf, skillsText } from './agent-skills.ts';
import { peerLines } from './cross-agent-peers.ts';
import { type HookDeps, hookMemory } from './hook-deps.ts';
import { createHook, type HookInput, type HookSession } from './hook-session.ts';
import { MEMORIES_NOTE, MEMORY_CHECK_LOOP } from './hook-texts.ts';
import { IDENTITY_FILES, type Identity, type IdentityFile, loadIdentity } from './identity.ts';
import { type FittedFile, fitIdentity, type Receiver, receiverOf } from './identity-inject.ts';
import { cutText, type InjectSection, oneLine, packSections, quoted, sectionsChars } from './inject-text.ts';
import { MEMORIES_CHARS_MAX, type StartMemories, startMemories } from './start-memories.ts';

/** Characters of each section beside the identity files, which have all that these leave. */
const BUDGET_CHARS = {
  introduction: 320,
  skills: 900,
  memories: MEMORIES_CHARS_MAX,
  summary: 700,
  tail: 500,
  peers: 250,
} as const;
/** The same in the runtime of Signet, in characters. */
const RUNTIME_SKILLS_CHARS = 16_000;
/** Headings and blank lines of all sections beside the identity files, in characters. */
const FRAMES_CHARS = 200;
/** What a context is about stands in its first words; more would only thin out what a memory can cover. */
const CONTEXT_TERMS_MAX = 24;
/** What a context finds is shown from this score on, as for a prompt. */
const CONTEXT_SCORE_MIN = 0.25;
/** The last words of a session that a later one may start from, in characters. */
const TAIL_CHARS_MAX = 2_000;
const TAIL_LINE_CHARS_MAX = 400;
/** Harnesses end a session with this reason when the user throws it away. */
const REASON_CLEAR = 'clear';

/** Harnesses that call session-end after every turn. */
const ENDING_EACH_TURN: ReadonlySet<string> = new Set(['openclaw']);

/** Cuts the log has told of. */
const saidCuts = new Set<string>();
const SAID_CUTS_MAX = 1_000;

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
      answer: async (input, session, { caller }) => (isTurnEnd(input) ? { memoriesSaved: 0 } : endSession(deps, session, input, caller)),
    }),
  };
}

async function startSession(deps: HookDeps, session: HookSession, input: HookInput<'hookSessionStart'>) {
  const { includeRecentContext } = deps.config.hooks.sessionStart;
  const agentId = ownerOf(session.reader);
  const identity = identityFor(deps, session, agentId);
  for (const warning of identity.warnings) deps.log.warn({ agent: agentId, warning }, 'an identity file is damaged');
  const checkpoint = session.line && (await deps.sessions.resume(session.line, input.resume ?? false));
  const prompts = session.line && (await deps.lineage.checkpoint(session.line));
  const parent = { key: session.parentKey, harnessAgentId: input.harnessAgentId };
  if (session.line && (parent.key ?? parent.harnessAgentId) !== undefined) await deps.sessions.noteParent(session.line, parent);
  const { text, shown } = await memoriesFor(deps, session, input.context);
  await noteShown(deps, session, shown);

  const others: InjectSection[] = [
    { heading: 'Relevant Memories', text: text && `${MEMORIES_NOTE}\n${text}`, charsMax: BUDGET_CHARS.memories + MEMORIES_NOTE.length + 1 },
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
  const { inject, truncated } = composeInject(deps, identity, { agentId, input, others });
  const recentContext = includeRecentContext ? identity.files['MEMORY.md'] : undefined;
  const { name, description } = identity;
  return {
    identity: { name: name ?? '', ...(description === undefined ? {} : { description }) },
    memories: shown.map(hookMemory),
    ...(recentContext === undefined ? {} : { recentContext }),
    inject,
    ...(truncated.length > 0 ? { truncated } : {}),
    context: inject,
    ...keyFields(session.key),
  };
}

/** MEMORY.md is made of what is remembered of all projects: a caller of one of them begins without it. */
function identityFor(deps: HookDeps, { reader }: HookSession, agentId: string): Identity {
  const identity = loadIdentity(deps, agentId);
  if (reader.within === undefined) return identity;
  const { 'MEMORY.md': _, ...files } = identity.files;
  return { ...identity, files };
}

/** What the words of the context find, then what stands, is open and is recent without a question. */
async function memoriesFor(deps: HookDeps, session: HookSession, context: string | undefined): Promise<StartMemories> {
  const { recallLimit, recencyBias, candidatePoolLimit: poolLimit } = deps.config.hooks.sessionStart;
  if (recallLimit === 0) return { text: '', shown: [] };
  const filter = session.project === undefined ? {} : { aroundProject: session.project };
  const about = context === undefined ? [] : await recallAbout(deps, session.reader, { text: context, limit: recallLimit, filter });
  return startMemories(deps, session, { limit: recallLimit, recencyBias, filter, poolLimit }, about);
}

async function recallAbout({ memories }: HookDeps, reader: Reader, { text, limit, filter }: RecallQuery): Promise<RecalledMemory[]> {
  const asked = { text: text.slice(0, QUERY_CHARS_MAX), limit, termsMax: CONTEXT_TERMS_MAX, filter, scoreMin: CONTEXT_SCORE_MIN };
  return (await memories.recall(reader, asked)).results;
}

interface InjectParts {
  readonly agentId: string;
  readonly input: HookInput<'hookSessionStart'>;
  /** Every section behind who the agent is and what it can. */
  readonly others: readonly InjectSection[];
}

/** The other sections keep to their budgets; identity files have what the receiver takes beyond them. */
function composeInject(deps: HookDeps, identity: Identity, { agentId, input, others }: InjectParts) {
  const { includeIdentity, includeRecentContext } = deps.config.hooks.sessionStart;
  const skills = skillsText(skillsOf(deps.folder, deps.config, agentId), skillsInjectChars(input.contextTokens));
  const before: InjectSection[] = [
    { text: includeIdentity ? introductionOf(identity) : '', charsMax: BUDGET_CHARS.introduction },
    { heading: 'Skills', text: skills, charsMax: skills.length },
  ];
  const restChars = sectionsChars([...before, ...others]);
  const receiver = receiverOf(deps.config, input, identity, Math.max(restChars, restCharsMax(skills.length)));
  const names = IDENTITY_FILES.filter((file) => (file === 'MEMORY.md' ? includeRecentContext : includeIdentity));
  const { files, truncated } = fitIdentity(deps.folder, identity, names, receiver, restChars);
  noteCuts(deps.log, agentId, receiver, truncated);
  const sections = arrange(before, files, others);
  const inject = cutText(packSections(sections, receiver.injectCharsMax), receiver.injectCharsMax);
  return { inject, truncated };
}

function keyFields(key: string | undefined) {
  return key === undefined ? {} : { sessionKey: key, sessionId: key };
}

function introductionOf({ name, description }: Identity): string {
  return name === undefined ? '' : `You are ${[name, description].filter(Boolean).join(', ').replace(/\.$/, '')}.`;
}

/** Who the agent is, then what it can and knows; MEMORY.md stands behind the memories. */
function arrange(before: readonly InjectSection[], files: readonly FittedFile[], others: readonly InjectSection[]): InjectSection[] {
  const [introduction, skills] = before;
  const [memories, ...rest] = others;
  const of = (isShown: (file: IdentityFile) => boolean) =>
    files.filter(({ file }) => isShown(file)).map(({ heading, text }) => ({ heading, text, charsMax: text.length }));
  const identity = of((file) => file !== 'MEMORY.md');
  return [introduction!, ...identity, skills!, memories!, ...of((file) => file === 'MEMORY.md'), ...rest];
}

/** The most that everything beside the identity files may take of an inject, in characters. */
export function restCharsMax(skillsChars: number): number {
  const { skills: _, ...budgets } = BUDGET_CHARS;
  const own = Object.values(budgets).reduce((sum, chars) => sum + chars, 0);
  return own + skillsChars + MEMORIES_NOTE.length + MEMORY_CHECK_LOOP.length + FRAMES_CHARS;
}

/** What a list of skills may take, by who gets it, in characters. */
export function skillsInjectChars(contextTokens: number | undefined): number {
  return contextTokens === undefined ? BUDGET_CHARS.skills : RUNTIME_SKILLS_CHARS;
}

/** Once for each state of the files and each receiver: sessions begin often. */
function noteCuts(log: HookDeps['log'], agent: string, receiver: Receiver, truncated: readonly CutFile[]): void {
  if (truncated.length === 0) return;
  const said = JSON.stringify([agent, receiver.name, truncated.map(({ path, of }) => [path, of])]);
  if (saidCuts.has(said)) return;
  if (saidCuts.size >= SAID_CUTS_MAX) saidCuts.clear();
  saidCuts.add(said);
  log.warn({ category: 'agents', agent, receiver: receiver.name, truncated }, 'identity files were cut to what their receiver takes');
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
async function endSession(deps: HookDeps, session: HookSession, input: HookInput<'hookSessionEnd'>, caller: Caller | undefined) {
  const { line } = session;
  if (!line || input.reason === REASON_CLEAR) return { memoriesSaved: 0 };
  const project = session.project ?? input.cwd;
  const { harness, reason, transcriptPath, transcript } = input;
  const { turns, ...kept } = await deps.lineage.keep(line, { harness, project, transcript, transcriptPath, caller });
  await deps.sessions.end(line, { harness, project, reason, transcriptPath, tail: lastWords(turns) });
  await deps.lineage.settled(line, turns.length > 0);
  if (transcript === undefined && transcriptPath === undefined) return { memoriesSaved: 0 };
  const { problem, ...job } = input.background === false ? { queued: false } : await deps.lineage.queue(line);
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
