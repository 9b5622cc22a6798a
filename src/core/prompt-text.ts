import { queryTerms } from './recall-query.ts';

/** A line that says untrusted metadata follows: `Conversation info (untrusted metadata):`. */
const ENVELOPE_LABEL = /^[^\n]{0,120}\(untrusted[^\n)]{0,60}\):?[ \t]*$/i;
/** Lines one envelope may have; a longer one is the user's own text. */
const ENVELOPE_LINES_MAX = 60;
/** Mentions as chat programs write them: `<@123456>`, `<@&123>`, `<#123>`, `<:name:123>`. */
const MENTION = /<(?:@[!&]?|#|a?:\w{1,64}:)\d{5,25}>/g;
/** A prompt of fewer terms is understood only with what was said before it. */
const TERMS_ENOUGH = 3;
const BORROWED_TERMS_MAX = 2;

/**
 * What the user said, without the envelopes that chat gateways put around it: blocks of JSON under a label "(untrusted metadata)", and mentions.
 * A text that is nothing but envelope stays as it is. Runs in linear time.
 */
export function withoutEnvelopes(text: string): string {
  const lines = text.split('\n');
  const kept: string[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const end = ENVELOPE_LABEL.test(lines[at]!) ? envelopeEnd(lines, at + 1) : undefined;
    if (end === undefined) kept.push(lines[at]!);
    else at = end;
  }
  const plain = kept.join('\n').replace(MENTION, ' ').trim();
  return plain === '' ? text : plain;
}

/** Index of the last line of the JSON block that begins at `start`, fenced or not; undefined when none does. */
function envelopeEnd(lines: readonly string[], start: number): number | undefined {
  const fenced = /^\s*```/.test(lines[start] ?? '');
  if (!fenced && !/^\s*[{[]/.test(lines[start] ?? '')) return undefined;
  const closing = fenced ? /^\s*```\s*$/ : /^\s*[}\]]\s*$/;
  const last = Math.min(lines.length, start + ENVELOPE_LINES_MAX);
  if (!fenced && /[}\]]\s*$/.test(lines[start]!)) return start;
  for (let at = start + 1; at < last; at += 1) if (closing.test(lines[at]!)) return at;
  return undefined;
}

/** The text to search for: a prompt of a word or two ("and the other one?") borrows the first terms of the answer before it. */
export function searchText(prompt: string, lastAnswer: string | undefined): string {
  const own = queryTerms(prompt, TERMS_ENOUGH).length;
  // Without a word of its own a prompt is small talk: what was said before it is in the conversation anyway.
  if (lastAnswer === undefined || own === 0 || own >= TERMS_ENOUGH) return prompt;
  const borrowed = queryTerms(lastAnswer, BORROWED_TERMS_MAX).map((term) => term.word);
  return [prompt, ...borrowed].join(' ');
}
