import type { SessionClaim } from '../contract/daemon.ts';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import type { Memory, MemoryHistoryEntry, RecalledMemory, Scope } from '../contract/memory.ts';
import type { CallerLimit } from '../contract/scope.ts';

declare const madeByScopeOf: unique symbol;

/** On whose behalf memories are read or changed; made by `scopeOf` alone, demanded by every method that touches a memory. */
export interface Reader {
  /** Null sees global memories only. */
  readonly agentId: string | null;
  /** Agents whose global memories it sees; undefined means all. Set by the store, from the policies of the roster. */
  readonly circle?: readonly string[] | undefined;
  /** Memories of this project alone, and with `orNone` those that belong to none; undefined for those of all projects. */
  readonly within?: ProjectLimit | undefined;
  /** Changes memories of its own agent alone, whichever others it sees. */
  readonly changesOwn?: boolean;
  /** Agents whose global memories recall counts apart, because some reader sees only some of them. */
  readonly apart?: readonly string[];
  readonly [madeByScopeOf]: true;
}

export interface ProjectLimit {
  readonly project: string;
  readonly orNone: boolean;
}

/**
 * An agent sees global memories and its own private ones; without an agent, global ones only.
 *
 * @param limit   of the caller: only memories of its project are seen, and only those of its agent changed
 * @param orNone  memories without a project are seen under a limit as well, as hooks do
 * @source spec/multi-agent, "buildAgentScopeClause"
 */
export function scopeOf(agentId: string | null | undefined, limit: CallerLimit = {}, orNone = false): Reader {
  return {
    agentId: agentId ?? null,
    ...(limit.project === undefined ? {} : { within: { project: limit.project, orNone } }),
    ...(limit.agent === undefined ? {} : { changesOwn: true }),
  } as Reader;
}

/** The agent that owns what a reader writes. */
export function ownerOf(reader: Reader): string {
  return reader.agentId ?? DEFAULT_AGENT;
}

export interface MemoryDraft {
  readonly content: string;
  readonly type: string;
  readonly importance: number;
  readonly tags: readonly string[];
  readonly pinned: boolean;
  readonly who: string;
  readonly agentId: string;
  readonly scope: Exclude<Scope, 'archived'>;
  readonly project?: string | null;
  readonly sessionKey?: string | null;
  readonly sourceType: string;
  readonly sourceId?: string | null;
  readonly idempotencyKey?: string | null;
  /** Back-dated import, ms since 1970. */
  readonly createdAtMs?: number;
  /** Id of the memory this one takes the place of; the caller has seen to it that the writer may see that one. */
  readonly supersedes?: string;
  /** The only project whose memories the writer may learn of: what is known already in another one is refused, not answered. */
  readonly withinProject?: string | undefined;
  /** The writer changes memories of its own agent alone. */
  readonly changesOwn?: boolean | undefined;
  readonly actor?: Actor;
}

/** Who is behind a change, as far as the caller says; for the record, never for rights. */
export interface Actor {
  /** operator, pipeline, harness, sdk or daemon. */
  readonly type?: string;
  readonly sessionId?: string;
  readonly requestId?: string;
}

/** All given filters hold at once. */
export interface MemoryFilter {
  /** This project alone. */
  readonly project?: string;
  /** This project, memories without one, and preferences of any. */
  readonly aroundProject?: string;
  /** What the reader is limited to; the scope of every statement says the same. */
  readonly within?: ProjectLimit;
  readonly type?: string;
  /** Narrows what the reader may see to one scope; never widens it. */
  readonly scope?: Exclude<Scope, 'archived'>;
  /** Every one of them; case does not matter. */
  readonly tags?: readonly string[];
  readonly who?: string;
  readonly sourceType?: string;
  readonly pinned?: boolean;
  readonly importanceMin?: number;
  readonly sinceMs?: number;
  readonly untilMs?: number;
}

export interface RecallQuery {
  /** Free text; nothing in it is an operator. */
  readonly text: string;
  readonly limit: number;
  /** Distinct terms that count, default TERMS_MAX. */
  readonly termsMax?: number;
  /** Least score, 0..1. */
  readonly scoreMin?: number;
  /** Leave out what holds no word of the query, such as what was said right before or after it. */
  readonly wordsOnly?: boolean;
  /** Say with each result why it stands where it stands. */
  readonly explain?: boolean;
  /** The text as a vector: memories are then searched by meaning as well. */
  readonly vector?: QueryVector;
  readonly filter?: MemoryFilter;
}

/** A text as numbers; only vectors of one model and length can be compared. */
export interface QueryVector {
  readonly provider: string;
  readonly model: string;
  readonly dimensions: number;
  readonly vector: ArrayLike<number>;
}

export interface Recalled {
  /** Best first. */
  readonly results: RecalledMemory[];
  /** `fts` while the index is being built, `none` when nothing holds a word of the query. */
  readonly method: 'keyword' | 'hybrid' | 'fts' | 'none';
  /** Why it is not what was configured. */
  readonly degraded?: string;
  /** One of the first results is a strong match. */
  readonly strong: boolean;
  /** Words searched for, stop words left out. */
  readonly terms: readonly string[];
  /** The same as they are looked up. */
  readonly stems: readonly string[];
}

