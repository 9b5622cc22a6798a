import type { DatabaseSync } from 'node:sqlite';
import type { CrossAgentMessage, DeliveryReceipt, DeliveryStatus, MessageType } from '../contract/cross-agent.ts';
import { isoTime } from '../core/clock.ts';
import { cachedStatement } from './sqlite.ts';

/**
 * What came to the reader ?1 (agent) and ?2 (session, or null for the agent as a whole). This is the one place that says who may read a
 * message. What a session sent itself does not come back to it, nor does to an agent what it sent to all without naming a session.
 */
export const INBOUND = `(m.path = 'local'
  AND (m.broadcast = 1 OR (m.to_agent_id = ?1 AND (?2 IS NULL OR m.to_session_key IS NULL OR m.to_session_key = ?2)))
  AND NOT (m.broadcast = 1 AND m.from_agent_id = ?1 AND (?2 IS NULL OR m.from_session_key IS NULL))
  AND NOT (?2 IS NOT NULL AND m.from_session_key IS ?2))`;
/** For a reader that is `isDirect`: messages its session is named in. */
export const NAMED = 'm.to_session_key = ?2 OR m.from_session_key = ?2';
/** What the reader sent. */
export const SENT = `(m.from_agent_id = ?1
  AND (?2 IS NULL OR m.from_session_key = ?2 OR (m.broadcast = 1 AND m.from_session_key IS NULL)))`;
/** When the reader read it; what the agent as a whole has read, all its sessions have. */
export const READ_AT = `(SELECT min(r.read_at) FROM agent_message_reads r
  WHERE r.message_seq = m.seq AND r.agent_id = ?1 AND (?2 IS NULL OR r.session_key IN ('', ?2)))`;

export function boundsOf(db: DatabaseSync): { oldest: number; head: number } {
  const head = Number(cachedStatement(db, `SELECT seq FROM sqlite_sequence WHERE name = 'agent_messages'`).get()?.seq ?? 0);
  const oldest = cachedStatement(db, 'SELECT min(seq) AS seq FROM agent_messages').get()?.seq;
  return { oldest: oldest === null || oldest === undefined ? head + 1 : Number(oldest), head };
}

/** Whoever has read it has it. */
export function noteDelivered(db: DatabaseSync, seqs: readonly number[]): void {
  const sql = `UPDATE agent_messages SET status = 'delivered', heard = 1
    WHERE seq IN (SELECT value FROM json_each(?)) AND heard = 0 AND path = 'local'`;
  cachedStatement(db, sql).run(JSON.stringify(seqs));
}

export function toMessage(row: Readonly<Record<string, unknown>>): CrossAgentMessage {
  const optional = (name: string, value: unknown) => (value === null || value === undefined ? {} : { [name]: String(value) });
  const { error_code: code, error, receipt, read_at: readAt } = row;
  return {
    id: String(row.id),
    seq: Number(row.seq),
    createdAt: isoTime(Number(row.created_at)),
    fromAgentId: String(row.from_agent_id),
    ...optional('fromSessionKey', row.from_session_key),
    ...optional('toAgentId', row.to_agent_id),
    ...optional('toSessionKey', row.to_session_key),
    content: String(row.content),
    type: row.type as MessageType,
    broadcast: row.broadcast === 1,
    deliveryPath: row.path as 'local' | 'acp',
    deliveryStatus: row.status as DeliveryStatus,
    ...(code === null ? {} : { deliveryError: { code: String(code), message: String(error) } }),
    ...(receipt === null ? {} : { deliveryReceipt: JSON.parse(String(receipt)) as DeliveryReceipt }),
    recipients: Number(row.recipients),
    ...(readAt === null || readAt === undefined ? {} : { readAt: isoTime(Number(readAt)) }),
  };
}
