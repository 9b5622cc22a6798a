/** Marks in a row that are kept, as in Unicode's Stream-Safe Text Format; no language needs half of them. */
const MARKS_MAX = 30;
/** Marks, and the two half-width letters that become one when they are normalized. */
const MARKS_TOO_MANY = new RegExp(`([\\p{M}\\uff9e\\uff9f]{${MARKS_MAX}})[\\p{M}\\uff9e\\uff9f]+`, 'gu');

/** A text of a stranger in a normal form of Unicode. Sorting takes the square of the marks in a row: those beyond 30 are left out. */
export function normalForm(text: string, form: 'NFC' | 'NFD' | 'NFKC' | 'NFKD'): string {
  return text.replace(MARKS_TOO_MANY, '$1').normalize(form);
}
