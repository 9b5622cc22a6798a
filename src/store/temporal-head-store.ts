import { HEAD_LEASE_MS, type HeadStore } from '../core/synthesis-head.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';

/** Heads of MEMORY.md on the table `synthesis_heads`. */
export function createHeadStore({ db, clock, read, write }: Access): HeadStore {
  const row = (agentId: string) => cachedStatement(db, 'SELECT * FROM synthesis_heads WHERE agent_id = ?').get(agentId);
  return {
    get: (agentId) =>
      read(() => {
        const head = row(agentId);
        return {
          generation: Number(head?.generation ?? 0),
          writtenAtMs: typeof head?.written_at === 'number' ? head.written_at : null,
          busy: typeof head?.lease_until === 'number' && head.lease_until > clock.now(),
        };
      }),
    lease: (agentId, owner) =>
      write(() => {
        const nowMs = clock.now();
        const sql = `INSERT INTO synthesis_heads (agent_id, lease_owner, lease_until) VALUES (?1, ?2, ?3)
          ON CONFLICT (agent_id) DO UPDATE SET lease_owner = ?2, lease_until = ?3 WHERE lease_until IS NULL OR lease_until <= ?4 OR lease_owner = ?2`;
        if (cachedStatement(db, sql).run(agentId, owner, nowMs + HEAD_LEASE_MS, nowMs).changes === 1) return undefined;
        return Number(row(agentId)?.lease_until) - nowMs;
      }),
    written: (agentId, owner) =>
      write(() => {
        const sql = `UPDATE synthesis_heads SET generation = generation + 1, written_at = ?, lease_owner = NULL, lease_until = NULL
          WHERE agent_id = ? AND lease_owner = ? RETURNING generation`;
        const head = cachedStatement(db, sql).get(clock.now(), agentId, owner);
        return head && Number(head.generation);
      }),
    release: (agentId, owner) =>
      write(() => {
        const sql = 'UPDATE synthesis_heads SET lease_owner = NULL, lease_until = NULL WHERE agent_id = ? AND lease_owner = ?';
        cachedStatement(db, sql).run(agentId, owner);
      }),
  };
}
