import { hash } from 'node:crypto';
import type { PayloadOf, SignalName } from '../contract/catalog.ts';
import type { Generation } from '../contract/generation.ts';
import type { Metadata } from '../contract/ids.ts';
import type { Attachment } from '../contract/session.ts';
import type { Signal } from '../contract/signal.ts';
import { mergeGeneration } from './generation.ts';

/** Most prompts that were received and wait to join; the mailbox bounds them, this is the backstop. */
const WAITING_PROMPTS_MAX = 2_048;

interface EntryBase {
  /** Signal at which the entry joined the conversation. */
  readonly seq: number;
  readonly turn: number;
  readonly at: string;
  /** Replaced by a summary: kept for people, not shown to the model. */
  readonly compacted: boolean;
}
export interface UserEntry extends EntryBase {
  readonly role: 'user';
  readonly promptId: string;
  readonly text: string;
  readonly attachments: readonly Attachment[];
  /** What the research phase found for this prompt; stands before it. */
  readonly context: string;
  /** Ids of the messages of other agents that stand in the context; absent when there are none. */
  readonly messages?: readonly string[];
  /** JSON Schema the answer must fit. */
  readonly outputSchema?: Metadata;
  /** What this prompt says of how its answer is written; absent when it says nothing. */
  readonly generation?: Generation;
}
export interface AssistantEntry extends EntryBase {
  readonly role: 'assistant';
  readonly text: string;
  readonly thinking: readonly { readonly text: string; readonly signature?: string }[];
  readonly toolCalls: readonly { readonly id: string; readonly name: string; readonly input: unknown }[];
}
export interface ToolEntry extends EntryBase {
  readonly role: 'tool';
  readonly id: string;
  readonly name: string;
  readonly output: string;
  readonly isError: boolean;
}
export interface SummaryEntry extends EntryBase {
  readonly role: 'summary';
  readonly text: string;
}
export type ConversationEntry = UserEntry | AssistantEntry | ToolEntry | SummaryEntry;

/** What was said in a session, folded from its signals. A value: folding makes a new one. */
export interface Conversation {
  /** The client's system text and the session-start inject. */
  readonly system: string;
  readonly entries: readonly ConversationEntry[];
  /** Turn that is open, 0 when none is. */
  readonly turn: number;
  readonly waiting: ReadonlyMap<string, Pick<UserEntry, 'text' | 'attachments' | 'outputSchema' | 'generation'>>;
  /** Keys of calls in flight; what comes for another key comes too late and is not part of the conversation. */
  readonly open: readonly string[];
  /** Text of a model call that is not over yet: kept when the call breaks off by an abort. */
  readonly partial: string;
  /** Instruction for the summary, from the pre-compaction hook. */
  readonly summaryPrompt: string;
  readonly summaryText: string;
  /** Chained hash of the system text and all entries. */
  readonly digest: string;
}

export const EMPTY_CONVERSATION: Conversation = {
  system: '',
  entries: [],
  turn: 0,
  waiting: new Map(),
  open: [],
  partial: '',
  summaryPrompt: '',
  summaryText: '',
  digest: '',
};

type SignalFacts = Pick<Signal, 'seq' | 'timestamp' | 'source'>;
type Folds = { readonly [N in SignalName]?: (conversation: Conversation, payload: PayloadOf<N>, signal: SignalFacts) => Conversation };

/** Keys of model calls that write summaries begin so; see machines/steps/compaction-steps.ts. */
const isSummaryKey = (key: string) => key.startsWith('c');

