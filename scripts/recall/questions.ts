import { freshFirst } from '../../src/core/recall/fresh.ts';
import type { IndexedMemory } from '../../src/core/recall/index-view.ts';
import { readQuery } from '../../src/core/recall/query.ts';
import type { RankedMemory } from '../../src/core/recall/rank.ts';
import { RecallIndex } from '../../src/core/recall/recall-index.ts';
import { tellsSomething, wordsIn } from '../../src/core/recall/words.ts';
import type { RecallSet, SetMemory, SetQuestion, Store } from './sets.ts';

/** A question, and all memories that the ranker considers for it, best first. */
export interface Answered {
  readonly question: SetQuestion;
  readonly found: readonly RankedMemory[];
  /** Ids by plain BM25, best first. */
  readonly plain: readonly string[];
}

/** Ask all questions of the sets; conversations stand together in one index, each in a project of its own, as in a daemon. */
export function askAll(sets: readonly RecallSet[]): ReadonlyMap<RecallSet, readonly Answered[]> {
  const shared = new RecallIndex();
  const indexes = new Map<Store, RecallIndex>();
  let seq = 0;
  for (const { stores } of sets) {
    for (const store of stores) {
      const index = store.isDialog ? shared : new RecallIndex();
      indexes.set(store, index);
      const inTime = [...store.memories].sort((a, b) => a.createdAtMs - b.createdAtMs);
      for (const memory of inTime) {
        seq += 1;
        index.put(viewOf(memory.isPrivateTo), indexed(memory, seq));
      }
    }
  }
  return new Map(
    sets.map((set) => [
      set,
      set.stores.flatMap((store) => {
        const plainly = plainRanking(store.memories);
        return store.questions.map((question) => ({ question, found: ask(indexes.get(store)!, question), plain: plainly(question) }));
      }),
    ]),
  );
}

function ask(index: RecallIndex, { text, agent, project }: SetQuestion): RankedMemory[] {
  const views = agent === undefined ? ['global'] : ['global', viewOf(agent)];
  return freshFirst(index.rank(views, readQuery(text), project === undefined ? {} : { aroundProject: project }));
}

function viewOf(agent: string | undefined): string {
  return agent === undefined ? 'global' : `private:${agent}`;
}

function indexed({ id, content, who, project, session, createdAtMs, isPrivateTo }: SetMemory, seq: number): IndexedMemory {
  const owner = isPrivateTo === undefined ? { agentId: 'a', scope: 'global' } : { agentId: isPrivateTo, scope: 'private' };
  const told = { type: 'fact', sourceType: 'manual', tags: null, pinned: false, importance: 0.5, supersededBy: null };
  return { ...told, ...owner, seq, id, content, who, project, sessionKey: session, createdAtMs };
}

const PLAIN_K1 = 1.5;
const PLAIN_B = 0.75;

/** What anybody gets without any of our work: BM25 over stems. */
function plainRanking(memories: readonly SetMemory[]): (question: SetQuestion) => string[] {
  const stemsOf = (text: string): string[] => wordsIn(text).flatMap((word) => (!word.whole && tellsSomething(word) ? [word.stem] : []));
  const read = memories.map((memory) => ({ memory, stems: stemsOf(memory.content) }));
  const documents = new Map<string, number>();
  for (const { stems } of read) for (const stem of new Set(stems)) documents.set(stem, (documents.get(stem) ?? 0) + 1);
  const average = read.reduce((sum, { stems }) => sum + stems.length, 0) / Math.max(1, read.length);
  const worth = (stems: readonly string[], term: string): number => {
    const held = stems.filter((stem) => stem === term).length;
    const count = documents.get(term) ?? 0;
    const idf = Math.log(1 + (read.length - count + 0.5) / (count + 0.5));
    return (idf * held * (PLAIN_K1 + 1)) / (held + PLAIN_K1 * (1 - PLAIN_B + (PLAIN_B * stems.length) / average));
  };
  return ({ text, agent }) => {
    const asked = [...new Set(stemsOf(text))];
    const seen = read.filter(({ memory }) => memory.isPrivateTo === undefined || memory.isPrivateTo === agent);
    const scored = seen.map(({ memory, stems }) => ({ id: memory.id, score: asked.reduce((sum, term) => sum + worth(stems, term), 0) }));
    return scored
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score)
      .map(({ id }) => id);
  };
}
