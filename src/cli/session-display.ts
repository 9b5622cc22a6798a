import { isSignal } from '../client/session-stream.ts';
import type { Session, SessionSummary } from '../contract/session.ts';
import { visibleStart } from '../core/visible-text.ts';
import type { CliContext } from './context.ts';
import { createStyle, formatDuration, formatTable, type Style } from './terminal.ts';
import { plainLine, safeJson } from './terminal-text.ts';
import { type AddressFlags, requireClient } from './workspace.ts';

const TITLE_CHARS_MAX = 40;
const PAYLOAD_CHARS_MAX = 160;

type Flags = AddressFlags & { readonly json?: boolean };
export type ListFlags = Flags & {
  readonly agent?: string;
  readonly state?: Session['state'];
  readonly search?: string;
  readonly limit: number;
};
export type EventFlags = Flags & { readonly after: string; readonly limit: number; readonly events?: string; readonly follow?: boolean };

export async function listSessions(context: CliContext, { url, path, json, ...query }: ListFlags): Promise<void> {
  const page = await requireClient(context, { url, path }).session.list(query);
  if (json) return void context.stdout.write(`${safeJson(page, 2)}\n`);
  if (page.items.length === 0) return void context.stderr.write('No sessions. Begin one with: signet chat\n');
  context.stdout.write(formatSessions(page.items, Date.now()));
  if (page.next) context.stderr.write(`There are more; see them with --limit, or narrow the list with --agent, --state and --search\n`);
}

/** @param now  milliseconds since 1970, what the ages are counted from */
export function formatSessions(items: readonly SessionSummary[], now: number): string {
  const rows = items.map((item) => [
    item.id,
    item.quarantined ? `${item.state} (put aside)` : item.state,
    item.agent,
    String(item.turns),
    formatDuration(now - Date.parse(item.updatedAt)),
    plainLine(item.title || item.sessionKey, TITLE_CHARS_MAX),
  ]);
  return formatTable(['SESSION', 'STATE', 'AGENT', 'TURNS', 'CHANGED', 'TITLE'], rows);
}

export async function showSession(context: CliContext, id: string, flags: Flags): Promise<void> {
  const session = await requireClient(context, flags).session.get(id);
  context.stdout.write(flags.json ? `${safeJson(session, 2)}\n` : formatSession(session));
}

export function formatSession(session: Session): string {
  const { turn, usage, context } = session;
  const rows: readonly (readonly [string, string])[] = [
    ['session', session.id],
    ['key', session.sessionKey],
    ['state', `${session.state}${session.endReason ? ` (${session.endReason})` : ''}`],
    ...(session.quarantined ? [['aside', `${session.quarantined.code}: ${session.quarantined.reason}`] as const] : []),
    ['agent', `${session.agent}${session.bypassed ? ', hooks bypassed' : ''}${session.degraded ? ', without memory' : ''}`],
    ['title', session.title],
    ['project', session.project ?? '-'],
    ['parent', session.parentId ?? '-'],
    ['harness', session.harness],
    ['model', `${session.provider}, ${session.model}`],
    [
      'turns',
      `${session.turns}${turn ? `, turn ${turn.number} in round ${turn.round}` : ''}${session.queue.length ? `, ${session.queue.length} waiting` : ''}`,
    ],
    ['tokens', `${usage.inputTokens} in, ${usage.outputTokens} out${session.costUsd ? `, $${session.costUsd.toFixed(4)}` : ''}`],
    ['context', `${context.tokens} of ${context.limit} tokens`],
    ['signals', String(session.seq)],
    ['created', session.createdAt],
    ['changed', session.updatedAt],
  ];
  return rows.map(([name, value]) => `${name.padEnd(9)}${plainLine(value, 500)}\n`).join('');
}

export async function endSession(context: CliContext, id: string, flags: Flags & { readonly purge?: boolean }): Promise<void> {
  const ended = await requireClient(context, flags).session.end(id, { purge: flags.purge === true, reason: 'ended from the command line' });
  context.stdout.write(flags.json ? `${safeJson(ended, 2)}\n` : `${ended.id} is ${ended.purged ? 'ended and forgotten' : ended.state}\n`);
}

export async function abortSession(context: CliContext, id: string, flags: Flags & { readonly clearQueue?: boolean }): Promise<void> {
  const result = await requireClient(context, flags).session.abort(id, { clearQueue: flags.clearQueue === true });
  if (flags.json) return void context.stdout.write(`${safeJson(result, 2)}\n`);
  const waiting = result.cancelled.length > 0 ? `, ${result.cancelled.length} waiting prompts forgotten` : '';
  context.stdout.write(`${result.aborted ? 'the turn was aborted' : 'nothing was running'}${waiting}; ${id} is ${result.state}\n`);
}

/** Recorded signals, and with `follow` those to come, until Ctrl-C or the end of the session. */
export async function showEvents(context: CliContext, id: string, flags: EventFlags): Promise<void> {
  const client = requireClient(context, flags);
  const style = createStyle(context.stdout, context.env);
  const print = (signal: EventLine) => context.stdout.write(`${flags.json ? safeJson(signal) : formatEvent(signal, style)}\n`);
  if (!flags.follow) {
    const page = await client.session.events(id, { after: flags.after, limit: flags.limit, events: flags.events });
    page.items.forEach(print);
    if (page.next !== null && !flags.json)
      context.stderr.write(`There are more, up to ${page.head}: signet session events ${id} --after ${page.next}\n`);
    return;
  }
  const stop = new AbortController();
  const unlisten = context.onInterrupt(() => stop.abort());
  try {
    const stream = client.session.stream(id, {
      after: flags.after,
      events: flags.events,
      deltas: flags.json === true,
      signal: stop.signal,
    });
    for await (const event of stream) {
      if (event.seq !== undefined || isSignal(event, 'text:delta') || event.name === 'end') print(event);
    }
  } finally {
    unlisten();
  }
}

interface EventLine {
  readonly seq?: number;
  readonly name: string;
  readonly timestamp?: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** `    12  10:41:07.123  tool:call  {"name":...}` */
export function formatEvent(event: EventLine, style: Style): string {
  const clock = event.timestamp?.slice(11, 23) ?? '';
  const payload = visibleStart(JSON.stringify(event.payload), PAYLOAD_CHARS_MAX);
  return `${String(event.seq ?? '').padStart(6)}  ${style.dim(clock.padEnd(12))}  ${plainLine(event.name, 128).padEnd(24)}  ${style.dim(payload)}`;
}
