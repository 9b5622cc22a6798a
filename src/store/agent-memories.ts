import type { Memory } from '../contract/memory.ts';
import type { AgentMemories } from '../core/agent-memories.ts';
import { NOTE_ARCHIVE } from './agent-archive.ts';
import { NOT_LAID_DOWN } from './document-schema.ts';
import type { Access } from './memory-store-access.ts';
import { byOwner, measureMemories, selectMemories } from './memory-store-scope.ts';
import { releaseSuperseded } from './memory-supersede.ts';
import { dropPurgedWords } from './purged-words.ts';
import { cachedStatement } from './sqlite.ts';

/** Kept when an agent is purged: a session that runs may still end in order. */
const KEPT_TABLES = ['memories', 'session_claims'];

export function createAgentMemories(access: Access): AgentMemories {
  const { db, clock, read, write } = access;
  const counts = (agentId: string) => {
    const rows = measureMemories(
      db,
      byOwner(agentId),
      [NOT_LAID_DOWN, { sql: 'm.deleted_at IS NULL GROUP BY m.scope', values: [] }],
      ['m.scope AS scope', 'count(*) AS n'],
    );
    const of = (scope: string): number => Number(rows.find((row) => row.scope === scope)?.n ?? 0);
    return { global: of('global'), private: of('private'), archived: of('archived') };
  };
  /** Its memories that took the place of others; the others stand again once it is gone. */
  const newer = (agentId: string): Memory[] => {
    const where = [{ sql: `m.deleted_at IS NULL AND m.scope <> 'archived' AND m.supersedes IS NOT NULL`, values: [] }];
    return selectMemories(db, { scope: byOwner(agentId), where, limit: Number.MAX_SAFE_INTEGER }).map((row) => row.memory);
  };
  const release = (gone: readonly Memory[]): void => {
    for (const memory of gone) releaseSuperseded(db, memory, memory.supersedes);
  };
  const hasAny = (agentId: string): boolean => selectMemories(db, { scope: byOwner(agentId), limit: 1 }).length > 0;
  return {
    counts: (agentId) => read(() => counts(agentId)),
    hasAny: (agentId) => read(() => hasAny(agentId)),
    archive: (agentId, { reason, changedBy }) =>
      write(() => {
        const { global, private: own } = counts(agentId);
        const history = `INSERT INTO memory_history (memory_id, event, version, reason, changed_by, old_content, new_content, created_at, changed_fields)
          SELECT id, 'updated', version + 1, ?, ?, content, content, ?, 'scope' FROM memories
          WHERE agent_id = ? AND scope <> 'archived' AND deleted_at IS NULL`;
        cachedStatement(db, history).run(reason, changedBy, clock.now(), agentId);
        // Its hash becomes its own: the same words may be archived twice, once global and once private. A key is free again.
        const archive = `UPDATE memories SET scope = 'archived', content_hash = content_hash || ':' || id, idempotency_key = NULL,
          version = version + 1, updated_at = ? WHERE agent_id = ? AND scope <> 'archived'`;
        const gone = newer(agentId);
        cachedStatement(db, archive).run(clock.now(), agentId);
        cachedStatement(db, NOTE_ARCHIVE).run(agentId, clock.now());
        release(gone);
        return global + own;
      }),
    purge: async (agentId) => {
      const count = await write(() => {
        const gone = newer(agentId);
        const owned = 'SELECT id FROM memories WHERE agent_id = ?';
        for (const table of ['memory_history', 'memory_feedback', 'session_memories', 'memory_sources', 'session_relevance'])
          cachedStatement(db, `DELETE FROM ${table} WHERE memory_id IN (${owned})`).run(agentId);
        for (const table of tablesByAgent(db)) cachedStatement(db, `DELETE FROM "${table}" WHERE agent_id = ?`).run(agentId);
        cachedStatement(db, 'DELETE FROM agent_messages WHERE from_agent_id = ?1 OR to_agent_id = ?1').run(agentId);
        const purged = Number(cachedStatement(db, 'DELETE FROM memories WHERE agent_id = ?').run(agentId).changes);
        release(gone);
        return purged;
      });
      await dropPurgedWords(access);
      return count;
    },
  };
}

/** Every table with a column `agent_id`: what a later version keeps of an agent goes as well. */
function tablesByAgent(db: Access['db']): string[] {
  const sql = `SELECT t.name AS name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
    WHERE t.type = 'table' AND c.name = 'agent_id' AND t.sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY t.name`;
  const names = cachedStatement(db, sql)
    .all()
    .map((row) => String(row.name));
  return names.filter((name) => !KEPT_TABLES.includes(name));
}
