import { isLight } from './light-words.ts';
import { relatedTo } from './related-words.ts';
import { type AskedDate, askedDates, asksHowMany, asksWhen } from './time-words.ts';
import { asksForSomething, wordsIn } from './words.ts';

/** What a word of a question weighs that nearly every question has. */
const LIGHT_WEIGHT = 0.35;
/** The asker speaks of himself. */
const ABOUT_ME = /\b(?:i|me|my|mine|we|our|us)\b/i;

/** Distinct terms of a query that count; a pasted file asks for no more than its first words. */
export const TERMS_MAX = 64;

export interface AskedTerm {
  readonly stem: string;
  /** As it was written, in lower case. */
  readonly word: string;
  /** A whole `foo.bar`: it counts only where somebody wrote it so. */
  readonly whole: boolean;
  /** 0..1: less for a word that says little. */
  readonly weight: number;
  /** Stems of words that may stand for it. */
  readonly related: readonly string[];
}

/** What a query asks for. Nothing in it is an operator. */
export interface Asked {
  /** Distinct, in reading order. */
  readonly terms: readonly AskedTerm[];
  /** Which stems follow which. */
  readonly pairs: ReadonlyMap<string, ReadonlySet<string>>;
  /** All words in lower case: names of people are looked up among them. */
  readonly words: ReadonlySet<string>;
  /** `I`, `my`: the answer speaks of the asker. */
  readonly aboutMe: boolean;
  readonly when: boolean;
  readonly howMany: boolean;
  readonly dates: readonly AskedDate[];
}

export function readQuery(text: string, termsMax = TERMS_MAX): Asked {
  const words = wordsIn(text);
  const told = words.filter((word) => asksForSomething(word));
  const terms = new Map<string, AskedTerm>();
  for (const { stem, text: word, whole } of told) {
    if (!terms.has(stem))
      terms.set(stem, { stem, word, whole, weight: isLight(stem) ? LIGHT_WEIGHT : 1, related: whole ? [] : relatedTo(stem) });
    if (terms.size >= termsMax) break;
  }
  const pairs = new Map<string, Set<string>>();
  for (let index = 1; index < told.length; index += 1) {
    const [first, second] = [told[index - 1]!.stem, told[index]!.stem];
    pairs.set(first, (pairs.get(first) ?? new Set()).add(second));
  }
  return {
    terms: [...terms.values()],
    pairs,
    words: new Set(words.map((word) => word.text)),
    aboutMe: ABOUT_ME.test(text),
    when: asksWhen(text),
    howMany: asksHowMany(text),
    dates: askedDates(text),
  };
}
