/** Marks in a row that are kept, as in Unicode's Stream-Safe Text Format; no language needs half of them. */
const MARKS_MAX = 30;
/** Marks, and the two half-width letters that become one when they are normalized. */
const MARKS_TOO_MANY = new RegExp(`([\\p{M}\\uff9e\\uff9f]{${MARKS_MAX}})[\\p{M}\\uff9e\\uff9f]+`, 'gu');

/** Ligatures of whole sentences, which compatibility forms write out in 8 or 18 characters. */
const SENTENCE = /[\ufdfa\ufdfb]/g;
/** So many of them are written out in any text, and one in so many characters of a long one: it at most doubles. The rest stays as it is. */
const SENTENCES_MIN = 10;
const CHARS_PER_SENTENCE = 20;

/**
 * A text in a normal form of Unicode, safe for untrusted text. Sorting takes the square of the marks in a row, so those beyond 30 are left out.
 */
export function normalForm(text: string, form: 'NFC' | 'NFD' | 'NFKC' | 'NFKD'): string {
  const plain = text.replace(MARKS_TOO_MANY, '$1');
  let left = Math.max(SENTENCES_MIN, Math.floor(text.length / CHARS_PER_SENTENCE));
  let end = 0;
  for (const { index } of plain.matchAll(SENTENCE)) {
    if (left === 0) return plain.slice(0, end).normalize(form) + restOf(plain.slice(end), form);
    left -= 1;
    end = index + 1;
  }
  return plain.normalize(form);
}

/** What lies between the ligatures, in the form; they themselves stay. */
function restOf(text: string, form: 'NFC' | 'NFD' | 'NFKC' | 'NFKD'): string {
  return text
    .split(/([\ufdfa\ufdfb]+)/)
    .map((part, index) => (index % 2 === 1 ? part : part.normalize(form)))
    .join('');
}