const FOLDS: Folds = {
  // A fork's conversation came with its seed.
  'session:created': (conversation, payload) => (payload.seed ? conversation : { ...conversation, system: payload.system ?? '' }),
  'hook:end': foldHook,
  'prompt:received': (conversation, payload) => {
    const waiting = new Map(conversation.waiting);
    const generation = mergeGeneration(payload);
    waiting.set(payload.promptId, {
      text: payload.content,
      attachments: payload.attachments as Attachment[],
      ...(payload.outputSchema ? { outputSchema: payload.outputSchema } : {}),
      ...(Object.keys(generation).length > 0 ? { generation } : {}),
    });
    for (const id of waiting.keys()) if (waiting.size > WAITING_PROMPTS_MAX) waiting.delete(id);
    return { ...conversation, waiting };
  },
  'turn:rejected': dropWaiting,
  'prompt:cancelled': dropWaiting,
  'turn:start': (conversation, payload, signal) => joinPrompt({ ...conversation, turn: payload.turn }, payload.promptId, signal),
  'turn:steered': (conversation, payload, signal) => joinPrompt(conversation, payload.promptId, signal),
  'harness:start': openCall,
  'tool:call': openCall,
  'tool:result': foldToolResult,
  'text:complete': (conversation, { key, content }) =>
    isSummaryKey(key) || !conversation.open.includes(key) ? conversation : { ...conversation, partial: content },
  'harness:end': foldAnswer,
  'harness:error': foldBrokenAnswer,
  'tool:approval:resolved': (conversation, payload, signal) => {
    if (payload.decision !== 'deny') return conversation;
    const reason = payload.message ? `: ${payload.message}` : '';
    return pushDenied(conversation, payload.id, `denied by ${payload.by}${reason}`, signal);
  },
  'compaction:complete': foldCompaction,
  // A compaction that was given up has no turn that could end.
  'session:idle': giveUpCalls,
  'session:ending': giveUpCalls,
  'turn:end': (conversation, { promptIds }) => ({
    // A message that was to join the turn and came too late for it is answered with it, unsaid.
    ...promptIds.reduce((next, promptId) => dropWaiting(next, { promptId }), conversation),
    turn: 0,
    partial: '',
    open: [],
  }),
};

/** The conversation after one more signal; signals that say nothing leave it as it is. */
export function foldConversation(
  conversation: Conversation,
  signal: Pick<Signal, 'name' | 'payload' | 'seq' | 'timestamp' | 'source'>,
): Conversation {
  const fold = FOLDS[signal.name as SignalName] as
    | ((conversation: Conversation, payload: unknown, signal: SignalFacts) => Conversation)
    | undefined;
  return fold ? fold(conversation, signal.payload, signal) : conversation;
}

function openCall(conversation: Conversation, { key }: { readonly key: string }): Conversation {
  return { ...conversation, open: [...conversation.open, key] };
}

function giveUpCalls(conversation: Conversation): Conversation {
  return conversation.open.length === 0 ? conversation : { ...conversation, open: [] };
}

/** Null when the call was given up before its answer came. */
function closeCall(conversation: Conversation, key: string): Conversation | null {
  return conversation.open.includes(key) ? { ...conversation, open: conversation.open.filter((open) => open !== key) } : null;
}

function foldHook(conversation: Conversation, payload: PayloadOf<'hook:end'>): Conversation {
  switch (payload.hook) {
    case 'session-start':
      return { ...conversation, system: [conversation.system, payload.inject].filter(Boolean).join('\n\n') };
    case 'user-prompt-submit':
      // The hook of a turn that was given up may answer in the next one.
      return payload.inject && payload.key === `t${conversation.turn}.hook`
        ? addMessages(addContext(conversation, payload.inject), payload.messages)
        : conversation;
    case 'pre-compaction':
      return { ...conversation, summaryPrompt: [payload.summaryPrompt, payload.guidelines].filter(Boolean).join('\n\n') };
    default:
      return conversation;
  }
}

function foldToolResult(before: Conversation, payload: PayloadOf<'tool:result'>, signal: SignalFacts): Conversation {
  const conversation = closeCall(before, payload.key);
  if (!conversation) return before;
  const output = typeof payload.output === 'string' ? payload.output : JSON.stringify(payload.output ?? null);
  // Research tools answer before the model speaks: what they found stands before the prompt, a failure is left out.
  if (/\.p\d+$/.test(payload.key)) return payload.isError ? conversation : addContext(conversation, `## ${payload.name}\n${output}`);
  return push(conversation, {
    role: 'tool',
    id: payload.id,
    name: payload.name,
    output,
    isError: payload.isError,
    ...base(conversation, signal),
  });
}

function foldAnswer(before: Conversation, payload: PayloadOf<'harness:end'>, signal: SignalFacts): Conversation {
  const conversation = closeCall(before, payload.key);
  if (!conversation) return before;
  if (isSummaryKey(payload.key)) return { ...conversation, summaryText: payload.content };
  const toolCalls = payload.toolCalls.map(({ id, name, input }) => ({ id, name, input }));
  const answered = push(
    { ...conversation, partial: '' },
    { role: 'assistant', text: payload.content, thinking: payload.thinking ?? [], toolCalls, ...base(conversation, signal) },
  );
  return payload.toolCalls
    .filter((call) => call.approval === 'deny')
    .reduce((next, call) => pushDenied(next, call.id, call.reason ?? 'this tool is denied by policy', signal), answered);
}

