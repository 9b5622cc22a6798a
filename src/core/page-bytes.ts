/** A page of a list ends here, also when more items were asked for; an item that is larger stands alone; unit: bytes. */
export const PAGE_BYTES_MAX = 4 * 1_048_576;

/** How many of the first items fit on one page as JSON; at least one, where there is one. */
export function countFitting(items: readonly unknown[]): number {
  let bytes = 0;
  for (const [index, item] of items.entries()) {
    bytes += jsonBytes(item);
    if (bytes > PAGE_BYTES_MAX && index > 0) return index;
  }
  return items.length;
}

export function jsonBytes(item: unknown): number {
  return Buffer.byteLength(JSON.stringify(item) ?? '');
}
