import { type CrossAgentMessage, crossAgentOperations as operations } from '../contract/cross-agent.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { type DaemonFlags, requireDaemonApi } from './daemon-api.ts';
import { readStdinText } from './stdin-text.ts';
import { formatTable } from './terminal.ts';
import { plainLine, plainText, safeJson } from './terminal-text.ts';

const CELL_CHARS_MAX = 60;
/** A message that is read from stdin may be so long, in characters; the daemon has the same limit. */
const STDIN_CHARS_MAX = 65_536;
/** Cannot be the name of an agent. */
const TO_ALL = '@all';
const SESSION = 'session:';
/** What a relay may take beyond its own limit until the daemon has answered; unit: milliseconds. */
const ANSWER_MS = 5_000;
/** Of a relay without a limit of its own; the daemon has the same; unit: milliseconds. */
const RELAY_TIMEOUT_MS = 20_000;

type Flags = DaemonFlags & { readonly session?: string; readonly json?: boolean };
export type PeersFlags = Flags & { readonly agent?: string; readonly project?: string; readonly limit: number };
export type SendFlags = Flags & {
  readonly from?: string;
  readonly type: CrossAgentMessage['type'];
  readonly acp?: string;
  readonly timeout?: number;
};
export type InboxFlags = Flags & {
  readonly agent?: string;
  readonly unread?: boolean;
  readonly since?: string;
  readonly sent?: boolean;
  readonly broadcast: boolean;
  readonly markRead?: boolean;
  readonly limit: number;
};

export async function listPeers(context: CliContext, flags: PeersFlags): Promise<void> {
  const { agent, session, project, limit } = flags;
  const asked = { agentId: agent, sessionKey: session, project, limit, includeSelf: agent === undefined };
  const answer = await requireDaemonApi(context, flags).call(operations.listPresence, asked);
  if (flags.json) return print(context, answer);
  if (answer.count === 0) return void context.stderr.write('Nobody else is there.\n');
  const rows = answer.sessions.map((peer) =>
    [peer.key, peer.agentId, peer.harness, peer.project ?? '', peer.lastSeenAt].map((cell) => plainLine(cell, CELL_CHARS_MAX)),
  );
  context.stdout.write(formatTable(['SESSION', 'AGENT', 'HARNESS', 'PROJECT', 'LAST SEEN'], rows));
}

export async function sendMessage(context: CliContext, to: string, text: string, flags: SendFlags): Promise<void> {
  const content = text === '-' ? await readStdinText(context, 'a message', STDIN_CHARS_MAX) : text;
  const { from, session, type } = flags;
  const draft = { content, type, fromAgentId: from, fromSessionKey: session, ...targetOf(to, flags) };
  const timeoutMs = (flags.acp === undefined ? 0 : (flags.timeout ?? RELAY_TIMEOUT_MS)) + ANSWER_MS;
  const { message } = await requireDaemonApi(context, flags).call(operations.sendAgentMessage, draft, { timeoutMs });
  if (flags.json) print(context, message);
  else context.stdout.write(`${message.id}  ${outcomeOf(message)}\n`);
  if (message.deliveryReceipt?.reply && !flags.json) context.stdout.write(`${plainText(message.deliveryReceipt.reply)}\n`);
  if (message.deliveryStatus === 'failed')
    throw new CliExit(EXIT.failure, flags.json ? '' : plainLine(`the relay failed: ${message.deliveryError?.message}`, 400));
}

function targetOf(to: string, { acp, timeout }: SendFlags) {
  if (acp !== undefined) {
    return {
      via: 'acp' as const,
      acp_base_url: acp,
      acp_target_agent_name: to,
      ...(timeout === undefined ? {} : { acp_timeout_ms: timeout }),
    };
  }
  if (to === TO_ALL) return { broadcast: true };
  return to.startsWith(SESSION) ? { toSessionKey: to.slice(SESSION.length) } : { toAgentId: to };
}

function outcomeOf({ deliveryPath, deliveryStatus, recipients, broadcast }: CrossAgentMessage): string {
  if (deliveryPath === 'acp' || deliveryStatus === 'failed') return deliveryStatus;
  if (recipients > 0) return `to ${recipients} live ${recipients === 1 ? 'session' : 'sessions'}`;
  return broadcast ? 'nobody is there; it stays in the inboxes' : 'waits for the next session of the agent';
}

export async function showInbox(context: CliContext, flags: InboxFlags): Promise<void> {
  const { agent: agentId, session: sessionKey, unread, sent, broadcast, limit } = flags;
  const reader = { agentId, sessionKey };
  const daemon = requireDaemonApi(context, flags);
  const query = { ...reader, since: timeOf(flags.since), unread, includeSent: sent, includeBroadcast: broadcast, limit };
  const answer = await daemon.call(operations.listAgentMessages, query);
  const ids = answer.items.map(({ id }) => id);
  if (flags.markRead && ids.length > 0) await daemon.call(operations.markAgentMessagesRead, { ...reader, ids });
  if (flags.json) return print(context, answer);
  if (answer.count === 0) return void context.stderr.write('No messages.\n');
  context.stdout.write(answer.items.map(formatMessage).join('\n'));
}

function formatMessage(message: CrossAgentMessage): string {
  const { id, type, createdAt, fromAgentId, fromSessionKey, broadcast, toAgentId, toSessionKey, deliveryReceipt, readAt } = message;
  const from = fromSessionKey === undefined ? fromAgentId : `${fromAgentId} (${plainLine(fromSessionKey, CELL_CHARS_MAX)})`;
  const session = toSessionKey === undefined ? '' : ` (${plainLine(toSessionKey, CELL_CHARS_MAX)})`;
  const to = broadcast ? 'all' : (toAgentId ?? plainLine(`${deliveryReceipt?.agentName} at ${deliveryReceipt?.origin}`, CELL_CHARS_MAX));
  const said = plainText(message.content).replaceAll('\n', '\n  ');
  return `${createdAt}  ${from} to ${to}${session}  ${type}${readAt === undefined ? '' : '  read'}  ${id}\n  ${said}\n`;
}

function timeOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new CliExit(EXIT.usage, `--since is no time: ${text}; write it as 2025-03-01 or 2025-03-01T12:00:00Z`);
  return new Date(ms).toISOString();
}

function print(context: CliContext, value: unknown): void {
  context.stdout.write(`${safeJson(value, 2)}\n`);
}
