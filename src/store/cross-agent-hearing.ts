import type { DatabaseSync } from 'node:sqlite';
import type { CrossAgentMessage } from '../contract/cross-agent.ts';
import { type Listener, type MessageStore, OFFERED_MAX } from '../core/cross-agent.ts';
import { boundsOf, INBOUND, NAMED, noteDelivered, READ_AT, toMessage } from './cross-agent-rows.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';

/** Sessions of which is known how far they have heard; a cache. */
const HEARD_TO_MAX = 10_000;

/**
 * What sessions were told, and what is new to them. A turn that was told something says with the next one whether it arrived: what did not is
 * told again. So a message stands once in the log of a session, whatever broke off in between.
 */
export function createHearing(
  { db, clock, read, note }: Pick<Access, 'db' | 'clock' | 'read' | 'note'>,
  keptSince: () => number,
): Pick<MessageStore, 'unheard' | 'noteShown'> {
  /** Newest message of which it is known that nothing up to it is new to the session: a prompt costs one look then. */
  const heardTo = new Map<string, number>();
  const nameOf = ({ agentId, sessionKey, isDirect }: Listener): string => `${agentId}\n${sessionKey}\n${isDirect ? 1 : 0}`;
  return {
    unheard: async (listener) => {
      const name = nameOf(listener);
      const isQuiet = await read(() => (heardTo.get(name) ?? -1) >= boundsOf(db).head && !hasOffers(db, listener));
      if (isQuiet) return [];
      return note(() => {
        if (confirm(db, listener)) heardTo.delete(name);
        const again = offeredIn(db, listener);
        if (again.length > 0) return again;
        const found = newTo(db, listener, { afterSeq: heardTo.get(name) ?? 0, nowMs: clock.now(), keptSinceMs: keptSince() });
        if (found.length === 0) {
          if (heardTo.size >= HEARD_TO_MAX) heardTo.clear();
          heardTo.set(name, boundsOf(db).head);
        }
        return found;
      });
    },
    noteShown: ({ agentId, sessionKey, turnKey }, messages) =>
      note(() => {
        const sql = `INSERT OR IGNORE INTO agent_message_reads (message_seq, agent_id, session_key, turn_key, read_at) VALUES (?, ?, ?, ?, ?)`;
        for (const { seq } of messages) cachedStatement(db, sql).run(seq, agentId, sessionKey, turnKey ?? null, clock.now());
        noteDelivered(
          db,
          messages.map(({ seq }) => seq),
        );
      }),
  };
}

function hasOffers(db: DatabaseSync, { agentId, sessionKey }: Listener): boolean {
  const sql = 'SELECT 1 FROM agent_message_reads WHERE session_key = ? AND turn_key IS NOT NULL AND agent_id = ? LIMIT 1';
  return cachedStatement(db, sql).get(sessionKey, agentId) !== undefined;
}

/** Offers of earlier turns: those that arrived are settled, the others taken back. @returns whether any was taken back */
function confirm(db: DatabaseSync, { agentId, sessionKey, turnKey, heard = [] }: Listener): boolean {
  if (turnKey === undefined) return false;
  const settle = `UPDATE agent_message_reads SET turn_key = NULL WHERE session_key = ? AND turn_key IS NOT NULL AND agent_id = ?
    AND message_seq IN (SELECT seq FROM agent_messages WHERE id IN (SELECT value FROM json_each(?)))`;
  if (heard.length > 0) cachedStatement(db, settle).run(sessionKey, agentId, JSON.stringify(heard));
  // Other sessions under the same key have turns of their own: those are theirs to confirm.
  const own = turnKey.slice(0, turnKey.lastIndexOf(':') + 1);
  const takeBack = `DELETE FROM agent_message_reads WHERE session_key = ?1 AND turn_key IS NOT NULL AND agent_id = ?2 AND turn_key <> ?3
    AND substr(turn_key, 1, length(?4)) = ?4`;
  return cachedStatement(db, takeBack).run(sessionKey, agentId, turnKey, own).changes > 0;
}

/** What this very turn was told before: the call is made again. */
function offeredIn(db: DatabaseSync, { agentId, sessionKey, turnKey }: Listener): CrossAgentMessage[] {
  if (turnKey === undefined) return [];
  const sql = `SELECT m.*, r.read_at FROM agent_message_reads r JOIN agent_messages m ON m.seq = r.message_seq
    WHERE r.session_key = ? AND r.turn_key = ? AND r.agent_id = ? ORDER BY m.seq`;
  return cachedStatement(db, sql).all(sessionKey, turnKey, agentId).map(toMessage);
}

interface Since {
  readonly afterSeq: number;
  readonly nowMs: number;
  readonly keptSinceMs: number;
}

/**
 * To a session that began after a message was sent, it is new only when it named that session, or when no other one of its agent has it.
 * Each of the three is looked up by an index of its own: the first prompt of a session must not cost a look at all messages there are.
 */
function newTo(
  db: DatabaseSync,
  { agentId, sessionKey, isDirect }: Listener,
  { afterSeq, nowMs, keptSinceMs }: Since,
): CrossAgentMessage[] {
  const sql = `SELECT m.*, NULL AS read_at FROM agent_messages m
    WHERE m.seq IN (
      SELECT seq FROM agent_messages WHERE to_session_key = ?2 AND seq > ?3
      UNION SELECT seq FROM agent_messages WHERE seq >= max(?3 + 1, ?4)
      UNION SELECT seq FROM agent_messages WHERE to_agent_id = ?1 AND heard = 0 AND seq > ?3)
    AND m.created_at >= ?5 AND ${INBOUND} AND (?6 = 0 OR ${NAMED}) AND ${READ_AT} IS NULL ORDER BY m.seq LIMIT ${OFFERED_MAX}`;
  const began = firstSince(db, sessionKey, nowMs);
  return cachedStatement(db, sql)
    .all(agentId, sessionKey, afterSeq, began, keptSinceMs, isDirect ? 1 : 0)
    .map(toMessage);
}

/** Number of the first message that was sent since the session began. */
function firstSince(db: DatabaseSync, sessionKey: string, nowMs: number): number {
  const claim = cachedStatement(db, 'SELECT min(claimed_at) AS claimed_at FROM session_claims WHERE key = ? AND expires_at > ?').get(
    sessionKey,
    nowMs,
  );
  const sql = 'SELECT seq FROM agent_messages WHERE created_at >= ? ORDER BY created_at, seq LIMIT 1';
  const first = cachedStatement(db, sql).get(Number(claim?.claimed_at ?? 0));
  return first === undefined ? boundsOf(db).head + 1 : Number(first.seq);
}
