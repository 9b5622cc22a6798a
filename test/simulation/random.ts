import { hash } from 'node:crypto';

const UINT32 = 2 ** 32;

/**
 * Random numbers that are the same for the same seed, on every machine.
 * @source sfc32 of PractRand (public domain)
 */
export class Random {
  readonly #seed: string;
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: string | number) {
    this.#seed = String(seed);
    const bytes = Buffer.from(hash('sha256', this.#seed, 'hex'), 'hex');
    this.#a = bytes.readInt32LE(0);
    this.#b = bytes.readInt32LE(4);
    this.#c = bytes.readInt32LE(8);
  }

  /** Another stream of numbers; drawing from it leaves this one as it is. */
  fork(name: string): Random {
    return new Random(`${this.#seed}/${name}`);
  }

  /** At least 0, less than 1. */
  next(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    return (sum >>> 0) / UINT32;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** A whole number, both ends included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  pick<T>(list: readonly T[]): T {
    return list[this.between(0, list.length - 1)]!;
  }

  /** One key of `weights`, as often as its weight says; keys of weight 0 never. */
  weighted<K extends string>(weights: Readonly<Record<K, number>>): K {
    const entries = Object.entries(weights) as [K, number][];
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [key, weight] of entries) {
      if (weight > 0 && left < weight) return key;
      left -= weight;
    }
    return entries.findLast(([, weight]) => weight > 0)![0];
  }
}
