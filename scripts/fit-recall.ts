import { resolve } from 'node:path';
import { type Features, WEIGHTS } from '../src/core/recall/features.ts';
import { matchOf } from '../src/core/recall/match.ts';
import { type Answered, askAll } from './recall/questions.ts';
import { readSets } from './recall/sets.ts';

// Usage: node scripts/fit-recall.ts [--fit] [folder ...]. Measures recall on the sets of bench/recall and of the folders named, with plain BM25
// beside it. With --fit it also looks for better weights. Procedure, the same every time:
//   1. All candidates of each question are measured once; only the weights of features.ts are fitted, by coordinate ascent from those in use, in
//      steps of 1, 0.5 and 0.25, until no step helps.
//   2. What is made greater: the mean over the sets of (R@5 + R@10 + 2 nDCG@10) / 4, less a little for every unit of weight. Variants of one
//      generator count as one set, by the letters of their names.
//   3. Each set is left out once, and measured with the weights of the others. A sign, or a word list, is kept only where the sets it was not
//      fitted on do not lose by it. Round the weights of all sets by hand; take no weight that one set alone asks for.
//   4. The bounds of match.ts are chosen last: at most 45 % of the questions nothing answers may show anything.

const NAMES = Object.keys(WEIGHTS) as (keyof Features)[];
/** What one unit of weight must gain; keeps weights small that hardly matter. */
const COST_OF_WEIGHT = 0.03;
const STEPS = [1, 0.5, 0.25];
const ROUNDS_MAX = 3;

/** One question that can be answered. */
interface Case {
  readonly features: readonly Float64Array[];
  readonly isEvidence: readonly boolean[];
  readonly evidence: number;
}
interface Group {
  readonly name: string;
  readonly cases: Case[];
}

const folders = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const sets = [resolve(import.meta.dirname, '..', 'bench', 'recall'), ...folders].flatMap((folder) => readSets(folder));
const answered = askAll(sets);
for (const [{ name }, answers] of answered) print(`${name.padEnd(12)} ${figuresOf(answers)}`);
if (process.argv.includes('--fit')) fitAll();

function figuresOf(answers: readonly Answered[]): string {
  const asked = answers.filter(({ question }) => question.evidence.length > 0);
  const shows = ({ found }: Answered): boolean => found.slice(0, 10).some((memory) => ['strong', 'possible'].includes(matchOf(memory)));
  const line = (ids: (one: Answered) => readonly string[]): string => {
    const rows = asked.map((one) =>
      measure(
        ids(one).map((id) => one.question.evidence.includes(id)),
        one.question.evidence.length,
      ),
    );
    return [0, 1, 2, 3].map((place) => percent(rows.map((row) => row[place]!))).join(' ');
  };
  const silent = answers.filter(({ question }) => question.evidence.length === 0);
  const loud = `shown ${percent(asked.map((one) => (shows(one) ? 1 : 0)))} %, unanswerable ${silent.filter(shows).length}/${silent.length}`;
  const ours = line(({ found }) => found.map(({ entry }) => entry.id));
  return `R@1 R@5 R@10 nDCG@10  ${ours}  plain BM25  ${line(({ plain }) => plain)}  ${loud}`;
}

/** R@1, R@5, R@10, nDCG@10. */
function measure(isEvidence: readonly boolean[], evidence: number): number[] {
  const recall = (count: number): number => isEvidence.slice(0, count).filter(Boolean).length / evidence;
  const gain = (hits: readonly boolean[]): number =>
    hits.slice(0, 10).reduce((sum, hit, place) => sum + (hit ? 1 / Math.log2(place + 2) : 0), 0);
  return [recall(1), recall(5), recall(10), gain(isEvidence) / gain(Array.from({ length: evidence }, () => true))];
}

function fitAll(): void {
  const groups = new Map<string, Group>();
  for (const [{ name }, answers] of answered) {
    const group = name.replace(/\d+$/, '');
    groups.set(group, { name: group, cases: [...(groups.get(group)?.cases ?? []), ...answers.flatMap(caseOf)] });
  }
  const all = [...groups.values()];
  const start = Float64Array.from(NAMES, (name) => WEIGHTS[name]);
  print(`\nin use        ${told(all, start)}`);
  const best = fitted(all, start);
  print(`fitted        ${told(all, best)}\n              ${named(best)}`);
  for (const left of all) {
    const weights = fitted(
      all.filter((group) => group !== left),
      start,
    );
    print(`without ${left.name}: ${told([left], weights)}\n              ${named(weights)}`);
  }
}

function caseOf({ question, found }: Answered): Case[] {
  if (question.evidence.length === 0) return [];
  const features = found.map((memory) => Float64Array.from(NAMES, (name) => memory.features[name]));
  return [{ features, isEvidence: found.map(({ entry }) => question.evidence.includes(entry.id)), evidence: question.evidence.length }];
}

function fitted(groups: readonly Group[], start: Float64Array): Float64Array {
  const weights = Float64Array.from(start);
  let best = worth(groups, weights);
  for (const step of STEPS) {
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const before = best;
      // The first is the unit of all others.
      for (let place = 1; place < NAMES.length; place += 1) {
        const was = weights[place]!;
        let kept = was;
        for (const tried of [was - step, was + step, was - 2 * step, was + 2 * step, 0]) {
          weights[place] = tried;
          const value = worth(groups, weights);
          if (value > best) [best, kept] = [value, tried];
        }
        weights[place] = kept;
      }
      if (best === before) break;
    }
  }
  return weights;
}

function worth(groups: readonly Group[], weights: Float64Array): number {
  const means = groups.map(({ cases }) => {
    const rows = cases.map((one) => ranked(one, weights));
    return (100 * rows.reduce((sum, [, five, ten, gain]) => sum + five! + ten! + 2 * gain!, 0)) / 4 / rows.length;
  });
  return (
    means.reduce((sum, mean) => sum + mean, 0) / means.length - COST_OF_WEIGHT * weights.reduce((sum, weight) => sum + Math.abs(weight), 0)
  );
}

function ranked({ features, isEvidence, evidence }: Case, weights: Float64Array): number[] {
  const scores = features.map((row) => row.reduce((sum, value, place) => sum + value * weights[place]!, 0));
  const hits: boolean[] = [];
  // Only the places of the evidence matter.
  for (let index = 0; index < scores.length; index += 1) {
    if (!isEvidence[index]) continue;
    const place = scores.reduce(
      (above, score, other) => above + (score > scores[index]! || (score === scores[index] && other < index) ? 1 : 0),
      0,
    );
    hits[place] = true;
  }
  return measure(
    Array.from({ length: Math.min(hits.length, 10) }, (_, place) => hits[place] ?? false),
    evidence,
  );
}

function told(groups: readonly Group[], weights: Float64Array): string {
  return groups
    .map(({ name, cases }) => {
      const rows = cases.map((one) => ranked(one, weights));
      return `${name} ${[0, 1, 2, 3].map((place) => percent(rows.map((row) => row[place]!))).join('/')}`;
    })
    .join('  ');
}

function named(weights: Float64Array): string {
  return NAMES.map((name, place) => `${name} ${weights[place]}`).join('  ');
}

function percent(values: readonly number[]): string {
  return ((100 * values.reduce((sum, value) => sum + value, 0)) / Math.max(1, values.length)).toFixed(1);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
