import type { SQLOutputValue } from 'node:sqlite';
import type { DocumentEntry } from '../contract/documents.ts';
import type { Scope } from '../contract/memory.ts';
import { isoTime } from '../core/clock.ts';
import type { DocumentName, DocumentStore } from '../core/document.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';

type Row = Readonly<Record<string, SQLOutputValue>>;

const ENTRY = `SELECT d.*, (SELECT count(*) FROM document_chunks c WHERE c.document_id = d.id) AS chunks FROM documents d`;

/** Documents on the tables `documents` and `document_chunks`. */
export function createDocumentStore({ db, clock, read, write }: Access): DocumentStore {
  const find = ({ agentId, source }: DocumentName): Row | undefined =>
    cachedStatement(db, `${ENTRY} WHERE d.agent_id = ? AND d.source = ?`).get(agentId, source);
  const hold = (id: SQLOutputValue, place: number, ids: readonly string[]): void => {
    const insert = cachedStatement(
      db,
      'INSERT INTO document_chunks (document_id, memory_id, place) VALUES (?, ?, ?) ON CONFLICT (document_id, memory_id) DO NOTHING',
    );
    for (const [offset, memoryId] of ids.entries()) insert.run(id ?? null, memoryId, place + offset);
  };
  return {
    get: (name) =>
      read(() => {
        const row = find(name);
        if (!row) return undefined;
        const held = cachedStatement(db, 'SELECT memory_id FROM document_chunks WHERE document_id = ? ORDER BY place').all(row.id!);
        return { entry: toEntry(row), ids: held.map((each) => String(each.memory_id)) };
      }),
    begin: ({ agentId, source, title, scope }) =>
      write(() => {
        const sql = `INSERT INTO documents (agent_id, source, title, scope, hash, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, NULL, ?5, ?5)
          ON CONFLICT (agent_id, source) DO UPDATE SET title = ?3, scope = ?4, hash = NULL, updated_at = ?5`;
        cachedStatement(db, sql).run(agentId, source, title, scope, clock.now());
      }),
    add: (name, place, ids) =>
      write(() => {
        const row = find(name);
        if (row) hold(row.id!, place, ids);
      }),
    unshared: (name, ids) =>
      read(() => {
        const id = find(name)?.id ?? null;
        const sql = `SELECT value FROM json_each(?) WHERE NOT EXISTS
          (SELECT 1 FROM document_chunks c WHERE c.memory_id = value AND c.document_id IS NOT ?)`;
        return cachedStatement(db, sql)
          .all(JSON.stringify(ids), id)
          .map((row) => String(row.value));
      }),
    finish: (name, hash, ids) =>
      write(() => {
        const row = find(name);
        if (!row) return;
        cachedStatement(db, 'DELETE FROM document_chunks WHERE document_id = ?').run(row.id!);
        hold(row.id!, 0, ids);
        cachedStatement(db, 'UPDATE documents SET hash = ?, updated_at = ? WHERE id = ?').run(hash, clock.now(), row.id!);
      }),
    remove: (name) =>
      write(() => {
        cachedStatement(db, 'DELETE FROM document_chunks WHERE document_id = ?').run(find(name)?.id ?? null);
        cachedStatement(db, 'DELETE FROM documents WHERE agent_id = ? AND source = ?').run(name.agentId, name.source);
      }),
    list: (agentId, limit, offset) =>
      read(() => {
        const sql = `${ENTRY} WHERE d.agent_id = ? ORDER BY d.updated_at DESC, d.id DESC LIMIT ? OFFSET ?`;
        return cachedStatement(db, sql).all(agentId, limit, offset).map(toEntry);
      }),
  };
}

function toEntry(row: Row): DocumentEntry {
  return {
    source: String(row.source),
    title: row.title === null ? null : String(row.title),
    agentId: String(row.agent_id),
    scope: String(row.scope) as Scope,
    hash: row.hash === null ? null : String(row.hash),
    chunks: Number(row.chunks),
    createdAt: isoTime(Number(row.created_at)),
    updatedAt: isoTime(Number(row.updated_at)),
  };
}
