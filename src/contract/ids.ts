import { z } from 'zod';

/** A session's own id: also the stream `session:<id>` of its signals. Lower case, no colon, 6 to 64 characters. */
export const SessionId = z.string().regex(/^[a-z0-9_]{6,64}$/, 'must be 6 to 64 characters of a-z, 0-9 and _');
export type SessionId = z.output<typeof SessionId>;

/** A session that is asked for: one that is not there is not found, however it is spelled. */
export const AskedSession = z.string().regex(/^[^\p{Cc}]{1,128}$/u, 'must be 1 to 128 characters, none of them a control character');

/** A harness's name for a conversation; any text without control characters (`agent:dot:main` is common). */
export const SessionKey = z.string().min(1).max(512);
export type SessionKey = z.output<typeof SessionKey>;

/** Doubles as the idempotency key of the prompt. */
export const PromptId = z.string().regex(/^[A-Za-z0-9_.:-]{1,128}$/, 'must be 1 to 128 characters of letters, digits and _ . : -');
export type PromptId = z.output<typeof PromptId>;

/** An agent's name: the folder `agents/<name>` and the scope of its private memories. */
const AGENT_NAME_CHARS_MAX = 64;
const AGENT_NAME_RULE = 'must be 1 to 64 characters of a-z, 0-9, _ and -, starting with a letter or digit';
export const AgentName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, { error: ({ input }) => AGENT_NAME_RULE + likeName(String(input)) });
export type AgentName = z.output<typeof AgentName>;

/** Names of devices, which no folder can have on Windows: a workspace that is carried there must not lose an agent. A part of a regular expression. */
export const DEVICE_NAMES = '(?:con|prn|aux|nul|com[0-9]|lpt[0-9])';
const DEVICE_NAME = new RegExp(`^${DEVICE_NAMES}$`);

/** Behind a refused name, one that would do: `style-reviewer` for `styleReviewer`. */
function likeName(text: string): string {
  const words = text.slice(0, AGENT_NAME_CHARS_MAX).replace(/([a-z0-9])([A-Z])/g, '$1-$2');
  const plain = words
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '-')
    .replace(/^[-_]+/, '');
  const name = plain.slice(0, AGENT_NAME_CHARS_MAX).replace(/-$/, '');
  return name === '' ? '' : `; did you mean "${DEVICE_NAME.test(name) ? `${name}-agent` : name}"?`;
}

/** The agent a call is made for. Shell hooks and existing clients say "none" by an empty text or null. */
export const AskingAgent = z
  .string()
  .regex(/^(?:[a-z0-9][a-z0-9_-]{0,63})?$/, AGENT_NAME_RULE)
  .nullish()
  .transform((name) => name || undefined)
  .optional();

/** The agent that owns whatever is written without naming one. */
export const DEFAULT_AGENT = 'default';

export const ToolName = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 characters of letters, digits, _ and -');
export type ToolName = z.output<typeof ToolName>;

/** Free JSON object kept beside a record; never interpreted. */
export const Metadata = z.record(z.string(), z.unknown());
export type Metadata = z.output<typeof Metadata>;

/** ISO 8601 UTC with milliseconds. */
export const Timestamp = z.iso.datetime({ offset: true });
