import type { DatabaseSync } from 'node:sqlite';
import type { CrossAgentMessage } from '../contract/cross-agent.ts';
import { newId } from '../core/clock.ts';
import type { AgentMessageDraft, DeliveryOutcome, InboxQuery, MessageLimits, MessageReader, MessageStore } from '../core/cross-agent.ts';
import { createHearing } from './cross-agent-hearing.ts';
import { countLive } from './cross-agent-presence.ts';
import { boundsOf, INBOUND, NAMED, noteDelivered, READ_AT, SENT, toMessage } from './cross-agent-rows.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';

const DAY_MS = 86_400_000;

/** Messages on `agent_messages`. @param limits  asked at each call: the configuration may change */
export function createMessageStore({ db, clock, read, write, note }: Access, limits: () => MessageLimits): MessageStore {
  failInterrupted(db);
  const keptSince = (): number => clock.now() - limits().retentionDays * DAY_MS;
  return {
    add: (draft) => write(() => addMessage(db, draft, limits().messagesMax, clock.now())),
    settle: (id, outcome) => write(() => settleMessage(db, id, outcome)),
    inbox: (reader, query) => read(() => inboxOf(db, reader, query, keptSince())),
    after: (reader, seq, { includeSent, limit }) =>
      read(() => {
        const sql = `SELECT m.*, ${READ_AT} AS read_at FROM agent_messages m
          WHERE m.seq > ?3 AND m.created_at >= ?4 AND (${INBOUND} OR (?5 = 1 AND ${SENT})) AND (?7 = 0 OR ${NAMED})
          ORDER BY m.seq LIMIT ?6`;
        return cachedStatement(db, sql)
          .all(reader.agentId, reader.sessionKey ?? null, seq, keptSince(), includeSent ? 1 : 0, limit, reader.isDirect ? 1 : 0)
          .map(toMessage);
      }),
    bounds: () => read(() => boundsOf(db)),
    markRead: (reader, ids) => write(() => markRead(db, reader, ids, clock.now())),
    ...createHearing({ db, clock, read, note }, keptSince),
    purge: (limit) =>
      write(() => {
        const sql =
          'DELETE FROM agent_messages WHERE seq IN (SELECT seq FROM agent_messages WHERE created_at < ? ORDER BY created_at LIMIT ?)';
        return Number(cachedStatement(db, sql).run(keptSince(), limit).changes);
      }),
  };
}

/** A relay that was under way when the process ended: nobody knows whether it arrived, and it is not sent twice. */
function failInterrupted(db: DatabaseSync): void {
  const which = `path = 'acp' AND status = 'queued'`;
  if (!cachedStatement(db, `SELECT 1 FROM agent_messages WHERE ${which} LIMIT 1`).get()) return;
  const why = 'the daemon ended while the message was on its way; it may have arrived';
  cachedStatement(db, `UPDATE agent_messages SET status = 'failed', error_code = 'interrupted', error = ? WHERE ${which}`).run(why);
}

