import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { writeLongSession } from '../../bench/rig/long-log.ts';
import { runCli } from '../../src/cli/program.ts';
import { isAppError } from '../../src/core/errors.ts';
import { formatSignalTree } from '../../src/core/trace-tree.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { payloads, readLog, startRig } from '../e2e/rig.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { startSignet } from '../helpers/signet.ts';

const LONG_SIGNALS = process.env.SOAK ? 50_000 : 8_000;
const CANARY = 'canary-7f3a91';

test(`T8: a session of ${LONG_SIGNALS} signals has its whole trace, its tree and any of its past states`, {
  timeout: 300_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-long-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const log = await openSignalLog({ path: join(folder, 'data', 'signals.db') });
  const head = await writeLongSession(log, 'ses_long', LONG_SIGNALS);
  await log.close();
  const signet = await startSignet({ folder });
  onTestFinished(() => signet.close());
  const trace = await readLog(signet.client, 'ses_long');
  expect(trace.length).toBe(head);
  expect(trace.map(({ seq }) => seq)).toEqual(trace.map((_, index) => index + 1));
  const lines = formatSignalTree(trace).trimEnd().split('\n');
  expect(lines.length).toBe(head);
  const cli = captureCli(signet);
  expect(await runCli(cli.context, ['trace', 'ses_long'])).toBe(0);
  expect(cli.out().trimEnd().split('\n').length).toBeGreaterThanOrEqual(head);
  for (const at of [1, 777, head >> 1, head - 1, head]) {
    const past = await signet.client.session.stateAt('ses_long', at);
    const next = trace.find(
      ({ seq, name, source }) => seq > at && /input|system/.test(source.kind) && !name.startsWith('supervisor:child:'),
    );
    expect({ at, seq: past.seq }).toEqual({ at, seq: next ? next.seq - 1 : head });
    expect(past.session.turns).toBe(payloads(trace.slice(0, past.seq), 'turn:start').length);
  }
});

test('T12: what is secret stands in no signal and nowhere else in the workspace, not even when a provider repeats it', async () => {
  const yaml = `runtime:
  limits: { attemptsMax: 1 }
  default: secretive
  providers:
    secretive:
      kind: anthropic
      baseUrl: $MODEL
      apiKey: ${CANARY}-key
      headers: { x-secret: ${CANARY}-header }
      model: scripted
`;
  const folder = mkdtempSync(join(tmpdir(), 'signet-canary-'));
  const rig = await startRig({ folder, yaml, env: { OPENAI_API_KEY: `${CANARY}-environment` } });
  onTestFinished(async () => {
    await rig.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const echoes = `your key ${CANARY}-key with ${CANARY}-header is not valid`;
  rig.model.script([
    { text: 'Hello.' },
    { fault: { kind: 'status', status: 401, message: echoes } },
    { fault: { kind: 'error-event', after: 1, message: echoes } },
    { fault: { kind: 'status', status: 500, body: echoes } },
  ]);
  const { id } = await rig.client.session.create({});
  await rig.client.session.prompt(id, { content: 'Hello?' });
  for (let turn = 0; turn < 3; turn += 1) {
    const refusal = await rig.client.session.prompt(id, { content: 'Again?' }).catch((error: unknown) => error);
    expect(isAppError(refusal)).toBe(true);
    expect(String((refusal as Error).message)).not.toContain(CANARY);
  }
  await rig.client.session.end(id);
  const log = await readLog(rig.client, id);
  expect(payloads(log, 'harness:error').length).toBe(3);
  expect(JSON.stringify(log)).not.toContain(CANARY);
  expect(rig.model.requests.every(({ headers }) => JSON.stringify(headers).includes(`${CANARY}-key`))).toBe(true);
  const holding = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== 'agent.yaml')
    .filter((entry) => readFileSync(join(entry.parentPath, entry.name)).includes(CANARY))
    .map(({ name }) => name);
  expect(holding).toEqual([]);
});

test('T13: a fork at every signal of a session with tools, an approval, a failure and a compaction settles and verifies', {
  timeout: 120_000,
}, async () => {
  const rig = await startRig({ yaml: 'runtime: { limits: { attemptsMax: 1, approvalTimeoutMs: 100 } }\n' });
  onTestFinished(() => rig.close());
  await rig.tool('look', ({ n }) => `found ${n}`);
  await rig.tool('ask', () => 'allowed', { needsApproval: true, class: 'unsafe' });
  rig.model.script([
    {
      text: 'Let me look.',
      toolCalls: [1, 2].map((n) => ({ id: `c${n}`, name: 'look', input: { n } })),
    },
    { toolCalls: [{ id: 'c3', name: 'ask', input: {} }] },
    { text: 'It is found.' },
    { fault: { kind: 'status', status: 400, message: 'odd' } },
  ]);
  const { id } = await rig.client.session.create({});
  const asking = rig.client.session.prompt(id, { content: 'Look.' });
  await expect.poll(async () => (await rig.client.approvals.list()).items.length, { timeout: 15_000 }).toBe(1);
  await rig.client.approvals.decide(id, 'c3', 'once');
  await asking;
  await rig.client.session.prompt(id, { content: 'And again?' }).catch(() => undefined);
  await rig.client.session.compact(id);
  await rig.client.session.end(id);
  const trunk = await rig.client.session.verify(id);
  expect(trunk.verified).toBe(true);
  for (let at = 1; at <= trunk.signals; at += 1) {
    const fork = await rig.client.session.fork(id, { at });
    await rig.client.session.wait(fork.id, { timeoutMs: 20_000 });
    const { verified, divergence } = await rig.client.session.verify(fork.id);
    expect({ at, verified, divergence }).toEqual({ at, verified: true, divergence: null });
    await rig.client.session.end(fork.id);
  }
  expect(await rig.client.session.verify(id)).toEqual(trunk);
});