/** A call that was aborted in the middle leaves what was said so far; one that is tried again leaves nothing. */
function foldBrokenAnswer(before: Conversation, payload: PayloadOf<'harness:error'>, signal: SignalFacts): Conversation {
  const conversation = closeCall(before, payload.key);
  if (!conversation) return before;
  const { partial } = conversation;
  if (payload.code !== 'aborted' || partial === '' || isSummaryKey(payload.key)) return { ...conversation, partial: '' };
  return push(
    { ...conversation, partial: '' },
    { role: 'assistant', text: partial, thinking: [], toolCalls: [], ...base(conversation, signal) },
  );
}

function foldCompaction(conversation: Conversation, _payload: object, signal: SignalFacts): Conversation {
  // The prompt in work stays word for word; all else lives on in the summary.
  const isOpenPrompt = (entry: ConversationEntry) =>
    entry.role === 'user' && conversation.turn > 0 && entry.turn === conversation.turn && !entry.compacted;
  const open = conversation.entries.filter(isOpenPrompt);
  const past = conversation.entries.map((entry) => (entry.compacted || isOpenPrompt(entry) ? entry : { ...entry, compacted: true }));
  const summary: SummaryEntry = { role: 'summary', text: conversation.summaryText, ...base(conversation, signal) };
  const kept = {
    ...conversation,
    entries: past.filter((entry) => !isOpenPrompt(entry)),
    summaryText: '',
    summaryPrompt: '',
    digest: hash('sha256', conversation.system, 'base64url'),
  };
  return [summary, ...open].reduce<Conversation>((next, entry) => push(next, entry), kept);
}

function joinPrompt(conversation: Conversation, promptId: string, signal: SignalFacts): Conversation {
  const prompt = conversation.waiting.get(promptId);
  if (!prompt) return conversation;
  const waiting = new Map(conversation.waiting);
  waiting.delete(promptId);
  return push({ ...conversation, waiting }, { role: 'user', promptId, ...prompt, context: '', ...base(conversation, signal) });
}

function dropWaiting(conversation: Conversation, payload: { readonly promptId: string }): Conversation {
  if (!conversation.waiting.has(payload.promptId)) return conversation;
  const waiting = new Map(conversation.waiting);
  waiting.delete(payload.promptId);
  return { ...conversation, waiting };
}

function addContext(conversation: Conversation, text: string): Conversation {
  const index = conversation.entries.findLastIndex((entry) => entry.role === 'user');
  const entry = conversation.entries[index];
  if (entry?.role !== 'user') return conversation;
  const context = [entry.context, text].filter(Boolean).join('\n\n');
  const digest = hash('sha256', conversation.digest + context, 'base64url');
  return { ...conversation, digest, entries: conversation.entries.with(index, { ...entry, context }) };
}

/** Beside the context they stand in, so that the next turn can say that they arrived. */
function addMessages(conversation: Conversation, messages: PayloadOf<'hook:end'>['messages']): Conversation {
  const index = conversation.entries.findLastIndex((entry) => entry.role === 'user');
  const entry = conversation.entries[index];
  if (!messages?.length || entry?.role !== 'user') return conversation;
  return { ...conversation, entries: conversation.entries.with(index, { ...entry, messages: messages.map(({ messageId }) => messageId) }) };
}

function pushDenied(conversation: Conversation, id: string, output: string, signal: SignalFacts): Conversation {
  const asked = conversation.entries.findLast((entry) => entry.role === 'assistant' && entry.toolCalls.some((call) => call.id === id));
  const name = asked?.role === 'assistant' ? (asked.toolCalls.find((call) => call.id === id)?.name ?? 'unknown') : 'unknown';
  return push(conversation, { role: 'tool', id, name, output, isError: true, ...base(conversation, signal) });
}

function push(conversation: Conversation, entry: ConversationEntry): Conversation {
  const previous = conversation.digest || hash('sha256', conversation.system, 'base64url');
  return {
    ...conversation,
    entries: [...conversation.entries, entry],
    digest: hash('sha256', previous + JSON.stringify(entry), 'base64url'),
  };
}

function base(conversation: Conversation, signal: SignalFacts): EntryBase {
  return { seq: signal.seq, turn: conversation.turn, at: signal.timestamp, compacted: false };
}
