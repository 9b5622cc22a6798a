import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { UsageCounts, UsageRow } from '../../src/contract/usage.ts';
import { call } from '../conformance/calls.ts';
import { EMBEDDING_TOKENS, startEmbedder, type TestEmbedder } from '../helpers/embedder.ts';
import { answerJobs, jobKindOf } from '../helpers/job-model.ts';
import type { Reply } from '../helpers/model-server/reply.ts';
import type { ModelRequest } from '../helpers/model-server/request.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';
import { startWorkflow, untilEnd } from '../helpers/workflow.ts';
import { wireEnvironment } from './rig.ts';

const TEST_TIMEOUT_MS = 120_000;
const IDLE_TIMEOUT_MS = 40_000;
/** US dollars per million tokens. */
const PRICES: Record<string, { input: number; output: number }> = {
  chatty: { input: 3, output: 15 },
  thrifty: { input: 0.1, output: 0.4 },
};
const EMBEDDING_PRICE = 0.02;
const AGENT = { name: 'writer', activateOn: ['workflow:start'], prompt: 'Write.', emits: ['text:written'], updates: 'text' };
const CHECKER = { name: 'checker', activateOn: ['text:written'], prompt: 'Check.', emits: ['text:checked'], updates: 'checked' };

/** What the model server itself has counted, as a provider's bill would say. */
interface Bill {
  requests: number;
  inputTokens: number;
  outputTokens: number;
  costUsd: number;
}