export interface MemoryChange {
  readonly content?: string;
  readonly type?: string;
  readonly importance?: number;
  /** Null removes all. */
  readonly tags?: readonly string[] | null;
  readonly pinned?: boolean;
}

export interface ChangeNote {
  readonly reason: string;
  readonly changedBy: string;
  /** Refuse with `version_conflict` unless the memory has this version. */
  readonly ifVersion?: number;
  readonly actor?: Actor;
}

export interface Changed {
  readonly id: string;
  readonly status: 'updated' | 'no_changes' | 'deleted' | 'recovered';
  readonly currentVersion: number;
  readonly newVersion: number;
  readonly contentChanged?: boolean;
}

export interface MemoryPage {
  readonly filter: MemoryFilter;
  readonly limit: number;
  readonly offset: number;
  /** Only what was forgotten and can still be recovered, the last forgotten first. */
  readonly forgotten?: boolean;
}

/** A memory of a list; the times are told of forgotten ones alone. */
export type ListedMemory = Memory & { readonly deleted_at?: string; readonly recoverable_until?: string };

export interface Ranking {
  readonly limit: number;
  /** 0 = importance alone, 1 = recency alone. */
  readonly recencyBias: number;
  /** Newest, and most important, memories to choose from; default RANKED_POOL of the store. */
  readonly poolLimit?: number;
  readonly filter?: MemoryFilter;
  /** Only rules, preferences and pinned memories. Among them the ones rated well and used often go first, and pinned ones before all. */
  readonly standing?: boolean;
}

/**
 * Memories of all agents. Deleted ones are returned by `list` alone, when it is asked for them, archived ones never; what the reader may not see does not exist for it.
 * An acknowledged write survives loss of power. Every method throws AppError `storage_failed` or `storage_corrupt` when the store is at fault.
 */
export interface MemoryStore {
  /** The same content (or idempotency key) of the same agent and scope again is the same memory, `deduped`. */
  remember(draft: MemoryDraft): Promise<{ memory: Memory; deduped: boolean }>;
  recall(reader: Reader, query: RecallQuery): Promise<Recalled>;
  /** Best first: importance × (1 − bias) + recency × bias, recency = 1 / (1 + age in days). @source spec/hooks */
  ranked(reader: Reader, ranking: Ranking): Promise<Memory[]>;
  get(reader: Reader, id: string): Promise<Memory | undefined>;
  /** Newest first, then by id; `total` and `critical` (importance 0.9 and more) count all that fit the filter, `embedded` all with a vector. */
  list(reader: Reader, page: MemoryPage): Promise<{ memories: ListedMemory[]; total: number; critical: number; embedded: number }>;
  /** Authors of the memories a reader may see, in alphabetical order. */
  authors(reader: Reader, filter: MemoryFilter): Promise<string[]>;
  /** Oldest first; empty when the reader cannot see the memory. `limit` keeps the newest entries. */
  history(reader: Reader, id: string, limit?: number): Promise<MemoryHistoryEntry[]>;
  /** @throws AppError memory_not_found, memory_deleted, version_conflict, duplicate_content_hash */
  change(reader: Reader, id: string, change: MemoryChange, note: ChangeNote): Promise<Changed>;
  /** @throws AppError memory_not_found, memory_deleted, version_conflict, memory_pinned (without force) */
  forget(reader: Reader, id: string, note: ChangeNote & { force?: boolean }): Promise<Changed>;
  /** @throws AppError memory_not_found, memory_not_deleted, retention_expired, version_conflict, duplicate_content_hash */
  recover(reader: Reader, id: string, note: ChangeNote): Promise<Changed>;
  /** Erase, for good and with their history, memories forgotten longer ago than they can be recovered; answers how many, at most `limit`. */
  purge(limit: number): Promise<number>;
  /** Memories that are neither deleted nor archived, of all agents. */
  count(): Promise<number>;
  indexStatus(): IndexStatus;
}

export interface IndexStatus {
  /** While it is being built, full-text search answers. */
  readonly state: 'building' | 'ready';
  /** Memories in it. */
  readonly memories: number;
}

export type RuntimePath = SessionClaim['runtimePath'];

export interface ClaimRequest {
  readonly key: string;
  /** Undefined when the caller does not say: it goes on with the path that is there, and keeps no other one out. */
  readonly runtimePath?: RuntimePath | undefined;
  readonly harness: string;
  readonly agentId: string;
  readonly project?: string;
  /** Remembered as one who holds the claim, until it is released. */
  readonly holder?: string;
  readonly parentKey?: string;
  /** The harness's own name of a sub-agent. */
  readonly harnessAgentId?: string;
}

/** A bypass as the registry of the daemon has it from now on. */
export interface BypassChange {
  readonly bypassed: boolean;
  /** Who asked for it. */
  readonly by: string;
  /** Is this the key of a session it holds for? */
  readonly isFor: (sessionKey: string) => boolean;
}

