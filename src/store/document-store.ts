import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import type { DocumentEntry } from '../contract/documents.ts';
import type { Scope } from '../contract/memory.ts';
import { isoTime } from '../core/clock.ts';
import type { DocumentName, DocumentStore } from '../core/document.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { MemoryDraft, Reader } from '../core/memory-store.ts';
import {
  advance,
  beginWriting,
  breakOff,
  decideForgetting,
  decideText,
  documentsIn,
  eraseBroken,
  findDocument,
  PAGE_PIECES,
  piecesOf,
  type Staging,
  stagePage,
} from './document-work.ts';
import type { Access } from './memory-store-access.ts';
import { everything, selectMemories } from './memory-store-scope.ts';
import { cachedStatement, storageError, transaction } from './sqlite.ts';

/** What could not be finished or taken away, as on a full disk, is tried again so often; unit: milliseconds. */
const RETRY_MS = 5_000;
const DECIDED: readonly string[] = ['publishing', 'forgetting'];
const ENTRY = `SELECT d.*, (SELECT count(*) FROM document_chunks c WHERE c.document_id = d.id) AS chunks FROM documents d`;

type Row = Readonly<Record<string, SQLOutputValue>>;
type Predecessor = (draft: MemoryDraft) => string | undefined;

/**
 * Documents on the tables `documents`, `document_chunks` and `document_work`. One call about a document runs at a time, page by page.
 *
 * @param predecessor  id of the memory whose place a new one takes
 */
export function createDocumentStore(access: Access, predecessor: Predecessor): DocumentStore {
  const { db, clock, read, write } = access;
  const inTurn = createTurns();
  const upkeep = createUpkeep(access, inTurn);
  return {
    replace: (draft, note, signal) =>
      inTurn(draft, async () => {
        const known = await upkeep.settled(draft);
        requireInProject(db, known, draft, note.reader);
        if (known?.state === 'whole' && known.hash === draft.hash)
          return { status: 'unchanged', ids: piecesOf(db, Number(known.id)), forgotten: 0 };
        signal?.throwIfAborted();
        const createdAtMs = clock.now();
        const documentId = await write(() => upkeep.begun(beginWriting(db, draft, createdAtMs)));
        const staging: Staging = { documentId, draft, createdAtMs, known: new Set(), predecessor };
        try {
          await stage(access, staging, signal);
          const { title, hash, pieces } = draft;
          await write(() => decideText(db, documentId, draft, { note, next: { title, hash, scope: pieces[0]!.scope } }));
        } catch (error) {
          await upkeep.broken(documentId, draft);
          throw error;
        }
        const forgotten = await upkeep.finish(documentId);
        return { status: known?.hash ? 'updated' : 'ingested', ids: piecesOf(db, documentId), forgotten };
      }),
    forget: (name, note) =>
      inTurn(name, async () => {
        const known = await upkeep.settled(name);
        if (!known) return undefined;
        const id = Number(known.id);
        const pieces = piecesOf(db, id).length;
        await write(() => decideForgetting(db, upkeep.begun(id), { note }));
        const forgotten = await upkeep.finish(id);
        return { forgotten, kept: pieces - forgotten };
      }),
    list: (agentId, limit, offset) =>
      read(() => {
        const sql = `${ENTRY} WHERE d.agent_id = ? ORDER BY d.updated_at DESC, d.id DESC LIMIT ? OFFSET ?`;
        return cachedStatement(db, sql).all(agentId, limit, offset).map(toEntry);
      }),
  };
}

/**
 * Before anything is asked of a store: what a process left decided is finished, what it left half written is out of the lists. Nobody finds
 * its pieces, so they go later, in slices. A fault is met again, and told, by the first call about the document.
 */
export function recoverDocuments(db: DatabaseSync, nowMs: number): void {
  try {
    transaction(db, () => {
      for (const row of documentsIn(db, ['writing'])) breakOff(db, Number(row.id), nameOf(row));
    });
    for (const { id } of documentsIn(db, DECIDED)) while (!transaction(db, () => advance(db, Number(id), nowMs)).isDone);
  } catch (error) {
    if (isAppError(storageError(error, ''))) return;
    throw error;
  }
}