let folder: string;
let model: ModelServer;
let embedder: TestEmbedder;
let bill: Map<string, Bill>;
let faults: Reply[];
let signet: SignetProcess;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signet-usage-'));
  model = await startModelServer();
  embedder = await startEmbedder();
  bill = new Map();
  faults = [];
  const answers = answersOf();
  model.respond((request) => charge(request, faults.shift() ?? answers(request)));
});
afterEach(async () => {
  await signet.close();
  await model.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Jobs get what they ask for, anything else a few words. */
function answersOf(): (request: ModelRequest) => Reply {
  let decide: (request: ModelRequest) => Reply | undefined = () => undefined;
  const set = (given: typeof decide) => {
    decide = given;
  };
  answerJobs(
    { ...model, respond: (given) => set(given) },
    {
      extraction: () => ({ summary: 'They spoke of tea.', facts: [] }),
    },
  );
  return (request) => decide(request) ?? { text: 'An answer.' };
}

/** The usage of a request is another one each time, so that no two mistakes cancel out. */
function charge(request: ModelRequest, reply: Reply): Reply {
  const usage = { inputTokens: 1_000 + 37 * request.number, outputTokens: 100 + 11 * request.number };
  const { input, output } = PRICES[request.model]!;
  const told = reply.fault ? { inputTokens: 0, outputTokens: 0 } : usage;
  const entry = bill.get(request.model) ?? { requests: 0, inputTokens: 0, outputTokens: 0, costUsd: 0 };
  entry.requests += 1;
  entry.inputTokens += told.inputTokens;
  entry.outputTokens += told.outputTokens;
  entry.costUsd += (told.inputTokens * input + told.outputTokens * output) / 1_000_000;
  bill.set(request.model, entry);
  return { ...reply, usage };
}

async function boot(background = ''): Promise<void> {
  const models = Object.entries(PRICES).map(
    ([name, price]) => `        ${name}: { price: { input: ${price.input}, output: ${price.output} } }`,
  );
  const yaml = [
    'runtime:',
    '  default: anthropic',
    '  limits: { backoffMs: 1, drainTimeoutMs: 200 }',
    `  background: { model: thrifty${background} }`,
    '  providers:',
    '    anthropic:',
    '      kind: anthropic',
    `      baseUrl: ${model.url}`,
    '      apiKey: test',
    '      model: chatty',
    '      models:',
    ...models,
    'memory: { extraction: { delayMs: 0 }, synthesis: { enabled: false } }',
    `embedding: { provider: openai-compatible, baseUrl: '${embedder.url}', price: ${EMBEDDING_PRICE}, timeoutMs: 10000 }`,
  ].join('\n');
  signet = await startSignetProcess({ folder, yaml, env: wireEnvironment('anthropic', model.url) });
}

async function usage(query: string): Promise<{ rows: UsageRow[]; total: UsageCounts; budget: { met: boolean; resumesAt: string | null } }> {
  const answer = await call('GET', `${signet.daemonUrl}/api/usage?from=2020-01-01&${query}`);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return answer.body;
}

/** Nothing runs and nothing is due: what was asked for has been answered. */
async function untilIdle(): Promise<void> {
  const counts = async () => (await call('GET', `${signet.daemonUrl}/api/jobs`)).body.counts;
  await expect.poll(counts, { timeout: IDLE_TIMEOUT_MS }).toMatchObject({ queued: 0, running: 0 });
  await expect.poll(async () => (await usage('by=day')).total.open, { timeout: IDLE_TIMEOUT_MS }).toBe(0);
}

/** Vectors are made in the background at any time, so both counts are looked at again when one was under way. */
function expectBill(): Promise<void> {
  return vi.waitFor(compareBill, { timeout: IDLE_TIMEOUT_MS, interval: 200 });
}

async function compareBill(): Promise<void> {
  const { rows } = await usage('by=model');
  for (const [name, { requests, ...sums }] of bill) {
    const row = rows.find((candidate) => candidate.model === name);
    expect(row, name).toMatchObject({ calls: requests, inputTokens: sums.inputTokens, outputTokens: sums.outputTokens });
    expect(row!.costUsd).toBeCloseTo(sums.costUsd, 11);
  }
  const models = rows.filter(({ model: name }) => name !== 'nomic-embed-text').map(({ model: name }) => name);
  expect(models.sort()).toEqual([...bill.keys()].sort());
  const vectors = rows.find(({ model: name }) => name === 'nomic-embed-text');
  expect(vectors?.calls ?? 0).toBe(embedder.keys.length);
  expect(vectors?.inputTokens ?? 0).toBe(EMBEDDING_TOKENS * embedder.texts.length);
  expect(vectors?.costUsd ?? 0).toBeCloseTo((EMBEDDING_TOKENS * embedder.texts.length * EMBEDDING_PRICE) / 1_000_000, 11);
}

async function talk(id: string, prompts: number): Promise<void> {
  const { client } = signet;
  await client.session.create({ id });
  for (let turn = 1; turn <= prompts; turn += 1)
    await client.session.prompt(id, { promptId: `p${turn}`, content: `Tea, please (${turn}).` });
}

describe('a day of use', () => {
  test(
    'costs what the provider counts, to the last token, across kills, with the purpose of each call',
    async () => {
      await boot();
      await talk('tea_talk', 3);
      await signet.client.session.compact('tea_talk');
      faults = [{ fault: { kind: 'status', status: 529 } }, { fault: { kind: 'cut-before-headers' } }];
      await signet.client.session.prompt('tea_talk', { promptId: 'p9', content: 'Once more.' });
      await signet.client.session.end('tea_talk');
      const { id } = await startWorkflow(signet.runtimeUrl, { agents: [AGENT, CHECKER] });
      await untilEnd(signet.runtimeUrl, id);
      await untilIdle();
      await expectBill();

      // Killed while the model is asked: the request was made, and is made once more.
      model.gate();
      await signet.client.session.create({ id: 'cut_talk' });
      await signet.client.session.promptAsync('cut_talk', { promptId: 'p1', content: 'Hello?' });
      const held = await model.next();
      charge(held.request, { fault: { kind: 'cut-before-headers' } });
      await signet.kill();
      held.reply({ fault: { kind: 'cut-before-headers' } });
      model.open();
      await boot();
      await expect
        .poll(async () => (await call('GET', `${signet.runtimeUrl}/session/cut_talk/prompt/p1`)).body.status, { timeout: 20_000 })
        .toBe('completed');
      await signet.client.session.end('cut_talk');
      await untilIdle();
      await signet.kill();
      await boot();
      await untilIdle();
      await expectBill();

      const rows = Object.fromEntries((await usage('by=purpose')).rows.map((row) => [row.purpose!, row]));
      expect(rows.chat).toMatchObject({ calls: 8, retries: 2, failed: 2, interrupted: 1 });
      expect(rows.compaction).toMatchObject({ calls: 1 });
      expect(rows.workflow).toMatchObject({ calls: 2, failed: 0 });
      expect(rows.extraction!.calls).toBe(model.requests.filter((request) => jobKindOf(request) === 'extraction').length);
      expect(rows.continuity!.calls).toBe(2);
      // Two sessions ended; those of the workflow are read by no model.
      expect(rows.extraction!.calls).toBe(2);
      expect(model.requests.filter((request) => jobKindOf(request) !== undefined).every((request) => request.model === 'thrifty')).toBe(
        true,
      );

      const session = await usage('by=session,purpose&sessionKey=tea_talk');
      expect(session.rows.map(({ purpose }) => purpose).sort()).toEqual(['chat', 'compaction', 'continuity', 'extraction']);
      expect((await usage('by=agent&agentId=default')).total.calls).toBe(model.requests.length);
      const [day] = (await usage('by=day')).rows;
      expect(day!.day).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    },
    TEST_TIMEOUT_MS,
  );

  test(
    'ends background jobs when their budget is met, says so, and goes on with a larger one',
    async () => {
      await boot(', dailyTokens: 1000');
      await talk('long_talk', 1);
      await signet.client.session.end('long_talk');
      const health = async () => (await call('GET', `${signet.daemonUrl}/health`)).body;
      await expect.poll(health, { timeout: IDLE_TIMEOUT_MS }).toMatchObject({ background: { state: 'budget-spent' } });
      await expect
        .poll(async () => (await call('GET', `${signet.daemonUrl}/api/jobs?state=waiting`)).body.jobs, { timeout: IDLE_TIMEOUT_MS })
        .toMatchObject([{ reason: 'daily budget' }]);
      // The first call was made, as nothing was spent before it.
      expect(bill.get('thrifty')).toMatchObject({ requests: 1 });
      expect((await usage('by=day')).budget).toMatchObject({
        met: true,
        dailyTokens: 1_000,
        resumesAt: expect.stringMatching(/T00:00:00/),
      });
      expect(signet.output()).toContain('the daily budget of background work is spent');
      const chatted = bill.get('chatty')!.requests;
      await talk('next_talk', 1);
      expect(bill.get('chatty')!.requests).toBe(chatted + 1);

      await signet.close();
      await boot(', dailyTokens: 1000000');
      await expect.poll(() => bill.get('thrifty')!.requests, { timeout: IDLE_TIMEOUT_MS }).toBe(2);
      await untilIdle();
      await expectBill();
    },
    TEST_TIMEOUT_MS,
  );
});
