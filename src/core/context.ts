import type { Conversation, ConversationEntry } from './conversation.ts';
import type { ImagePart, Message, TextPart, ToolResultPart } from './provider.ts';

/** Rough and the same everywhere: four characters of text are one token. */
const CHARS_PER_TOKEN = 4;
/** What an image is taken to cost, whatever its size; unit: tokens. */
const IMAGE_TOKENS = 1_600;

const SUMMARY_HEADING = 'Summary of the conversation so far:';
const SUMMARY_REQUEST =
  'Summarise this conversation so that it can go on from your summary alone: the task and its state, decisions and why, facts and preferences, open ends. Answer with the summary only.';
const LOST_RESULT = 'no result: the call was stopped before it finished; it may or may not have had an effect';

export interface ContextSection {
  readonly name: 'system' | 'summary' | 'history' | 'memories' | 'prompt' | 'tools';
  readonly tokens: number;
}

export interface AssembledContext {
  readonly systemPrompt: string;
  readonly messages: readonly Message[];
}

/**
 * What the model is given: identity and session memories as system prompt, then the conversation. What research found for a prompt stands
 * before that prompt, not in the system prompt, so that the beginning of the request stays the same from turn to turn and can be cached.
 * @source spec/native-runtime, "Session Lifecycle" step 3; docs/decisions
 */
export function assembleContext(conversation: Conversation): AssembledContext {
  return { systemPrompt: conversation.system, messages: toMessages(conversation.entries.filter((entry) => !entry.compacted)) };
}

/** The same conversation with the request for its summary at the end. */
export function assembleSummaryRequest(conversation: Conversation): AssembledContext {
  const { systemPrompt, messages } = assembleContext(conversation);
  const text = [conversation.summaryPrompt, SUMMARY_REQUEST].filter(Boolean).join('\n\n');
  return { systemPrompt, messages: [...messages, { role: 'user', content: [{ type: 'text', text }] }] };
}

/** Estimated tokens by section, in the order the model sees them; empty sections are left out. */
export function contextSections(conversation: Conversation, toolTokens: number): ContextSection[] {
  const sums = { system: tokensOf(conversation.system.length), tools: toolTokens, summary: 0, history: 0, memories: 0, prompt: 0 };
  for (const entry of conversation.entries) {
    if (entry.compacted) continue;
    const tokens = entryTokens(entry);
    if (entry.role === 'summary') sums.summary += tokens;
    else if (entry.role === 'user' && entry.turn === conversation.turn) {
      sums.memories += tokensOf(entry.context.length);
      sums.prompt += tokens - tokensOf(entry.context.length);
    } else sums.history += tokens;
  }
  const order = ['system', 'tools', 'summary', 'history', 'memories', 'prompt'] as const;
  return order.filter((name) => sums[name] > 0).map((name) => ({ name, tokens: sums[name] }));
}

function entryTokens(entry: ConversationEntry): number {
  switch (entry.role) {
    case 'user':
      return (
        tokensOf(entry.text.length) +
        tokensOf(entry.context.length) +
        entry.attachments.reduce((sum, part) => sum + (part.type === 'image' ? IMAGE_TOKENS : tokensOf(part.text.length)), 0)
      );
    case 'assistant':
      return (
        tokensOf(entry.text.length) + entry.toolCalls.reduce((sum, call) => sum + tokensOf(JSON.stringify(call.input ?? null).length), 0)
      );
    case 'tool':
      return tokensOf(entry.output.length);
    case 'summary':
      return tokensOf(entry.text.length);
  }
}

function tokensOf(chars: number): number {
  return Math.ceil(chars / CHARS_PER_TOKEN);
}

function toMessages(entries: readonly ConversationEntry[]): Message[] {
  const messages: Message[] = [];
  for (let index = 0; index < entries.length; index += 1) {
    const entry = entries[index]!;
    if (entry.role === 'user') messages.push(userMessage(entry));
    else if (entry.role === 'summary')
      messages.push({ role: 'user', content: [{ type: 'text', text: `${SUMMARY_HEADING}\n\n${entry.text}` }] });
    else if (entry.role === 'assistant') pushAssistant(messages, entry, entries.slice(index + 1));
  }
  return messages;
}

function userMessage(entry: Extract<ConversationEntry, { role: 'user' }>): Message {
  const parts: (TextPart | ImagePart)[] = [];
  if (entry.context) parts.push({ type: 'text', text: entry.context });
  for (const attachment of entry.attachments) {
    if (attachment.type === 'image') parts.push({ type: 'image', mediaType: attachment.mediaType, data: attachment.data });
    else parts.push({ type: 'text', text: attachment.name ? `${attachment.name}:\n${attachment.text}` : attachment.text });
  }
  parts.push({ type: 'text', text: entry.text });
  return { role: 'user', content: parts };
}

/** Results in call order, one for every call: no wire takes a call without its result. */
function pushAssistant(
  messages: Message[],
  entry: Extract<ConversationEntry, { role: 'assistant' }>,
  after: readonly ConversationEntry[],
): void {
  const thinking = entry.thinking.map(
    (part) => ({ type: 'thinking', text: part.text, ...(part.signature ? { signature: part.signature } : {}) }) as const,
  );
  const text = entry.text === '' ? [] : [{ type: 'text', text: entry.text } as const];
  const calls = entry.toolCalls.map((call) => ({ type: 'tool_call', ...call }) as const);
  if (text.length + calls.length === 0) return;
  messages.push({ role: 'assistant', content: [...thinking, ...text, ...calls] });
  if (calls.length === 0) return;
  const results = calls.map((call): ToolResultPart => {
    const result = after.find((later) => later.role === 'tool' && later.id === call.id);
    return result?.role === 'tool'
      ? { type: 'tool_result', id: call.id, name: call.name, output: result.output, isError: result.isError }
      : { type: 'tool_result', id: call.id, name: call.name, output: LOST_RESULT, isError: true };
  });
  messages.push({ role: 'tool', content: results });
}
