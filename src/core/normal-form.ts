/** Marks in a row that are kept, as in Unicode's Stream-Safe Text Format; no language needs half of them. */
const MARKS_MAX = 30;
/** Marks, and the two half-width letters that become one when they are normalized. */
const MARKS_TOO_MANY = new RegExp(`([\\p{M}\\uff9e\\uff9f]{${MARKS_MAX}})[\\p{M}\\uff9e\\uff9f]+`, 'gu');

/** Ligatures of whole sentences, which compatibility forms write out in 8 or 18 characters. They stay as they are. */
const SENTENCES = /([\ufdfa\ufdfb]+)/;

/**
 * A text in a normal form of Unicode, safe for untrusted text. Sorting takes the square of the marks in a row, so those beyond 30 are left out;
 * nothing becomes more than 6 times as long.
 */
export function normalForm(text: string, form: 'NFC' | 'NFD' | 'NFKC' | 'NFKD'): string {
  const plain = text.replace(MARKS_TOO_MANY, '$1');
  if (!SENTENCES.test(plain)) return plain.normalize(form);
  return plain
    .split(SENTENCES)
    .map((part, index) => (index % 2 === 1 ? part : part.normalize(form)))
    .join('');
}
