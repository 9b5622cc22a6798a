/**
 * Does `text` fit the pattern, in which `*` stands for any run of characters, also none? Everything else stands for itself.
 * Linear in the lengths of both, whatever they are: each piece between two stars is looked for once, from where the last one ended.
 */
export function fitsGlob(pattern: string, text: string): boolean {
  const pieces = pattern.split('*');
  if (pieces.length === 1) return pattern === text;
  const head = pieces.shift()!;
  const tail = pieces.pop()!;
  if (text.length < head.length + tail.length || !text.startsWith(head) || !text.endsWith(tail)) return false;
  const end = text.length - tail.length;
  let from = head.length;
  for (const piece of pieces) {
    const found = find(piece, text, from, end);
    if (found < 0) return false;
    from = found + piece.length;
  }
  return true;
}

/** First place of `piece` in text[from, end), -1 when there is none. @source Knuth, Morris and Pratt: indexOf takes quadratic time at worst */
function find(piece: string, text: string, from: number, end: number): number {
  if (piece === '') return from;
  const borders = bordersOf(piece);
  let matched = 0;
  for (let at = from; at < end; at += 1) {
    while (matched > 0 && piece[matched] !== text[at]) matched = borders[matched - 1]!;
    if (piece[matched] === text[at]) matched += 1;
    if (matched === piece.length) return at - matched + 1;
  }
  return -1;
}

/** For each prefix the length of its longest proper prefix that is also its end. */
function bordersOf(piece: string): number[] {
  const borders = [0];
  for (let at = 1, matched = 0; at < piece.length; at += 1) {
    while (matched > 0 && piece[matched] !== piece[at]) matched = borders[matched - 1]!;
    if (piece[matched] === piece[at]) matched += 1;
    borders.push(matched);
  }
  return borders;
}
