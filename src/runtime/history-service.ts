import type { ParsedInputOf } from '../contract/operation.ts';
import type { MessageView } from '../contract/session.ts';
import type { sessionOperations } from '../contract/session-operations.ts';
import type { Signal } from '../contract/signal.ts';
import type { ConversationEntry } from '../core/conversation.ts';
import type { RequestContext } from '../core/operation-call.ts';
import { countFitting, jsonBytes, PAGE_BYTES_MAX } from '../core/page-bytes.ts';
import { compilePatterns, parsePatternList } from '../core/signal-pattern.ts';
import { foldAt } from './fork-point.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import { foldReadable } from './session-fold.ts';

type Ops = typeof sessionOperations;
type Input<K extends keyof Ops> = ParsedInputOf<Ops[K]>;

/** Stored signals that are looked through at once for those that fit a pattern. */
const PAGE_SIGNALS = 1_000;
/** Stored signals read at once where each is part of the answer, whose end may come early. */
const STEP_SIGNALS = 25;
/** No message has this number: `after=0` is the whole conversation, of a fork with what it began with, which is numbered below. */
const FROM_THE_FIRST = 0;
/** Pages a filtered listing looks through before it answers with what it has and a cursor. */
const PAGES_SEARCHED_MAX = 20;

/** What was said and what happened in a session. */
export function createHistoryService(deps: RuntimeDeps) {
  const { supervisor, log } = deps;
  return {
    async messages({ id, limit, before, after }: Input<'listMessages'>, context: RequestContext): Promise<MessageView[]> {
      await supervisor.view(id);
      const entries = inOrder(supervisor.peek(id)?.core.conversation.entries ?? (await foldReadable(log, id)).core.conversation.entries);
      const isAfter = (seq: number) => after === undefined || after === FROM_THE_FIRST || seq > after;
      const fitting = entries.filter(({ seq }) => (before === undefined || seq < before) && isAfter(seq));
      // Without `after` the newest page is meant; its older neighbour is what Link leads to.
      const page = after === undefined ? newestPage(fitting, limit) : oldestPage(fitting, limit);
      if (fitting.length > page.length && page.length > 0) {
        const cursor = after === undefined ? `before=${page[0]!.seq}` : `after=${page.at(-1)!.seq}`;
        context.reply.header('link', `</session/${id}/messages?${cursor}&limit=${limit}>; rel="next"`);
      }
      return page.map(messageOf);
    },

    async stateAt({ id, at }: Input<'sessionStateAt'>) {
      const { core, view } = await foldAt(log, id, at, { check: false });
      const { session } = view;
      return {
        seq: core.seq,
        at: session.updatedAt,
        state: session.state,
        value: session.value,
        session,
        context: { ...core.snapshot.context },
      };
    },

    async events({ id, after, limit, events }: Input<'listEvents'>) {
      const { session } = await supervisor.view(id);
      const wants = events === undefined ? () => true : compilePatterns(parsePatternList(events), '/events');
      const items: Signal[] = [];
      let seq = after;
      let gap: { from: number; to: number } | null = null;
      let bytes = 0;
      const stepMax = events === undefined ? STEP_SIGNALS : PAGE_SIGNALS;
      const pagesMax = (PAGES_SEARCHED_MAX * PAGE_SIGNALS) / stepMax;
      for (let page = 0; page < pagesMax && items.length < limit && seq < session.seq; page += 1) {
        // Not beyond what is shown of the session: the next one may be damaged.
        const readable = Math.min(session.seq - seq, events === undefined ? limit - items.length : PAGE_SIGNALS, stepMax);
        const signals = await log.read(`session:${id}`, seq, readable);
        if (page === 0 && signals[0] && signals[0].seq > after + 1) gap = { from: after + 1, to: signals[0].seq - 1 };
        for (const signal of signals) {
          if (items.length >= limit) break;
          const isWanted = wants(signal.name);
          if (isWanted) bytes += jsonBytes(signal);
          if (bytes > PAGE_BYTES_MAX && items.length > 0) break;
          seq = signal.seq;
          if (isWanted) items.push(signal);
        }
        if (signals.length === 0 || bytes > PAGE_BYTES_MAX) break;
      }
      return { items, next: seq < session.seq ? seq : null, head: session.seq, ...(gap ? { gap } : {}) };
    },
  };
}

/**
 * The number a message is found by never runs back: one that was said before a compaction and stands behind its summary is numbered as
 * that. Forks of older versions have messages with the numbers of their parents; these stand together.
 */
function inOrder(entries: readonly ConversationEntry[]): readonly ConversationEntry[] {
  let seq = Number.NEGATIVE_INFINITY;
  return entries.map((entry) => {
    seq = Math.max(seq, entry.seq);
    return seq === entry.seq ? entry : { ...entry, seq };
  });
}

/** Messages of one signal stay together, since the cursor is the signal; a page may so be a little longer than asked for. */
function newestPage(entries: readonly ConversationEntry[], limit: number): readonly ConversationEntry[] {
  const newest = entries.slice(Math.max(0, entries.length - limit));
  let from = entries.length - countFitting(newest.map(messageOf).reverse());
  while (from > 0 && entries[from - 1]!.seq === entries[from]?.seq) from -= 1;
  return entries.slice(from);
}

function oldestPage(entries: readonly ConversationEntry[], limit: number): readonly ConversationEntry[] {
  let to = countFitting(entries.slice(0, limit).map(messageOf));
  while (to < entries.length && entries[to - 1]?.seq === entries[to]!.seq) to += 1;
  return entries.slice(0, to);
}

function messageOf(entry: ConversationEntry): MessageView {
  const base = { seq: entry.seq, turn: entry.turn, role: entry.role, compacted: entry.compacted, at: entry.at };
  switch (entry.role) {
    case 'user':
      return {
        ...base,
        content: entry.text,
        promptId: entry.promptId,
        ...(entry.attachments.length > 0
          ? {
              attachments: entry.attachments.map((part) => ({
                type: part.type,
                ...(part.name ? { name: part.name } : {}),
                ...(part.type === 'image' ? { mediaType: part.mediaType } : {}),
                bytes: part.type === 'image' ? Buffer.byteLength(part.data, 'base64') : Buffer.byteLength(part.text),
              })),
            }
          : {}),
      };
    case 'assistant': {
      const thinking = entry.thinking.map((part) => part.text).join('');
      return {
        ...base,
        content: entry.text,
        ...(thinking === '' ? {} : { thinking }),
        ...(entry.toolCalls.length > 0 ? { toolCalls: [...entry.toolCalls] } : {}),
      };
    }
    case 'tool':
      return {
        ...base,
        content: entry.output,
        toolResult: { id: entry.id, name: entry.name, output: entry.output, isError: entry.isError },
      };
    case 'summary':
      return { ...base, content: entry.text };
  }
}
