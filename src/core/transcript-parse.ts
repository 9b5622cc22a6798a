import type { TranscriptTurn } from './memory-store.ts';

/** Longest turn that is kept whole; the middle of a longer one is left out, and says so. Unit: characters. */
export const TURN_CHARS_MAX = 200_000;
/** Output of a tool beyond this says nothing that a later session would ask for. Unit: characters. */
const TOOL_CHARS_MAX = 4_000;
/** What harnesses put into a user's turn by themselves. */
const OWN_WORDS = /^\s*<(?:environment_context|user_instructions|system-reminder|command-name|local-command-stdout|INSTRUCTIONS)\b/;
const SPOKEN_LINE = /^(User|Human|Assistant|System|Tool)\s*:\s*/i;
const SPEAKERS: Readonly<Record<string, string>> = { human: 'user' };

type Fields = Readonly<Record<string, unknown>>;

/**
 * One line of a transcript file: the formats of Claude Code, Codex and pi, and plain `{role, content}`. What a harness noted for itself
 * (attachments, hook output, side chains, instructions) is left out: read back, it would turn our own injects into memories.
 *
 * @returns undefined for a line that is no turn; never throws
 */
export function turnOfLine(line: string): TranscriptTurn | undefined {
  const record = parseObject(line);
  return record && turnOfRecord(record);
}

/** A whole file in one piece: a JSON array, an object with `messages`, or plain text with `User:` and `Assistant:` in front of its turns. */
export function turnsOfText(text: string): TranscriptTurn[] {
  const value = parseValue(text);
  const list = Array.isArray(value) ? value : isFields(value) && Array.isArray(value.messages) ? value.messages : undefined;
  if (list) return list.flatMap((entry) => (isFields(entry) ? (turnOfRecord(entry) ?? []) : []));
  return spokenTurns(text);
}

function turnOfRecord(record: Fields): TranscriptTurn | undefined {
  if (record.isSidechain === true || record.isMeta === true || record.isCompactSummary === true) return undefined;
  const said = [record.message, record.payload, record].find((part): part is Fields => isFields(part) && isTurn(part));
  if (!said) return undefined;
  const { role, content } = roleAndText(said);
  const at = [record.timestamp, record.at, said.timestamp].map(timeOf).find((time) => time !== undefined);
  if (content.trim() === '' || role === 'developer' || role === 'system' || (role === 'user' && OWN_WORDS.test(content))) return undefined;
  return { role, content: shorten(content, role === 'tool' ? TOOL_CHARS_MAX : TURN_CHARS_MAX), ...(at === undefined ? {} : { at }) };
}

function isTurn(part: Fields): boolean {
  if (part.type === 'function_call_output') return true;
  return typeof part.role === 'string' && 'content' in part;
}

function roleAndText(said: Fields): { role: string; content: string } {
  if (said.type === 'function_call_output') return { role: 'tool', content: textOf(said.output) };
  const role = String(said.role).toLowerCase().slice(0, 64);
  const blocks = Array.isArray(said.content) ? said.content.filter(isFields) : [];
  // Claude Code sends the results of tools as turns of the user.
  const isResult = role === 'toolresult' || (blocks.length > 0 && blocks.every((block) => block.type === 'tool_result'));
  return { role: isResult ? 'tool' : (SPEAKERS[role] ?? role), content: textOf(said.content) };
}

/** The text of a content field; thinking and images are not among what was said. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (isFields(content) && typeof content.output === 'string') return content.output;
  if (!Array.isArray(content)) return '';
  const parts = content.filter(isFields).map((block) => {
    if (block.type === 'tool_use' || block.type === 'toolCall') return `[tool ${String(block.name)}]`;
    if (block.type === 'tool_result') return textOf(block.content);
    return typeof block.text === 'string' && block.type !== 'thinking' ? block.text : '';
  });
  return parts.filter((part) => part !== '').join('\n');
}

function spokenTurns(text: string): TranscriptTurn[] {
  const turns: { role: string; content: string }[] = [];
  for (const line of text.split(/\r?\n/)) {
    const speaker = SPOKEN_LINE.exec(line);
    const name = speaker?.[1]?.toLowerCase();
    if (name !== undefined) turns.push({ role: SPEAKERS[name] ?? name, content: line.slice(speaker![0].length) });
    else if (turns.length > 0) turns.at(-1)!.content += `\n${line}`;
    else if (line.trim() !== '') turns.push({ role: 'transcript', content: line });
  }
  return turns
    .map(({ role, content }) => ({ role, content: shorten(content.trim(), TURN_CHARS_MAX) }))
    .filter((turn) => turn.content !== '');
}

function shorten(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  const half = Math.floor(charsMax / 2);
  return `${text.slice(0, half)}\n[… ${text.length - 2 * half} characters left out …]\n${text.slice(-half)}`;
}

function timeOf(value: unknown): string | undefined {
  if (typeof value !== 'string' && typeof value !== 'number') return undefined;
  const ms = typeof value === 'number' ? value : Date.parse(value);
  return Number.isFinite(ms) && Math.abs(ms) < 8.64e15 ? new Date(ms).toISOString() : undefined;
}

function parseObject(line: string): Fields | undefined {
  const value = line.trim() === '' ? undefined : parseValue(line);
  return isFields(value) ? value : undefined;
}

function parseValue(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined; // Not JSON: the caller reads it as text, or passes it over.
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