/**
 * Who runs which session: one live claim a key and agent, CLAIM_TTL_MS from the last hook, kept across restarts.
 * The only place that knows whether a session is bypassed. Keys come without the `session:` prefix.
 */
export interface ClaimStore {
  /**
   * Take, or refresh, the claim. `restart` (session-start) writes harness, agent and project anew; any other hook keeps what is there.
   *
   * @throws AppError session_claimed when another path holds it
   */
  take(request: ClaimRequest, options?: { restart?: boolean }): Promise<SessionClaim>;
  /** What `take` refuses, without taking. @throws AppError session_claimed */
  check(request: Pick<ClaimRequest, 'key' | 'runtimePath'>): Promise<void>;
  /** Undefined when there is no live claim. */
  get(key: string): Promise<SessionClaim | undefined>;
  /** All live claims of a key, the one heard of last first: several when several agents use it. */
  under(key: string): Promise<SessionClaim[]>;
  /** Newest first. */
  list(agentId?: string, project?: string): Promise<SessionClaim[]>;
  /** With a holder, the claim stays while another holder is left; without one, it goes with all of them. Releasing what nobody holds is fine. */
  release(key: string, options?: ReleaseOptions): Promise<void>;
  /** Of one agent, or of all that use the key. Undefined when there is no live claim. */
  setBypass(key: string, enabled: boolean, agentId?: string): Promise<SessionClaim | undefined>;
  /** The newest other live session of the same harness (and project, where both are known) that is no sub-agent itself: whose sub-agent this may be. */
  likelyParent(child: Pick<ClaimRequest, 'key' | 'harness' | 'project'>): Promise<SessionClaim | undefined>;
  /** Take out claims nobody refreshed in time; answers them, longest silent first, at most `limit`. */
  expire(limit: number): Promise<SessionClaim[]>;
  counts(): Promise<{ active: number; bypassed: number }>;
}

export interface ReleaseOptions {
  readonly holder?: string | undefined;
  /** Whose claim; without it those of all agents under the key. */
  readonly agentId?: string | undefined;
}

/**
 * The claim among the live ones of a key that an agent goes on with: its own, else the one that names nobody. Who names no agent goes on with
 * the only one there is; of several none is meant, so that nobody reads or writes as an agent it did not name.
 */
export function claimOf(live: readonly SessionClaim[], agentId: string): SessionClaim | undefined {
  const ofAgent = (name: string): SessionClaim | undefined => live.find((claim) => claim.agentId === name);
  const only = agentId === DEFAULT_AGENT && live.length === 1 ? live[0] : undefined;
  return ofAgent(agentId) ?? ofAgent(DEFAULT_AGENT) ?? only;
}

/** Transcripts and summaries belong to an agent *and* a key: the same key of two agents is two lines. */
export interface SessionLine {
  readonly agentId: string;
  readonly sessionKey: string;
}

export interface TranscriptTurn {
  readonly role: string;
  readonly content: string;
  readonly at?: string;
}

export interface SessionEnd {
  readonly harness: string;
  readonly project?: string;
  readonly reason?: string;
  readonly transcriptPath?: string;
  /** The last words, for a later session of the line. */
  readonly tail?: string;
}

/** What a resumed session starts from. */
export interface Checkpoint {
  /** Of the last compaction. */
  readonly summary?: string;
  /** What was said after it, up to the end. */
  readonly tail?: string;
}

export interface InjectedHit {
  readonly memoryId: string;
  readonly score: number;
  readonly injected: boolean;
}

/** What sessions leave behind: transcripts, checkpoints, which memories they were shown and how they rated them. */
export interface SessionStore {
  end(line: SessionLine, end: SessionEnd): Promise<void>;
  /** Compaction: the summary takes the place of all that was said before. */
  compacted(line: SessionLine, summary: string): Promise<void>;
  /** The last checkpoint, if the line had ended or `resume` is set. Marks the line as running. */
  resume(line: SessionLine, resume: boolean): Promise<Checkpoint | undefined>;
  /** Keeps with the line, beyond its end, which session began it. */
  noteParent(line: SessionLine, parent: { key?: string; harnessAgentId?: string }): Promise<void>;
  /** The line belongs to this project, unless it is known to belong to another one. */
  noteProject(line: SessionLine, project: string): Promise<void>;
  /** Where an earlier session of the line worked. */
  projectOf(line: SessionLine): Promise<string | undefined>;
  /** One prompt's hits; answers the number of the turn. Counts up `access_count` of the injected ones. Ratings that follow are kept with the query's stems. */
  recordHits(line: SessionLine, hits: readonly InjectedHit[], stems?: readonly string[]): Promise<number>;
  /** Ids injected within the last `turns` turns. */
  recentlyInjected(line: SessionLine, turns: number): Promise<Set<string>>;
  /** Ratings −1..1 by memory id; ids the reader cannot see are left out. Answers how many were kept. */
  feedback(reader: Reader, line: SessionLine, ratings: Readonly<Record<string, number>>): Promise<number>;
}