async function stage({ db, clock, write }: Access, staging: Staging, signal: AbortSignal | undefined): Promise<void> {
  for (let from = 0; from < staging.draft.pieces.length; from += PAGE_PIECES) {
    signal?.throwIfAborted();
    await write(() => stagePage(db, staging, from, clock.now()));
    await turn();
  }
}

/** Finishes what is decided and takes away what broke off; what a full disk hinders is tried again. */
function createUpkeep({ db, clock, read, write }: Access, inTurn: ReturnType<typeof createTurns>) {
  const broken = new Map<number, DocumentName>();
  let retry: NodeJS.Timeout | undefined;
  const finish = async (id: number): Promise<number> => {
    for (let forgotten = 0; ; ) {
      const step = await write(() => advance(db, id, clock.now()));
      forgotten += step.forgotten;
      if (step.isDone) return forgotten;
      await turn();
    }
  };
  const settled = async (name: DocumentName) => {
    const row = await read(() => findDocument(db, name));
    if (!row || !DECIDED.includes(String(row.state))) return row;
    await finish(Number(row.id));
    return read(() => findDocument(db, name));
  };
  const clean = async (): Promise<void> => {
    for (const [id, name] of broken) await write(() => broken.has(id) && breakOff(db, id, name)).then(() => broken.delete(id));
    while (!(await write(() => eraseBroken(db)))) await turn();
  };
  const later = (ms: number): void => {
    clearTimeout(retry);
    retry = setTimeout(() => {
      if (db.isOpen) resume().catch(() => later(RETRY_MS));
    }, ms).unref();
  };
  const resume = async (): Promise<void> => {
    await clean();
    for (const row of documentsIn(db, DECIDED)) {
      const name = nameOf(row);
      await inTurn(name, () => settled(name));
    }
  };
  const orLater = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      later(RETRY_MS);
      throw error;
    }
  };
  later(0);
  return {
    settled: (name: DocumentName) => orLater(settled(name)),
    finish: (id: number) => orLater(finish(id)),
    /** Work on it begins anew: nothing of before may end it. */
    begun: (id: number): number => {
      broken.delete(id);
      return id;
    },
    /** Its fault has been met; this one tells of no other. */
    broken: async (id: number, { agentId, source }: DocumentName): Promise<void> => {
      broken.set(id, { agentId, source });
      await orLater(clean()).catch(() => undefined);
    },
  };
}

/** A source that a document of another project has is taken. @throws AppError forbidden */
function requireInProject(db: DatabaseSync, known: Row | undefined, { source }: DocumentName, { within }: Reader): void {
  if (!known || !within) return;
  const where = {
    sql: 'm.id IN (SELECT memory_id FROM document_chunks WHERE document_id = ?) AND m.project IS NOT ?',
    values: [Number(known.id), within.project],
  };
  if (selectMemories(db, { scope: everything(), where: [where], limit: 1 }).length === 0) return;
  const detail = `the document ${JSON.stringify(source)} was taken in outside of the project ${within.project}; the token is for that project alone`;
  throw new AppError('forbidden', { detail });
}

/** Runs what concerns one document one after the other. */
function createTurns() {
  const last = new Map<string, Promise<unknown>>();
  return async <T>({ agentId, source }: DocumentName, run: () => Promise<T>): Promise<T> => {
    const key = JSON.stringify([agentId, source]);
    const before = last.get(key) ?? Promise.resolve();
    const mine = before.then(run, run);
    last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (last.get(key) === mine) last.delete(key);
    }
  };
}

function nameOf({ agent_id: agentId, source }: Row): DocumentName {
  return { agentId: String(agentId), source: String(source) };
}

/** Publishing is a matter of milliseconds, and the last part of writing for whoever looks. */
function stateOf(state: SQLOutputValue | undefined): DocumentEntry['state'] {
  if (state === 'whole' || state === 'forgetting') return state;
  return 'writing';
}

function toEntry(row: Row): DocumentEntry {
  return {
    source: String(row.source),
    title: row.title === null ? null : String(row.title),
    agentId: String(row.agent_id),
    scope: String(row.scope) as Scope,
    state: stateOf(row.state),
    hash: row.hash === null ? null : String(row.hash),
    chunks: Number(row.chunks),
    createdAt: isoTime(Number(row.created_at)),
    updatedAt: isoTime(Number(row.updated_at)),
  };
}
