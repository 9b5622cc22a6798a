import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { call, hooksOf } from './calls.ts';
import { verifies } from './verifies.ts';

const DAY_MS = 86_400_000;

let signet: Signet;
let hook: ReturnType<typeof hooksOf>;
afterEach(() => signet.close());

async function begin(yaml = ''): Promise<void> {
  signet = await startSignet({ yaml });
  hook = hooksOf(signet.daemonUrl);
}

async function remember(content: string, importance: number, ageDays: number, agentId?: string): Promise<void> {
  const createdAt = new Date(Date.now() - ageDays * DAY_MS).toISOString();
  const owner = agentId === undefined ? {} : { agentId, scope: 'private' };
  const answer = await call('POST', `${signet.daemonUrl}/api/memory/remember`, { content, importance, createdAt, ...owner });
  expect(answer.status).toBe(200);
}

const startMemories = async (agentId?: string): Promise<string[]> =>
  (await hook('session-start', { agentId })).memories.map((memory: { content: string }) => memory.content);

verifies('hooks.config.session-start.recall-limit', async () => {
  await begin();
  for (let index = 0; index < 12; index += 1) await remember(`Note number ${index}`, 0.5, 0);
  expect(await startMemories()).toHaveLength(10);
  await signet.close();

  await begin('hooks: { sessionStart: { recallLimit: 2 } }\n');
  for (let index = 0; index < 4; index += 1) await remember(`Note number ${index}`, 0.5, 0);
  expect(await startMemories()).toHaveLength(2);
});

verifies(['hooks.config.session-start.include-identity', 'hooks.config.session-start.include-recent-context'], async () => {
  const identity = 'agent: { name: Merle }\n';
  await begin(identity);
  writeFileSync(join(signet.folder, 'MEMORY.md'), 'The tide table is on the fridge.');
  expect((await hook('session-start', {})).inject).toMatch(/^You are Merle\.[\s\S]*The tide table is on the fridge\./);
  await signet.close();

  await begin(`${identity}hooks: { sessionStart: { includeIdentity: false, includeRecentContext: false } }\n`);
  writeFileSync(join(signet.folder, 'MEMORY.md'), 'The tide table is on the fridge.');
  writeFileSync(join(signet.folder, 'SOUL.md'), 'Speak in short sentences.');
  const { inject } = await hook('session-start', {});
  expect(inject).toContain('## Memory Check Loop');
  expect(inject).not.toMatch(/Merle|tide table|short sentences/);
});

/** Old and important against new and unimportant: which comes first depends on the bias alone. */
async function order(yaml: string): Promise<string[]> {
  await begin(yaml);
  await remember('old but important', 1, 3);
  await remember('new but trivial', 0.3, 0);
  return startMemories();
}

verifies('hooks.config.session-start.recency-bias', async () => {
  expect(await order('')).toEqual(['new but trivial', 'old but important']);
  await signet.close();
  expect(await order('hooks: { sessionStart: { recencyBias: 0 } }\n')).toEqual(['old but important', 'new but trivial']);
  await signet.close();
  expect(await order('hooks: { sessionStart: { recencyBias: 1 } }\n')).toEqual(['new but trivial', 'old but important']);
});

verifies(
  ['hooks.session-start.score', 'hooks.session-start.recency'],
  'the age at which recency outweighs importance is the one of the formula',
  async () => {
    // Half and half: the older one is ahead as long as its lead in importance is larger than what it lost in recency, 1 - 1 / (1 + days).
    await begin('hooks: { sessionStart: { recencyBias: 0.5 } }\n');
    const cases = [
      { agentId: 'a', days: 1, lead: 0.45, expected: ['new', 'old'] },
      { agentId: 'b', days: 1, lead: 0.55, expected: ['old', 'new'] },
      { agentId: 'c', days: 3, lead: 0.7, expected: ['new', 'old'] },
      { agentId: 'd', days: 3, lead: 0.8, expected: ['old', 'new'] },
    ];
    for (const { agentId, days, lead, expected } of cases) {
      await remember('old', 1, days, agentId);
      await remember('new', 1 - lead, 0, agentId);
      expect([agentId, await startMemories(agentId)]).toEqual([agentId, expected]);
    }
    await signet.close();
    // A bias of 0.8 weighs the same lead four times less: 0.2 × 0.8 < 0.8 × 0.5.
    await begin('hooks: { sessionStart: { recencyBias: 0.8 } }\n');
    await remember('old', 1, 1);
    await remember('new', 0.2, 0);
    expect(await startMemories()).toEqual(['new', 'old']);
  },
);

verifies(['hooks.config.pre-compaction.include-recent', 'hooks.config.pre-compaction.memory-limit'], async () => {
  const shown = async (yaml: string) => {
    await begin(yaml);
    for (let index = 1; index <= 7; index += 1) await remember(`Note number ${index}`, 0.5, 0);
    const { summaryPrompt } = await hook('pre-compaction', {});
    return summaryPrompt.match(/Note number/g)?.length ?? 0;
  };
  expect(await shown('')).toBe(5);
  await signet.close();
  expect(await shown('hooks: { preCompaction: { memoryLimit: 3 } }\n')).toBe(3);
  await signet.close();
  expect(await shown('hooks: { preCompaction: { includeRecentMemories: false } }\n')).toBe(0);
});

verifies('hooks.config.pre-compaction.guidelines', async () => {
  await begin('hooks:\n  preCompaction:\n    summaryGuidelines: |\n      Focus on the colours.\n');
  const { guidelines, summaryPrompt } = await hook('pre-compaction', {});
  expect(guidelines).toBe('Focus on the colours.\n');
  expect(summaryPrompt).toContain('Focus on the colours.');
  expect(summaryPrompt).not.toContain('Key decisions made');
});
