import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { MemoryDraft } from '../../src/core/memory-store.ts';
import { openMemoryStores } from '../../src/store/memory-store.ts';

/** Words there are; a few are said all the time, most of them hardly ever, as in speech. */
const VOCABULARY = 20_000;
/** The commonest are left out: recall does not look for such words either. */
const COMMON_WORDS = 30;
/** Words of a memory. */
const WORDS_MIN = 6;
const WORDS_SPREAD = 18;
const MEMORIES_PER_SESSION = 25;
const WRITES_AT_ONCE = 1_000;
const BEGIN_MS = Date.parse('2025-01-01T00:00:00.000Z');
const STEP_MS = 60_000;
const SYLLABLES = 'ba ce di fo gu la me ni po ru sa te vi wo zu ka'.split(' ');
const AUTHORS = ['Ada', 'Ben', 'Cleo', 'Dan'];

/** The same numbers in every run. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  next(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#state / 2 ** 32;
  }

  /** A word; the rank in the vocabulary is about exponential. */
  word(): string {
    let rank = Math.floor(COMMON_WORDS * (VOCABULARY / COMMON_WORDS) ** this.next());
    let word = '';
    for (; rank > 0; rank = Math.floor(rank / SYLLABLES.length)) word += SYLLABLES[rank % SYLLABLES.length];
    return word || 'tea';
  }

  words(count: number): string {
    return Array.from({ length: count }, () => this.word()).join(' ');
  }
}

/** A memory as it would be said, number `index` of many. */
export function memoryText(dice: Dice, index: number): string {
  return `${dice.words(WORDS_MIN + Math.floor(dice.next() * WORDS_SPREAD))} ${index}.`;
}

/** Fill the store of a workspace, without a daemon. */
export async function writeMemories(folder: string, count: number): Promise<void> {
  mkdirSync(join(folder, 'data'), { recursive: true });
  const stores = openMemoryStores(join(folder, 'data', 'memory.db'), { now: () => Date.now() });
  const dice = new Dice(count);
  for (let from = 0; from < count; from += WRITES_AT_ONCE) {
    const page = Array.from({ length: Math.min(WRITES_AT_ONCE, count - from) }, (_, index) => draft(dice, from + index));
    await Promise.all(page.map((each) => stores.memories.remember(each)));
  }
  stores.close();
}

function draft(dice: Dice, index: number): MemoryDraft {
  return {
    content: memoryText(dice, index),
    type: 'fact',
    importance: dice.next(),
    tags: [],
    pinned: false,
    who: AUTHORS[index % AUTHORS.length]!,
    agentId: 'default',
    scope: 'global',
    sessionKey: `session-${Math.floor(index / MEMORIES_PER_SESSION)}`,
    sourceType: 'manual',
    createdAtMs: BEGIN_MS + index * STEP_MS,
  };
}
