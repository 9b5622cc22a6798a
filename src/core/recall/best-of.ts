/** The least of the best `count` values that were offered: a heap whose top is the least of them. */
export class LeastOfBest {
  readonly #heap: Float64Array;

  constructor(count: number) {
    this.#heap = new Float64Array(count).fill(Number.NEGATIVE_INFINITY);
  }

  /** −Infinity while fewer than `count` were offered. */
  get least(): number {
    return this.#heap[0] ?? Number.POSITIVE_INFINITY;
  }

  offer(value: number): void {
    const heap = this.#heap;
    if (heap.length === 0 || value <= heap[0]!) return;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child += 1;
      if (child >= heap.length || heap[child]! >= value) break;
      heap[place] = heap[child]!;
      place = child;
    }
    heap[place] = value;
  }
}
