import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import type { Signal } from '../../src/contract/signal.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { openSse } from '../helpers/sse-client.ts';

const TURNS = 6;

let signet: Signet;
beforeAll(async () => {
  signet = await startSignet();
});
afterAll(() => signet.close());

async function talk(on: Signet = signet): Promise<string> {
  const { id } = await on.client.session.create({ title: 'Long talk' });
  for (let turn = 1; turn <= TURNS; turn += 1) {
    await on.client.session.prompt(id, { content: turn % 2 ? `remember I like tea ${turn}` : 'recall tea', promptId: `prompt-${turn}` });
  }
  return id;
}

const streamOf = (id: string) => `(SELECT id FROM streams WHERE name = 'session:${id}')`;

const events = async (id: string) => (await signet.client.session.events(id, { limit: 1_000 })).items as Signal[];

test('a trimmed log folds to the same state, verifies from its checkpoint, and the session goes on', async () => {
  const id = await talk();
  const before = await signet.client.session.stateAt(id);
  const messages = await signet.client.session.messages(id);
  const signals = await events(id);

  const trimmed = await signet.client.session.trim(id, { keepTurns: 2 });

  const kept = await events(id);
  expect(kept.map(({ seq }) => seq)[0]).toBe(trimmed.firstSeq);
  expect(kept.slice(0, -1)).toEqual(signals.filter(({ seq }) => seq >= trimmed.firstSeq));
  expect(kept.at(-1)).toMatchObject({
    name: 'log:pruned',
    payload: { fromSeq: 1, toSeq: trimmed.firstSeq - 1, names: expect.arrayContaining(['session:created', 'prompt:received']) },
  });
  expect(kept.filter(({ name }) => name === 'turn:start').map(({ payload }) => payload.turn)).toEqual([TURNS - 1, TURNS]);
  const after = await signet.client.session.stateAt(id);
  expect(after.context).toEqual(before.context);
  const { seq: _number, updatedAt: _time, ...session } = before.session;
  expect(after.session).toMatchObject(session);
  expect(await signet.client.session.messages(id)).toEqual(messages);
  expect(await signet.client.session.verify(id)).toMatchObject({ verified: true, trimmedTo: trimmed.firstSeq - 1, signals: kept.length });

  await signet.client.session.prompt(id, { content: 'recall tea' });
  expect((await signet.client.session.get(id)).turns).toBe(TURNS + 1);
  expect(await signet.client.session.verify(id)).toMatchObject({ verified: true, divergence: null });
});

test('a log can be trimmed at every signal and again and again; an ended session too', async () => {
  const id = await talk();
  const messages = await signet.client.session.messages(id);
  await signet.client.session.end(id);
  const { context } = await signet.client.session.stateAt(id);
  const { seq: head } = await signet.client.session.get(id);
  let first = 1;
  for (let before = 2; before <= head; before += 1) {
    const trimmed = await signet.client.session.trim(id, { before });
    expect(trimmed.dropped).toBe(trimmed.firstSeq - first);
    expect(trimmed.firstSeq).toBeLessThanOrEqual(before);
    if (trimmed.dropped > 0) {
      const { verified, divergence } = await signet.client.session.verify(id);
      expect({ before, verified, divergence }).toEqual({ before, verified: true, divergence: null });
      expect((await signet.client.session.stateAt(id)).context).toEqual(context);
    }
    first = trimmed.firstSeq;
  }
  expect(first).toBeGreaterThan(head / 2);
  expect(await signet.client.session.messages(id)).toEqual(messages);
  expect((await signet.client.session.get(id)).state).toBe('ended');
});

test('a state, a fork, an answer, an export and a diff that need what was trimmed are refused, and say so', async () => {
  const id = await talk();
  const other = await talk();
  const { firstSeq } = await signet.client.session.trim(id, { keepTurns: 1 });
  const refused = { code: 'log_trimmed', status: 410, detail: expect.stringContaining(`signals 1 to ${firstSeq - 1}`) };

  await expect(signet.client.session.stateAt(id, firstSeq - 2)).rejects.toMatchObject(refused);
  await expect(signet.client.session.fork(id, { at: firstSeq - 2 })).rejects.toMatchObject(refused);
  await expect(signet.client.session.fork(id, { at: 3, replaceInput: { content: 'x' } })).rejects.toMatchObject(refused);
  await expect(signet.client.session.prompt(id, { content: 'remember I like tea 1', promptId: 'prompt-1' })).rejects.toMatchObject(refused);
  await expect(signet.client.session.exportLog(id)).rejects.toMatchObject(refused);
  await expect(signet.client.session.diff(id, other)).rejects.toMatchObject(refused);

  expect((await signet.client.session.stateAt(id, firstSeq - 1)).seq).toBe(firstSeq - 1);
  const fork = await signet.client.session.fork(id, { at: firstSeq });
  await signet.client.session.wait(fork.id);
  expect((await signet.client.session.verify(fork.id)).verified).toBe(true);
  expect(await signet.client.session.exportLog(fork.id)).toContain('signet-log');
});

test('trimming or purging a parent leaves its forks whole', async () => {
  const id = await talk();
  const fork = await signet.client.session.fork(id);
  const messages = await signet.client.session.messages(fork.id);
  await signet.client.session.trim(id, { keepTurns: 1 });
  expect((await signet.client.session.verify(fork.id)).verified).toBe(true);
  await signet.client.session.end(id, { purge: true });
  expect((await signet.client.session.verify(fork.id)).verified).toBe(true);
  expect(await signet.client.session.messages(fork.id)).toEqual(messages);
});

