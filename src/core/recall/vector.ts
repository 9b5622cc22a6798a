/** The greatest part of a stored vector. */
const SCALE = 127;

/** A vector as bytes: scaled to its greatest part. Undefined for one that is zero or not a number throughout. */
export function toBytes(vector: ArrayLike<number>): Int8Array | undefined {
  let greatest = 0;
  for (let index = 0; index < vector.length; index += 1) {
    const part = Math.abs(vector[index]!);
    if (!Number.isFinite(part)) return undefined;
    if (part > greatest) greatest = part;
  }
  if (greatest === 0) return undefined;
  return Int8Array.from(vector, (part) => Math.round((part / greatest) * SCALE));
}

/** −1..1; 0 when they have different lengths. */
export function cosine(a: Int8Array, b: Int8Array): number {
  if (a.length !== b.length) return 0;
  let product = 0;
  let aa = 0;
  let bb = 0;
  for (let index = 0; index < a.length; index += 1) {
    const [x, y] = [a[index]!, b[index]!];
    product += x * y;
    aa += x * x;
    bb += y * y;
  }
  return aa === 0 || bb === 0 ? 0 : product / Math.sqrt(aa * bb);
}
