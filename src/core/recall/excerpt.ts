import { tellsSomething, wordsIn } from './words.ts';

/** Two texts that share this much of their words say the same … */
const SAME_SHARE_MIN = 0.85;
const CUT_MARK = '…';
const SENTENCE = /[^.!?\n]+(?:[.!?]+["')\]]*|\n|$)\s*/gu;

/**
 * The sentences of a long text that hold most words of a query, in their order, with a mark where others were left out.
 * Empty when not even one sentence fits.
 */
export function bestSentences(text: string, stems: ReadonlySet<string>, charsMax: number): string {
  const sentences = [...text.matchAll(SENTENCE)].map(([sentence], place) => ({
    text: sentence.trim(),
    place,
    held: heldBy(sentence, stems),
  }));
  const telling = sentences.filter(({ held }) => held > 0);
  const chosen: typeof sentences = [];
  let left = charsMax;
  for (const sentence of [...(telling.length > 0 ? telling : sentences)].sort((a, b) => b.held - a.held || a.place - b.place)) {
    const cost = sentence.text.length + CUT_MARK.length + 2;
    if (sentence.text === '' || cost > left) continue;
    left -= cost;
    chosen.push(sentence);
  }
  chosen.sort((a, b) => a.place - b.place);
  return chosen
    .map(({ text: told, place }, index) => (place === (chosen[index - 1]?.place ?? -1) + 1 ? told : `${CUT_MARK} ${told}`))
    .join(' ');
}

function heldBy(sentence: string, stems: ReadonlySet<string>): number {
  return new Set(wordsIn(sentence).flatMap((word) => (stems.has(word.stem) ? [word.stem] : []))).size;
}

/** `!` before a word or `=`: it negates. */
const NEGATING_SIGN = /!(?=[=\w$(])/g;

/** … unless a number or a negation makes the difference. */
export function saysTheSame(a: string, b: string): boolean {
  if (a.match(NEGATING_SIGN)?.length !== b.match(NEGATING_SIGN)?.length) return false;
  const [first, second] = [tellingWords(a), tellingWords(b)];
  const shared = [...first].filter((word) => second.has(word)).length;
  if (shared < SAME_SHARE_MIN * (first.size + second.size - shared)) return false;
  return [...first, ...second].every((word) => (first.has(word) && second.has(word)) || !/\d|^(?:not|no|never|cannot)$|n't$/.test(word));
}

function tellingWords(text: string): Set<string> {
  const words = wordsIn(text).filter((word) => tellsSomething(word) || /^(?:not|no|cannot)$/.test(word.text));
  return new Set(words.map((word) => word.stem));
}
