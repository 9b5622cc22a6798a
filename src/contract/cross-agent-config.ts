import { z } from 'zod';

/** Days a message is kept, read or not, unless configured. */
const RETENTION_DAYS = 7;
/** Messages kept in all, unless configured; beyond that the oldest go. */
const MESSAGES_MAX = 10_000;
/** Characters that messages may take in the inject of one prompt, unless configured. */
const INJECT_CHARS_MAX = 2_400;
/** Enough for the frame of the block and some words of one message. */
const INJECT_CHARS_MIN = 800;

/** `http://127.0.0.1:8000` or `https://agents.example.com`: scheme, host and port, nothing behind. */
const Origin = z.string().refine(isOrigin, {
  error: 'must be an origin such as https://agents.example.com; http is taken only for localhost and for addresses written as numbers',
});

/** `crossAgent:` of agent.yaml. */
export const CrossAgentConfig = z.strictObject({
  retentionDays: z.int().min(1).max(365).default(RETENTION_DAYS).describe('Days a message between agents is kept, read or not'),
  messagesMax: z.int().min(10).max(1_000_000).default(MESSAGES_MAX).describe('Messages kept in all; beyond that the oldest are dropped'),
  injectCharsMax: z
    .int()
    .min(INJECT_CHARS_MIN)
    .max(20_000)
    .default(INJECT_CHARS_MAX)
    .describe('Characters that unread messages may take in the inject of one prompt; what does not fit comes with the next'),
  acp: z
    .strictObject({
      allowedOrigins: z
        .array(Origin)
        .max(64)
        .default([])
        .describe(
          'Servers that messages may be relayed to with via: acp, as origins. A name never leads into a private network; ' +
            'localhost, or an address written as numbers, allows that address itself',
        ),
    })
    .prefault({}),
});
export type CrossAgentConfig = z.output<typeof CrossAgentConfig>;

function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, origin } = new URL(text);
  if (origin !== text.toLowerCase().replace(/\/$/, '')) return false;
  const isNumber = /^[\d.]+$|^\[/.test(hostname);
  return protocol === 'https:' || (protocol === 'http:' && (hostname === 'localhost' || isNumber));
}
