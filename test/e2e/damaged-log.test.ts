import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import { foldSession } from '../../src/runtime/session-fold.ts';
import { takeSnapshot } from '../../src/runtime/session-snapshot.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { call } from '../conformance/calls.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

let folder: string;
let signet: Signet;
let id: string;
let neighbour: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signet-damaged-'));
  signet = await startSignet({ folder });
  id = (await signet.client.session.create({})).id;
  neighbour = (await signet.client.session.create({})).id;
  for (const session of [id, neighbour]) await signet.client.session.prompt(session, { content: 'hello' });
});

afterEach(async () => {
  await signet.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Stops the program, does this to its database, and starts it again. */
async function betweenRuns(damage: (db: DatabaseSync) => void): Promise<void> {
  await signet.close();
  const db = new DatabaseSync(join(folder, 'data', 'signals.db'));
  damage(db);
  db.close();
  signet = await startSignet({ folder });
}

const OF_STREAM = 'stream = (SELECT id FROM streams WHERE name = ?)';

function rewrite(db: DatabaseSync, seq: number, change: (body: string) => string): void {
  const row = db.prepare(`SELECT body FROM signals WHERE ${OF_STREAM} AND seq = ?`).get(`session:${id}`, seq)!;
  db.prepare(`UPDATE signals SET body = ? WHERE ${OF_STREAM} AND seq = ?`).run(change(String(row.body)), `session:${id}`, seq);
}

/** The replay names the same signal, in a sentence. */
async function expectDiverged(seq: number, message: string): Promise<void> {
  expect(await signet.client.session.verify(id)).toMatchObject({
    verified: false,
    signals: seq - 1,
    divergence: { seq, message: expect.stringContaining(message) },
  });
  const cli = captureCli(signet);
  expect(await runCli(cli.context, ['replay', id])).toBe(1);
  expect(cli.err()).toContain(`signal ${seq} `);
  expect(cli.err()).toContain(message);
}

async function expectPutAside(seq: number): Promise<void> {
  const refusal = {
    code: 'log_divergence',
    status: 409,
    detail: expect.stringContaining(`signal ${seq} of session ${id}`),
    extra: { seq },
  };
  await expect(signet.client.session.prompt(id, { content: 'more' })).rejects.toMatchObject(refusal);
  await expect(signet.client.session.resume(id)).rejects.toMatchObject(refusal);
  // What stands before the damage is shown; others go on.
  const told = { code: 'log_divergence', reason: expect.stringContaining(`signal ${seq} of session ${id}`) };
  expect(await signet.client.session.get(id)).toMatchObject({ seq: seq - 1, quarantined: told });
  const { items } = await signet.client.session.list({});
  expect(new Map(items.map((item) => [item.id, item.quarantined]))).toEqual(
    new Map([
      [neighbour, undefined],
      [id, told],
    ]),
  );
  expect((await signet.client.session.events(id, { limit: seq - 1 })).items.map((signal) => signal.seq)).toEqual(
    Array.from({ length: seq - 1 }, (_, index) => index + 1),
  );
  expect((await signet.client.session.prompt(neighbour, { content: 'and you?' })).status).toBe('completed');
  const health = (await (await fetch(`${signet.runtimeUrl}/health`)).json()) as { sessions: { quarantined: number } };
  expect(health.sessions.quarantined).toBe(1);
}

test('a flipped byte in a stored signal puts that session aside, names the signal, and a repaired log goes on', async () => {
  let whole = '';
  await betweenRuns((db) =>
    rewrite(db, 9, (body) => {
      whole = body;
      return body.replace(/"(\w)(\w*)":/, (_text, first: string, rest: string) => `"${first === 'q' ? 'r' : 'q'}${rest}":`);
    }),
  );
  await expectPutAside(9);
  await expectDiverged(9, 'than the machine gives it');
  await betweenRuns((db) => rewrite(db, 9, () => whole));
  expect((await signet.client.session.prompt(id, { content: 'again' })).status).toBe('completed');
});

test('a stored signal that is not JSON any more puts that session aside', async () => {
  await betweenRuns((db) => rewrite(db, 7, (body) => body.slice(1)));
  await expectPutAside(7);
  await expectDiverged(7, 'signal 7 cannot be read: what is stored is not JSON');
});

test.each([
  ['its own number, to a lower one', (body: string) => body.replace('"seq":9,', '"seq":4,'), 'its column seq has 9, its text 4'],
  ['its own number, to a higher one', (body: string) => body.replace('"seq":9,', '"seq":40,'), 'its column seq has 9, its text 40'],
  ['all of it', () => 'null', 'what is stored is not a signal'],
])('a stored signal of which %s was changed is named by its place', async (_what, change, message) => {
  await betweenRuns((db) => rewrite(db, 9, change));
  await expectPutAside(9);
  await expectDiverged(9, `signal 9 cannot be read: ${message}`);
});

test.each(['name', 'kind', 'agent'])('a row whose column %s is not that of its signal is reported at its number', async (column) => {
  await betweenRuns((db) => db.prepare(`UPDATE signals SET ${column} = 'other' WHERE ${OF_STREAM} AND seq = 9`).run(`session:${id}`));
  await expectPutAside(9);
  await expectDiverged(9, `its column ${column} has "other", its text "`);
  expect((await signet.client.session.verify(neighbour)).verified).toBe(true);
});

test('a session that is put aside says so and shows its conversation as far as it stands', async () => {
  const messages = await signet.client.session.messages(id);
  const { items } = await signet.client.session.events(id, { limit: 1_000 });
  const end = items.findLast(({ name }) => name === 'turn:end')!.seq;
  await betweenRuns((db) => rewrite(db, end, (body) => body.slice(1)));
  // Whoever looks is told, before anything was tried with it.
  expect((await signet.client.session.get(id)).quarantined).toMatchObject({ code: 'log_divergence' });
  expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant']);
  expect(await signet.client.session.messages(id)).toEqual(messages);
  expect((await signet.client.session.events(id, { limit: 1_000 })).items.at(-1)!.seq).toBe(end - 1);
  const run = async (...words: string[]) => {
    const cli = captureCli(signet);
    expect(await runCli(cli.context, ['session', ...words])).toBe(0);
    return cli.out();
  };
  expect(await run('list')).toMatch(new RegExp(`^${id} +[a-z-]+ \\(put aside\\) `, 'm'));
  expect(await run('show', id)).toMatch(new RegExp(`^aside +log_divergence: signal ${end} of session ${id} is damaged`, 'm'));
});

test('a signal that is missing puts that session aside', async () => {
  await betweenRuns((db) => db.prepare(`DELETE FROM signals WHERE ${OF_STREAM} AND seq = 5`).run(`session:${id}`));
  await expectPutAside(5);
  await expectDiverged(5, 'is missing: the log goes on with signal 6');
});

test('a log without its end is not taken for the whole of it', async () => {
  const end = (await signet.client.session.get(id)).seq;
  await betweenRuns((db) => db.prepare(`DELETE FROM signals WHERE ${OF_STREAM} AND seq >= ?`).run(`session:${id}`, end));
  await expect(signet.client.session.prompt(id, { content: 'more' })).rejects.toMatchObject({
    code: 'log_divergence',
    extra: { seq: end },
  });
  await expectDiverged(end, 'is missing: the log ends before it');
});

test('a log without its last whole step does not verify', async () => {
  const { items } = await signet.client.session.events(id, { limit: 1_000 });
  const asked = items.findLast(({ source }) => source.kind === 'input')!.seq;
  await betweenRuns((db) => db.prepare(`DELETE FROM signals WHERE ${OF_STREAM} AND seq >= ?`).run(`session:${id}`, asked));
  await expectDiverged(asked, `signal ${asked} is missing: the log ends before it`);
});

test.each([
  ['whose text is cut', (body: string) => body.slice(0, -1)],
  [
    'that stands for other signals',
    (body: string) => body.replace(/"digest":"(.)/, (_text, first) => `"digest":"${first === 'A' ? 'B' : 'A'}`),
  ],
])('a snapshot %s is only a lost cache: the log is folded without it', async (_kind, change) => {
  await signet.close();
  const log = await openSignalLog({ path: join(folder, 'data', 'signals.db') });
  const { seq, version, body } = takeSnapshot(await foldSession(log, id, 10));
  await log.close();
  const insert = 'INSERT INTO snapshots (stream, seq, version, body) SELECT id, ?, ?, ? FROM streams WHERE name = ?';
  await betweenRuns((db) => db.prepare(insert).run(seq, version, change(body), `session:${id}`));
  expect((await signet.client.session.prompt(id, { content: 'more' })).status).toBe('completed');
  expect((await signet.client.session.verify(id)).verified).toBe(true);
});

test.each([
  ['cannot be read', (db: DatabaseSync, seq: number) => rewrite(db, seq, (body) => body.slice(1))],
  ['does not fit', (db: DatabaseSync, seq: number) => rewrite(db, seq, (body) => body.replace('"turn":', '"tern":'))],
  [
    'is missing',
    (db: DatabaseSync, seq: number) => db.prepare(`DELETE FROM signals WHERE ${OF_STREAM} AND seq = ?`).run(`session:${id}`, seq),
  ],
  [
    'is the first of a lost end',
    (db: DatabaseSync, seq: number) => db.prepare(`DELETE FROM signals WHERE ${OF_STREAM} AND seq >= ?`).run(`session:${id}`, seq),
  ],
])('what stands before a signal that %s is forked, whole steps of it', async (_what, damage) => {
  const log = (await signet.client.session.events(id, { limit: 1_000 })).items;
  const asked = log.find(({ name }) => name === 'prompt:received')!.seq;
  const damaged = log.find(({ name, seq }) => name === 'turn:start' && seq > asked)!.seq;
  await betweenRuns((db) => damage(db, damaged));
  const fork = await signet.client.session.fork(id, { at: damaged - 1 });
  expect(fork).toMatchObject({ forkedFrom: { session: id, seq: asked - 1 }, state: 'idle', turn: null });
  expect((await signet.client.session.prompt(fork.id, { content: 'more' })).status).toBe('completed');
});

test('a session that is put aside can be forgotten', async () => {
  await betweenRuns((db) => rewrite(db, 7, (body) => body.slice(1)));
  await expect(signet.client.session.prompt(id, { content: 'more' })).rejects.toMatchObject({ code: 'log_divergence' });
  expect(await signet.client.session.end(id, { purge: true })).toMatchObject({ purged: true });
  await expect(signet.client.session.get(id)).rejects.toMatchObject({ code: 'session_not_found' });
});

const FLOW = 'damaged_flow';
/** Waits so long for a second trigger that the restart finds it running. */
const WAITING = { name: 'one', activateOn: ['workflow:start'], prompt: 'Go.', debounceMs: 3_600_000 };

const flowCases: readonly [string, number, (db: DatabaseSync) => void][] = [
  ['an altered value', 1, (db) => alterFlow(db, 1, (body) => body.replace('"tea"', '"tee"'))],
  ['a row that is not JSON', 2, (db) => alterFlow(db, 2, (body) => body.slice(0, -1))],
  ['a missing row', 1, (db) => void db.prepare(`DELETE FROM signals WHERE ${OF_STREAM} AND seq = 1`).run(`workflow:${FLOW}`)],
  ['a missing newest row', 2, (db) => void db.prepare(`DELETE FROM signals WHERE ${OF_STREAM} AND seq >= 2`).run(`workflow:${FLOW}`)],
];

function alterFlow(db: DatabaseSync, seq: number, change: (body: string) => string): void {
  const of = [`workflow:${FLOW}`, seq] as const;
  const before = String(db.prepare(`SELECT body FROM signals WHERE ${OF_STREAM} AND seq = ?`).get(...of)!.body);
  expect(change(before)).not.toBe(before);
  db.prepare(`UPDATE signals SET body = ? WHERE ${OF_STREAM} AND seq = ?`).run(change(before), ...of);
}

test.each(flowCases)(
  'a workflow with %s does not go on, is told as damaged and can be forgotten',
  async (_what, seq, damage) => {
    const url = () => `${signet.runtimeUrl}/workflows`;
    const started = await call('POST', url(), { id: FLOW, agents: [WAITING], input: 'tea' });
    expect(started).toMatchObject({ status: 201, body: { status: 'running' } });
    await betweenRuns(damage);
    const told = { id: FLOW, status: 'damaged', damage: { code: 'log_divergence', seq } };
    expect((await call('GET', url())).body.items).toMatchObject([told]);
    expect((await call('GET', `${url()}/${FLOW}`)).body).toMatchObject({
      ...told,
      seq: seq - 1,
      live: [],
      error: { code: 'log_divergence' },
    });
    expect((await call('GET', `${signet.runtimeUrl}/health`)).body).toMatchObject({
      status: 'degraded',
      reasons: [expect.stringMatching(/^workflows .+ damaged: 1; GET \/workflows/)],
      workflows: { damaged: 1 },
    });
    expect(await call('GET', `${url()}/${FLOW}/events`)).toMatchObject({ status: 409, body: { code: 'log_divergence', seq } });
    expect(await call('DELETE', `${url()}/${FLOW}`)).toMatchObject({ status: 200, body: told });
    expect(await call('DELETE', `${url()}/${FLOW}?purge=true`)).toMatchObject({ status: 200, body: told });
    expect((await call('GET', `${url()}/${FLOW}`)).status).toBe(404);
    expect((await call('GET', url())).body.items).toEqual([]);
    expect((await call('GET', `${signet.runtimeUrl}/health`)).body).toMatchObject({
      status: 'healthy',
      reasons: [],
      workflows: { damaged: 0 },
    });
  },
  60_000,
);

test('a damaged workflow stands in the list of the command line with its signal, and is forgotten by it', async () => {
  await call('POST', `${signet.runtimeUrl}/workflows`, { id: FLOW, agents: [WAITING], input: 'tea' });
  await betweenRuns((db) => alterFlow(db, 2, (body) => body.slice(0, -1)));
  const run = async (...words: string[]) => {
    const cli = captureCli(signet);
    expect(await runCli(cli.context, ['workflow', ...words])).toBe(0);
    return cli;
  };
  const listed = await run('list');
  expect(listed.out()).toMatch(/^damaged_flow +workflow +damaged \(at signal 2\) /m);
  expect(listed.err()).toContain('signet workflow abort <id> --purge');
  expect(JSON.parse((await run('list', '--json')).out()).items).toMatchObject([{ id: FLOW, damage: { seq: 2 } }]);
  expect((await run('show', FLOW)).out()).toMatch(/^error +log_divergence: .*signal 2/m);
  expect((await run('abort', FLOW)).out()).toContain('damaged (at signal 2)');
  expect((await run('abort', FLOW, '--purge')).err()).toBe(`The log of ${FLOW} is forgotten\n`);
  const empty = await run('list');
  expect([empty.out(), empty.err()]).toEqual(['', expect.stringContaining('No workflows')]);
});
