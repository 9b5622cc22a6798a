const NEWLINE = 10;

/** A line went beyond its cap: where the next one begins is not known any more. */
export class LineTooLong extends Error {
  constructor(bytesMax: number) {
    super(`a message is longer than ${bytesMax} bytes`);
  }
}

/**
 * Takes bytes as they come and yields whole lines, without their ends. A line that takes many pieces is joined once: what a server prints
 * costs time in proportion to its length.
 *
 * @param bytesMax  longest line; what is longer throws LineTooLong, and the reader is of no more use
 */
export function createLineReader(bytesMax: number): (chunk: Buffer) => Generator<string, void> {
  let pieces: Buffer[] = [];
  let bytes = 0;
  return function* read(chunk) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const line = Buffer.concat([...pieces, chunk.subarray(start, end)]).toString('utf8');
      pieces = [];
      bytes = 0;
      start = end + 1;
      yield line.replace(/\r$/, '');
    }
    if (start < chunk.length) pieces.push(chunk.subarray(start));
    bytes += chunk.length - start;
    if (bytes > bytesMax) throw new LineTooLong(bytesMax);
  };
}