function addMessage(db: DatabaseSync, draft: AgentMessageDraft, messagesMax: number, nowMs: number): CrossAgentMessage {
  const { fromAgentId, fromSessionKey, toAgentId, toSessionKey, broadcast, path } = draft;
  const target = {
    agentId: broadcast ? undefined : toAgentId,
    sessionKey: toSessionKey,
    except: fromSessionKey,
    exceptAgent: broadcast && !fromSessionKey ? fromAgentId : undefined,
  };
  const recipients = path === 'acp' ? 0 : countLive(db, target, nowMs);
  const row = cachedStatement(
    db,
    `INSERT INTO agent_messages (id, from_agent_id, from_session_key, to_agent_id, to_session_key, content, type, broadcast, path, status,
       recipients, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
  ).get(
    newId('msg'),
    fromAgentId,
    fromSessionKey ?? null,
    toAgentId ?? null,
    toSessionKey ?? null,
    draft.content,
    draft.type,
    broadcast ? 1 : 0,
    path,
    recipients > 0 ? 'delivered' : 'queued',
    recipients,
    nowMs,
  )!;
  makeRoom(db, messagesMax);
  return toMessage(row);
}

/**
 * Beyond the limit the oldest messages of the agent that has sent most of them go, a hundredth of all at a time: whoever floods loses
 * messages of its own, and pushes out none that wait for others.
 */
function makeRoom(db: DatabaseSync, messagesMax: number): void {
  const { oldest, head } = boundsOf(db);
  if (head - oldest < messagesMax) return;
  const count = Number(cachedStatement(db, 'SELECT count(*) AS n FROM agent_messages').get()?.n);
  const many = Math.ceil(messagesMax / 100);
  for (let left = count - messagesMax; left > 0; left -= many) {
    const most = 'SELECT from_agent_id FROM agent_messages GROUP BY from_agent_id ORDER BY count(*) DESC, min(seq) LIMIT 1';
    const sql = `DELETE FROM agent_messages WHERE seq IN (SELECT seq FROM agent_messages WHERE from_agent_id = (${most}) ORDER BY seq LIMIT ?)`;
    cachedStatement(db, sql).run(many);
  }
}

function settleMessage(db: DatabaseSync, id: string, outcome: DeliveryOutcome): CrossAgentMessage {
  const { code = null, message = null } = outcome.status === 'failed' ? outcome.error : {};
  const sql = 'UPDATE agent_messages SET status = ?, error_code = ?, error = ?, receipt = ? WHERE id = ? RETURNING *';
  return toMessage(cachedStatement(db, sql).get(outcome.status, code, message, JSON.stringify(outcome.receipt), id)!);
}

function inboxOf(
  db: DatabaseSync,
  { agentId, sessionKey, isDirect }: MessageReader,
  query: InboxQuery,
  keptSinceMs: number,
): CrossAgentMessage[] {
  const { sinceMs = 0, unread, includeSent, includeBroadcast, limit } = query;
  const sql = `SELECT * FROM (SELECT m.*, ${READ_AT} AS read_at, ${INBOUND} AS inbound FROM agent_messages m
      WHERE m.created_at >= ?3 AND (?8 = 0 OR ${NAMED}) AND (${INBOUND} AND (?4 = 1 OR m.broadcast = 0) OR (?5 = 1 AND ${SENT})))
    WHERE ?6 = 0 OR (inbound AND read_at IS NULL) ORDER BY seq DESC LIMIT ?7`;
  const values = [includeBroadcast ? 1 : 0, includeSent ? 1 : 0, unread ? 1 : 0, limit, isDirect ? 1 : 0];
  return cachedStatement(db, sql)
    .all(agentId, sessionKey ?? null, Math.max(sinceMs, keptSinceMs), ...values)
    .map(toMessage);
}

function markRead(
  db: DatabaseSync,
  { agentId, sessionKey, isDirect }: MessageReader,
  ids: readonly string[] | undefined,
  nowMs: number,
): number {
  const list = ids === undefined ? null : JSON.stringify(ids);
  const sql = `INSERT INTO agent_message_reads (message_seq, agent_id, session_key, read_at)
    SELECT m.seq, ?1, coalesce(?2, ''), ?3 FROM agent_messages m
    WHERE ${INBOUND} AND (?5 = 0 OR ${NAMED}) AND (?4 IS NULL OR m.id IN (SELECT value FROM json_each(?4))) AND NOT EXISTS (SELECT 1 FROM agent_message_reads r
      WHERE r.message_seq = m.seq AND r.agent_id = ?1 AND r.session_key IN ('', coalesce(?2, '')))
    RETURNING message_seq`;
  const seqs = cachedStatement(db, sql)
    .all(agentId, sessionKey ?? null, nowMs, list, isDirect ? 1 : 0)
    .map((row) => Number(row.message_seq));
  noteDelivered(db, seqs);
  return seqs.length;
}
