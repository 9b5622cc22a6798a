import type { DatabaseSync } from 'node:sqlite';
import type { MemoryFilter, QueryVector, Reader } from '../core/memory-store.ts';
import type { Likeness } from '../core/recall/fuse.ts';
import { isBefore } from '../core/recall/index-view.ts';
import { cosine, toBytes } from '../core/recall/vector.ts';
import type { MemoryIndex } from './memory-index.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';

/** Nearest memories that are ranked together with those found by words. */
const NEAREST_MAX = 100;
/** Vectors compared at a time; between two slices the process answers. */
const COMPARED_AT_ONCE = 2_000;

export type VectorModel = Omit<QueryVector, 'vector'>;

export interface Unembedded {
  readonly seq: number;
  readonly content: string;
  readonly contentHash: string;
}

/** Vectors of memories, kept in memory.db; those of another model, or of a text that has changed since, count as missing. */
export interface MemoryVectors {
  /** Best first: what the reader may see and the filter lets through. */
  nearest(reader: Reader, query: QueryVector, filter: MemoryFilter): Promise<Likeness[]>;
  /** Living memories without a vector of this model, newest first. */
  missing(model: Pick<VectorModel, 'provider' | 'model'>, limit: number): Promise<Unembedded[]>;
  /** A vector that is not usable is left out; the memory is then found by its words alone. */
  keep(
    model: VectorModel,
    vectors: readonly { readonly seq: number; readonly contentHash: string; readonly vector: ArrayLike<number> }[],
  ): Promise<void>;
  /** Length of the vectors of this model that are kept; undefined while there is none. */
  dimensions(model: Pick<VectorModel, 'provider' | 'model'>): Promise<number | undefined>;
  count(): Promise<number>;
}

type Find = ReturnType<MemoryIndex['finder']>;

/** @param index  says who may see what: no vector is compared that it does not find for the reader */
export function createMemoryVectors({ db, clock, read, write }: Access, index: MemoryIndex): MemoryVectors {
  let loaded: { readonly key: string; readonly bySeq: Map<number, Int8Array> } | undefined;
  db.function('signet_text_changed', (seq) => {
    loaded?.bySeq.delete(Number(seq));
    return null;
  });
  db.exec(`CREATE TEMP TRIGGER memory_vector_outdated AFTER UPDATE OF content ON main.memories WHEN old.content <> new.content
    BEGIN SELECT signet_text_changed(new.seq); END`);

  const load = async (model: VectorModel): Promise<Map<number, Int8Array>> => {
    const key = keyOf(model);
    if (loaded?.key === key) return loaded.bySeq;
    const bySeq = new Map<number, Int8Array>();
    loaded = { key, bySeq };
    for (let after = 0; ; ) {
      const rows = await read(() => readVectors(db, model, after));
      for (const row of rows) if (!bySeq.has(Number(row.seq))) bySeq.set(Number(row.seq), bytesOf(row.vector));
      if (rows.length < COMPARED_AT_ONCE) return bySeq;
      after = Number(rows.at(-1)!.seq);
      await turn();
    }
  };

  return {
    nearest: async (reader, query, filter) => {
      const asked = toBytes(query.vector);
      return asked ? compare(asked, await load(query), index.finder(reader, filter)) : [];
    },
    missing: (model, limit) => read(() => missingVectors(db, model, limit)),
    keep: (model, vectors) =>
      write(() => {
        const sql =
          'INSERT OR REPLACE INTO memory_vectors (seq, provider, model, dimensions, content_hash, vector, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)';
        for (const { seq, contentHash, vector } of vectors) {
          const bytes = toBytes(vector) ?? new Int8Array(model.dimensions);
          cachedStatement(db, sql).run(
            seq,
            model.provider,
            model.model,
            model.dimensions,
            contentHash,
            new Uint8Array(bytes.buffer),
            clock.now(),
          );
          if (loaded?.key === keyOf(model)) loaded.bySeq.set(seq, bytes);
        }
      }),
    dimensions: (model) => read(() => keptDimensions(db, model)),
    count: () => read(() => Number(cachedStatement(db, 'SELECT count(*) AS n FROM memory_vectors').get()?.n)),
  };
}

/** Best first, then newest, then id. */
async function compare(asked: Int8Array, vectors: ReadonlyMap<number, Int8Array>, find: Find): Promise<Likeness[]> {
  const found: Likeness[] = [];
  let compared = 0;
  for (const [seq, vector] of vectors) {
    const entry = find(seq);
    if (entry) found.push({ entry, likeness: cosine(asked, vector) });
    compared += 1;
    if (compared % COMPARED_AT_ONCE === 0) await turn();
  }
  found.sort((a, b) => b.likeness - a.likeness || (isBefore(b.entry, a.entry) ? -1 : 1));
  return found.slice(0, NEAREST_MAX);
}

function keyOf({ provider, model, dimensions }: VectorModel): string {
  return `${provider}/${model}/${dimensions}`;
}

function readVectors(db: DatabaseSync, { provider, model, dimensions }: VectorModel, after: number) {
  const sql = `SELECT v.seq, v.vector FROM memory_vectors v JOIN memories m ON m.seq = v.seq AND m.content_hash = v.content_hash
    WHERE v.seq > ? AND v.provider = ? AND v.model = ? AND v.dimensions = ? AND m.deleted_at IS NULL ORDER BY v.seq LIMIT ?`;
  return cachedStatement(db, sql).all(after, provider, model, dimensions, COMPARED_AT_ONCE);
}

/** A text that was refused has a vector of one number in place of its own. */
function keptDimensions(db: DatabaseSync, { provider, model }: Pick<VectorModel, 'provider' | 'model'>): number | undefined {
  const sql = 'SELECT dimensions FROM memory_vectors WHERE provider = ? AND model = ? AND dimensions > 1 ORDER BY seq LIMIT 1';
  const row = cachedStatement(db, sql).get(provider, model);
  return row && Number(row.dimensions);
}

function missingVectors(db: DatabaseSync, { provider, model }: Pick<VectorModel, 'provider' | 'model'>, limit: number): Unembedded[] {
  const sql = `SELECT m.seq, m.content, m.content_hash FROM memories m LEFT JOIN memory_vectors v
      ON v.seq = m.seq AND v.content_hash = m.content_hash AND v.provider = ? AND v.model = ?
    WHERE m.deleted_at IS NULL AND m.scope <> 'archived' AND v.seq IS NULL ORDER BY m.created_at DESC LIMIT ?`;
  const rows = cachedStatement(db, sql).all(provider, model, limit);
  return rows.map((row) => ({ seq: Number(row.seq), content: String(row.content), contentHash: String(row.content_hash) }));
}

function bytesOf(blob: unknown): Int8Array {
  const { buffer, byteOffset, byteLength } = blob as Uint8Array;
  return new Int8Array(buffer, byteOffset, byteLength);
}

/** Lets others be answered. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
