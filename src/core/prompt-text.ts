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

/** What is said to go on, to agree or to disagree: it names nothing a memory could be about. */
const SMALL_TALK = new Set(
  (
    'hmm hm ah oh well so good great nice cool fine perfect awesome excellent amazing looks look lgtm right correct wrong true exactly agreed sure yep yup nope ' +
    'works worked done continue go ahead proceed carry keep going try next last first second one ones thing same better best back stop wait sorry maybe ' +
    'got see think say said want need would could'
  ).split(' '),
);
/** What is asked to be done: small talk only when it is done to what was just spoken of, as in `commit it` and `run the tests again`. */
const DOING = new Set(
  'fix do make change commit push merge run rerun test tests build deploy revert undo redo retry repeat update add remove delete apply check use show'.split(
    ' ',
  ),
);
/** Of these, what people have rules for: how they want it done is worth telling. */
const DONE_BY_RULES = new Set('commit push merge deploy revert test tests build release review'.split(' '));
const POINTS_BACK = /\b(?:it|that|this|them|those|these|again|so)\b/i;
const ASKS = /\b(?:what|when|where|which|who|whom|whose|why|how)\b/i;

/** A prompt that only keeps the talk going: whatever was said about its words, nobody asked for it. */
export function isSmallTalk(prompt: string): boolean {
  const terms = queryTerms(prompt);
  if (ASKS.test(prompt)) return terms.length === 0;
  const pointsBack = POINTS_BACK.test(prompt);
  return terms.every(({ word }) => SMALL_TALK.has(word) || (pointsBack && DOING.has(word)));
}

/** What a prompt such as `please commit this` asks to be done, where people have rules for it; '' otherwise. Small talk alone is read so. */
export function askedDeeds(prompt: string): string {
  if (!isSmallTalk(prompt)) return '';
  const deeds = queryTerms(prompt).map(({ word }) => word);
  return deeds.some((word) => DONE_BY_RULES.has(word)) ? deeds.filter((word) => DOING.has(word)).join(' ') : '';
}

/** The text to search for: a prompt of a word or two ("and the port?") borrows the first terms of the answer before it, small talk is not searched for. */
export function searchText(prompt: string, lastAnswer: string | undefined): string {
  // What was said before small talk is in the conversation anyway.
  if (isSmallTalk(prompt)) return '';
  const own = queryTerms(prompt, TERMS_ENOUGH).length;
  if (lastAnswer === undefined || own >= TERMS_ENOUGH) return prompt;
  const borrowed = queryTerms(lastAnswer, BORROWED_TERMS_MAX).map((term) => term.word);
  return [prompt, ...borrowed].join(' ');
}