test('a reader with an older cursor is told of the gap and gets everything behind it', async () => {
  const id = await talk();
  const before = await events(id);
  const { firstSeq, head } = await signet.client.session.trim(id, { keepTurns: 2 });

  expect(await signet.client.session.events(id, { after: 3, limit: 1 })).toMatchObject({ gap: { from: 4, to: firstSeq - 1 }, head });
  expect((await signet.client.session.events(id, { after: firstSeq })).gap).toBeUndefined();

  const one = await openSse(`${signet.runtimeUrl}/session/${id}/stream?after=3`);
  onTestFinished(() => one.close());
  await one.until((frame) => frame.event === 'log:pruned');
  expect(one.frames[1]).toMatchObject({ event: 'gap', data: { from: 4, to: firstSeq - 1 } });
  expect(one.frames.flatMap(({ data }) => (typeof data.seq === 'number' ? [data.seq] : []))).toEqual(
    Array.from({ length: head - firstSeq + 1 }, (_, index) => firstSeq + index),
  );

  const all = await openSse(`${signet.runtimeUrl}/events?after=${before[2]!.gseq}`);
  onTestFinished(() => all.close());
  await all.until((frame) => frame.event === 'gap');
  expect(all.frames.find(({ event }) => event === 'gap')?.data).toEqual({
    from: before[3]!.gseq,
    to: before.find(({ seq }) => seq === firstSeq)!.gseq - 1,
  });
});

test('a session that is busy, unknown, or asked for too little or too much is not trimmed', async () => {
  await expect(signet.client.session.trim('ses_nobody', { keepTurns: 1 })).rejects.toMatchObject({ code: 'session_not_found' });
  const id = await talk();
  await expect(signet.client.session.trim(id, {})).rejects.toMatchObject({ code: 'invalid_request' });
  await expect(signet.client.session.trim(id, { before: 9, keepTurns: 1 })).rejects.toMatchObject({ code: 'invalid_request' });
  expect(await signet.client.session.trim(id, { keepTurns: TURNS + 1 })).toMatchObject({ dropped: 0, firstSeq: 1, stateDigest: null });
  const running = signet.client.session.prompt(id, { content: 'hello' });
  const trimming = signet.client.session.trim(id, { keepTurns: 1 }).catch((error: unknown) => error);
  await running;
  // Whoever was first: the turn is whole, and the log verifies.
  expect(await trimming).toSatisfy((outcome: { code?: string; dropped?: number }) => outcome.code === 'turn_open' || outcome.dropped! > 0);
  expect(await signet.client.session.verify(id)).toMatchObject({ verified: true });
});

test('signet log trim says what went', async () => {
  const id = await talk();
  const cli = captureCli(signet);
  expect(await runCli(cli.context, ['log', 'trim', id, '--keep-turns', '2'])).toBe(0);
  expect(cli.out()).toMatch(
    new RegExp(`^${id}: \\d+ signals dropped, the log begins at \\d+; the state is unchanged \\([\\w-]{43}\\)\\n$`),
  );
  expect(await runCli(cli.context, ['log', 'trim', id, '--keep-turns', '2'])).toBe(0);
  expect(cli.out()).toContain(`${id}: nothing to drop`);
  expect(await runCli(cli.context, ['log', 'trim', id])).toBe(2);
  expect(await runCli(cli.context, ['export', id])).toBe(1);
  expect(cli.err()).toContain('trimmed');
  expect(await runCli(cli.context, ['replay', id, '--verify'])).toBe(0);
  expect(cli.out()).toContain('signals replayed, all equal');
});

test('a changed checkpoint or signal is found, and a damaged log is not trimmed; a trim that a kill cut short is finished', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-trim-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const first = await startSignet({ folder });
  const [id, damaged, cut] = [await talk(first), await talk(first), await talk(first)];
  const { firstSeq } = await first.client.session.trim(id, { keepTurns: 2 });
  const { firstSeq: firstKept } = await first.client.session.trim(cut, { keepTurns: 2 });
  await first.close();

  const db = new DatabaseSync(join(folder, 'data', 'signals.db'));
  db.exec(`UPDATE checkpoints SET body = replace(body, 'remember I like tea 1', 'remember I like ale 1') WHERE stream = ${streamOf(id)}`);
  db.exec(
    `UPDATE signals SET body = replace(body, 'recall tea', 'recall ale') WHERE name = 'prompt:received' AND stream = ${streamOf(damaged)}`,
  );
  // As a process leaves it that dies between the commit of a trim and the last step of deleting.
  db.exec(`INSERT INTO deletions SELECT stream, seq FROM checkpoints WHERE stream = ${streamOf(cut)}`);
  db.exec(
    `INSERT INTO signals SELECT min(gseq) - 1, stream, min(seq) - 1, name, kind, agent, body FROM signals WHERE stream = ${streamOf(cut)}`,
  );
  db.close();

  const second = await startSignet({ folder });
  onTestFinished(() => second.close());
  const { verified, divergence } = await second.client.session.verify(id);
  expect({ verified, seq: divergence?.seq, what: divergence?.what }).toMatchObject({ verified: false });
  expect(divergence!.seq).toBeGreaterThanOrEqual(firstSeq - 1);
  await expect(second.client.session.trim(id, { keepTurns: 1 })).rejects.toMatchObject({ code: 'log_divergence' });
  await expect(second.client.session.trim(damaged, { keepTurns: 1 })).rejects.toMatchObject({ code: 'log_divergence' });
  await expect.poll(async () => (await second.client.session.events(cut, { limit: 1 })).items[0]?.seq, { timeout: 10_000 }).toBe(firstKept);
  expect(await second.client.session.verify(cut)).toMatchObject({ verified: true });
});
