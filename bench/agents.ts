/** What a hundred agents on one store cost one of them: recall beside the private memories of all others, and under a read policy. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type PolicyEntry, readPolicies } from '../src/core/agent-policy.ts';
import { type MemoryDraft, type MemoryStore, scopeOf } from '../src/core/memory-store.ts';
import { openMemoryStores } from '../src/store/memory-store.ts';
import { report } from './rig/figure.ts';
import { Dice, memoryText } from './rig/memories.ts';
import { median, pause } from './rig/process-usage.ts';

const AGENTS = 100;
const PRIVATE_EACH = 1_000;
const GLOBAL_EACH = 10;
const QUERY_WORDS = 6;
const WARM_UP = 200;
const RECALLS = 400;
/** Rounds of each, in turns: the machine is not equally fast all the time. */
const ROUNDS = 5;
const READY_POLL_MS = 20;
const RATIO_MAX = 1.5;

const alone = await openWith(1);
const many = await openWith(AGENTS);
const grouped = await openWith(1, (index) => ({ name: nameOf(index), read_policy: 'group', policy_group: `group-${index % 10}` }));

const costs = { alone: [] as number[], many: [] as number[], grouped: [] as number[] };
for (let round = 0; round <= ROUNDS; round += 1) {
  // The first round warms up.
  const recalls = round === 0 ? WARM_UP : RECALLS;
  const cost = {
    alone: await msOf(alone.memories, recalls),
    many: await msOf(many.memories, recalls),
    grouped: await msOf(grouped.memories, recalls),
  };
  if (round > 0) for (const name of ['alone', 'many', 'grouped'] as const) costs[name].push(cost[name]);
}
const note = `${AGENTS} agents with ${PRIVATE_EACH} private memories each, against a store that holds those of one alone; the same global ones`;
report({ name: 'recall of one agent alone', value: median(costs.alone), unit: 'ms' });
report({ name: `recall of one of ${AGENTS} agents`, value: median(costs.many), unit: 'ms' });
report({
  name: 'cost of private memories of others',
  value: median(costs.many) / median(costs.alone),
  unit: 'times',
  atMost: RATIO_MAX,
  note,
});
report({ name: 'cost of groups that read apart', value: median(costs.grouped) / median(costs.alone), unit: 'times', atMost: RATIO_MAX });
for (const { stores, folder } of [alone, many, grouped]) {
  stores.close();
  rmSync(folder, { recursive: true, force: true });
}

function nameOf(index: number): string {
  return `agent-${index}`;
}

/** A store with the global memories of all agents, and the private ones of so many of them. */
async function openWith(withPrivate: number, entry?: (index: number) => PolicyEntry) {
  const folder = mkdtempSync(join(tmpdir(), 'signet-agents-'));
  const policies = readPolicies(entry ? Array.from({ length: AGENTS }, (_, index) => entry(index)) : []);
  const stores = openMemoryStores(join(folder, 'memory.db'), { now: () => Date.now() }, undefined, () => policies);
  const { memories } = stores;
  for (let agent = 0; agent < AGENTS; agent += 1) {
    // The first agent remembers the same in every store.
    const dice = new Dice(agent + 1);
    const count = GLOBAL_EACH + (agent < withPrivate ? PRIVATE_EACH : 0);
    await Promise.all(Array.from({ length: count }, (_, index) => memories.remember(draft(dice, agent, index))));
  }
  while (memories.indexStatus().state !== 'ready') await pause(READY_POLL_MS);
  return { stores, memories, folder };
}

function draft(dice: Dice, agent: number, index: number): MemoryDraft {
  const scope = index < GLOBAL_EACH ? 'global' : 'private';
  const rest = { type: 'fact', importance: dice.next(), tags: [], pinned: false, who: 'bench', sourceType: 'manual' };
  return { ...rest, content: memoryText(dice, index), agentId: nameOf(agent), scope };
}

/** Mean of many recalls by the first agent. */
async function msOf(memories: MemoryStore, recalls: number): Promise<number> {
  const dice = new Dice(7);
  const reader = scopeOf(nameOf(0));
  const from = performance.now();
  for (let recall = 0; recall < recalls; recall += 1) await memories.recall(reader, { text: dice.words(QUERY_WORDS), limit: 10 });
  return (performance.now() - from) / recalls;
}
