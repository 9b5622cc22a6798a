const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const MONTH =
  '(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)';

const TIME =
  /\b(?:yesterday|today|tonight|tomorrow|ago|last|next|since|weekend|(?:mon|tues|wednes|thurs|fri|satur|sun)day|morning|evening|recently|soon|(?:week|month|year|day)s?|(?:19|20)\d\d|january|february|march|april|june|july|august|september|october|november|december)\b/i;
const NUMBER =
  /\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|once|twice|both|couple|several)\b/i;

export function mentionsTime(text: string): boolean {
  return TIME.test(text);
}

export function mentionsNumber(text: string): boolean {
  return NUMBER.test(text);
}

export function asksWhen(query: string): boolean {
  return /\b(?:when|what (?:date|day|month|year|time)|which (?:day|month|year|date)|how long(?: ago)?)\b/i.test(query);
}

export function asksHowMany(query: string): boolean {
  return /\bhow (?:many|much|often|old|long)\b/i.test(query);
}

/** A day, month or year somebody asks for; what was not said is undefined. */
export interface AskedDate {
  readonly year?: number;
  /** 1..12 */
  readonly month?: number;
  readonly day?: number;
}

const ISO_DATE = /\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?\b/g;
const DAY_MONTH = new RegExp(`\\b(\\d{1,2})(?:st|nd|rd|th)?(?: of)? ${MONTH}\\b(?:,? ((?:19|20)\\d\\d))?`, 'gi');
const MONTH_DAY = new RegExp(`\\b${MONTH} (\\d{1,2})(?:st|nd|rd|th)?\\b(?:,? ((?:19|20)\\d\\d))?`, 'gi');
const MONTH_YEAR = new RegExp(
  `\\b(?:in|of|during|since|around|early|late|mid) ${MONTH}\\b(?:,? ((?:19|20)\\d\\d))?|\\b${MONTH},? ((?:19|20)\\d\\d)`,
  'gi',
);

/** Dates a query names, each once. */
export function askedDates(query: string): AskedDate[] {
  const number = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text));
  const month = (text: string | undefined): number | undefined =>
    text === undefined ? undefined : MONTHS.indexOf(text.slice(0, 3).toLowerCase()) + 1;
  const exact = [
    ...[...query.matchAll(ISO_DATE)].map(([, y, m, d]) => ({ year: number(y), month: number(m), day: number(d) })),
    ...[...query.matchAll(DAY_MONTH)].map(([, d, m, y]) => ({ year: number(y), month: month(m), day: number(d) })),
    ...[...query.matchAll(MONTH_DAY)].map(([, m, d, y]) => ({ year: number(y), month: month(m), day: number(d) })),
  ];
  if (exact.length > 0) return exact;
  return [...query.matchAll(MONTH_YEAR)].map(([, m1, y1, m2, y2]) => ({ year: number(y1 ?? y2), month: month(m1 ?? m2) }));
}

/** The day asked 1.5, the month asked 1, the month of the day asked 0.3, anything else 0. UTC. */
export function dateMatch(asked: readonly AskedDate[], atMs: number): number {
  if (asked.length === 0) return 0;
  const at = new Date(atMs);
  let best = 0;
  for (const date of asked) {
    if (date.month !== at.getUTCMonth() + 1 || (date.year !== undefined && date.year !== at.getUTCFullYear())) continue;
    const match = date.day === undefined ? 1 : date.day === at.getUTCDate() ? 1.5 : 0.3;
    best = Math.max(best, match);
  }
  return best;
}
