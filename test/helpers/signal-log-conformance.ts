import { describe, expect, onTestFinished, test } from 'vitest';
import type { SealedSignal } from '../../src/contract/signal.ts';
import type { SessionCard, SignalLog } from '../../src/core/signal-log.ts';
import { sealSignal, signalId } from '../../src/core/signal-seal.ts';

/** `count` chained signals of a stream from `fromSeq`; the payload carries the seq as `n`. */
export function chainedSignals(stream: string, fromSeq: number, count: number, prevDigest = '', payload: object = {}): SealedSignal[] {
  const signals: SealedSignal[] = [];
  for (let seq = fromSeq; seq < fromSeq + count; seq += 1) {
    const draft = {
      v: 1 as const,
      id: signalId(stream, seq),
      seq,
      stream,
      name: 'tool:result',
      payload: { n: seq, ...payload },
      timestamp: '2026-01-01T00:00:00.000Z',
      source: { kind: 'input' as const, agent: 'writer', root: signalId(stream, 1), depth: 0 },
    };
    signals.push(sealSignal(draft, signals.at(-1)?.digest ?? prevDigest));
  }
  return signals;
}

export function sessionCard(id: string, over: Partial<SessionCard> = {}): SessionCard {
  return {
    id,
    key: `key-${id}`,
    agent: 'writer',
    state: 'idle',
    open: false,
    title: `Title of ${id}`,
    project: null,
    parent: null,
    harness: 'native',
    provider: null,
    model: null,
    turns: 0,
    inputTokens: 0,
    outputTokens: 0,
    costUsd: null,
    createdAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-01-01T00:00:00.000Z',
    ...over,
  };
}

/** What every adapter of the SignalLog port must do. `openLog` gives an empty log each time; the suite closes it. */
export function signalLogConformance(adapter: string, openLog: () => Promise<SignalLog>): void {
  const open = async (): Promise<SignalLog> => {
    const log = await openLog();
    onTestFinished(() => log.close());
    return log;
  };
  describe(`${adapter} as a signal log: writing`, () => conformWriting(open));
  describe(`${adapter} as a signal log: ownership`, () => conformOwnership(open));
  describe(`${adapter} as a signal log: reading`, () => conformReading(open));
  describe(`${adapter} as a signal log: streams`, () => conformStreams(open));
  describe(`${adapter} as a signal log: projections`, () => conformProjections(open));
  describe(`${adapter} as a signal log: filters`, () => conformCardFilters(open));
  describe(`${adapter} as a signal log: purging`, () => conformPurging(open));
  describe(`${adapter} as a signal log: trimming`, () => conformTrimming(open));
}

type Open = () => Promise<SignalLog>;
const A = 'session:aaaaaa';
const B = 'session:bbbbbb';

function conformWriting(open: Open): void {
  test('an append is read back as it was given, plus its log-wide number', async () => {
    const log = await open();
    const signals = chainedSignals(A, 1, 3, '', { text: 'ünïcode \u2028 "quoted"', nested: { list: [1, null, true] } });

    const appended = await log.append({ stream: A, epoch: 0, expected: 0, signals });

    expect(appended).toEqual({ head: 3, firstGseq: 1 });
    expect(await log.read(A, 0, 10)).toEqual(signals.map((signal, index) => ({ ...signal, gseq: index + 1 })));
    expect(await log.head(A)).toEqual({ head: 3, epoch: 0 });
    expect(await log.headGseq()).toBe(3);
  });

  test('appends made in one tick get consecutive numbers in the order they were made', async () => {
    const log = await open();
    const results = await Promise.all([
      log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 2) }),
      log.append({ stream: B, epoch: 0, expected: 0, signals: chainedSignals(B, 1, 3) }),
      log.append({ stream: A, epoch: 0, expected: 2, signals: chainedSignals(A, 3, 1) }),
    ]);

    expect(results).toEqual([
      { head: 2, firstGseq: 1 },
      { head: 3, firstGseq: 3 },
      { head: 3, firstGseq: 6 },
    ]);
    expect((await log.feed({ after: 0, limit: 10 })).map((signal) => `${signal.stream} ${signal.seq}`)).toEqual([
      'session:aaaaaa 1',
      'session:aaaaaa 2',
      'session:bbbbbb 1',
      'session:bbbbbb 2',
      'session:bbbbbb 3',
      'session:aaaaaa 3',
    ]);
  });

  test('what the caller does to its objects after append does not reach the log', async () => {
    const log = await open();
    const signals = chainedSignals(A, 1, 1, '', { list: ['before'] });
    const done = log.append({ stream: A, epoch: 0, expected: 0, signals });
    (signals[0]!.payload.list as string[]).push('after');
    await done;

    expect((await log.read(A, 0, 1))[0]!.payload).toEqual({ n: 1, list: ['before'] });
  });

  test('signals that are not dense, or of another stream, are refused and leave nothing behind', async () => {
    const log = await open();
    await expect(log.append({ stream: A, epoch: 0, expected: 0, signals: [] })).rejects.toThrow('at least one signal');
    await expect(log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 2, 1) })).rejects.toThrow('does not follow');
    await expect(log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(B, 1, 1) })).rejects.toThrow('does not follow');

    expect(await log.headGseq()).toBe(0);
    expect(await log.head(A)).toEqual({ head: 0, epoch: 0 });
  });
}

function conformOwnership(open: Open): void {
  test('own raises the epoch and fences every older writer, naming head and epoch', async () => {
    const log = await open();
    expect(await log.own(A)).toEqual({ head: 0, epoch: 1 });
    await log.append({ stream: A, epoch: 1, expected: 0, signals: chainedSignals(A, 1, 2) });
    expect(await log.own(A)).toEqual({ head: 2, epoch: 2 });

    const late = log.append({ stream: A, epoch: 1, expected: 2, signals: chainedSignals(A, 3, 1) });

    await expect(late).rejects.toMatchObject({ code: 'session_fenced', extra: { head: 2, epoch: 2 } });
    await log.append({ stream: A, epoch: 2, expected: 2, signals: chainedSignals(A, 3, 1) });
    expect(await log.head(A)).toEqual({ head: 3, epoch: 2 });
  });

  test('a writer that believes in another head is refused', async () => {
    const log = await open();
    await log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 2) });
    for (const expected of [0, 1, 3]) {
      const append = log.append({ stream: A, epoch: 0, expected, signals: chainedSignals(A, expected + 1, 1) });
      await expect(append).rejects.toMatchObject({ code: 'session_fenced', extra: { head: 2, epoch: 0 } });
    }
    expect((await log.read(A, 0, 10)).map((signal) => signal.seq)).toEqual([1, 2]);
  });

  test('a fenced append fails alone: its neighbours of the same tick are stored without a gap', async () => {
    const log = await open();
    const results = await Promise.allSettled([
      log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 1) }),
      log.append({ stream: B, epoch: 7, expected: 0, signals: chainedSignals(B, 1, 1), card: sessionCard('bbbbbb') }),
      log.append({ stream: A, epoch: 0, expected: 1, signals: chainedSignals(A, 2, 1) }),
    ]);

    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect((await log.feed({ after: 0, limit: 10 })).map((signal) => signal.gseq)).toEqual([1, 2]);
    expect(await log.head(B)).toEqual({ head: 0, epoch: 0 });
    expect(await log.card('bbbbbb')).toBeNull();
  });
}

function conformReading(open: Open): void {
  test('read goes forward from a seq, readBefore backward, both ascending and limited', async () => {
    const log = await open();
    await log.append({ stream: B, epoch: 0, expected: 0, signals: chainedSignals(B, 1, 1) });
    await log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 1_000) });
    const seqs = async (read: Promise<readonly { seq: number }[]>): Promise<number[]> => (await read).map((signal) => signal.seq);

    expect(await seqs(log.read(A, 0, 3))).toEqual([1, 2, 3]);
    expect(await seqs(log.read(A, 998, 10))).toEqual([999, 1_000]);
    expect(await seqs(log.read(A, 1_000, 10))).toEqual([]);
    expect(await seqs(log.readBefore(A, 4, 2))).toEqual([2, 3]);
    expect(await seqs(log.readBefore(A, Number.POSITIVE_INFINITY, 2))).toEqual([999, 1_000]);
    expect(await seqs(log.readBefore(A, 1, 10))).toEqual([]);
    expect(await seqs(log.read('session:absent', 0, 10))).toEqual([]);
  });

  test('long reads and large payloads come back whole and in order', async () => {
    const log = await open();
    await log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 1_000) });
    await log.append({ stream: A, epoch: 0, expected: 1_000, signals: chainedSignals(A, 1_001, 20, '', { text: 'x'.repeat(60_000) }) });
    const expected = Array.from({ length: 1_020 }, (_, index) => index + 1);

    expect((await log.read(A, 0, 5_000)).map((signal) => signal.payload.n)).toEqual(expected);
    expect((await log.readBefore(A, 1_021, 5_000)).map((signal) => signal.payload.n)).toEqual(expected);
    expect((await log.feed({ after: 0, limit: 1_010 })).map((signal) => signal.gseq)).toEqual(expected.slice(0, 1_010));
  });
}

// long: one table of promises about the projections
function conformStreams(open: Open): void {
  test('streams are listed by the beginning of their name, the newest first, in pages', async () => {
    const log = await open();
    const names = ['workflow:aaaaaa', A, 'workflow:cccccc', 'workflow:bbbbbb'];
    for (const stream of names) await log.append({ stream, epoch: 0, expected: 0, signals: chainedSignals(stream, 1, 2) });
    const first = await log.streams({ prefix: 'workflow:', limit: 2 });
    expect(first.map(({ name, head }) => `${name} ${head}`)).toEqual(['workflow:bbbbbb 2', 'workflow:cccccc 2']);
    const rest = await log.streams({ prefix: 'workflow:', limit: 2, before: first[1]!.place });
    expect(rest.map(({ name }) => name)).toEqual(['workflow:aaaaaa']);
    expect(await log.streams({ prefix: 'daemon', limit: 2 })).toEqual([]);
  });
}

function putCard(log: SignalLog, card: SessionCard): Promise<unknown> {
  const stream = `session:${card.id}`;
  return log.append({ stream, epoch: 0, expected: 0, signals: chainedSignals(stream, 1, 1), card });
}

function conformProjections(open: Open): void {
  test('card and snapshot are those of the newest append that brought one', async () => {
    const log = await open();
    const first = { seq: 1, version: 'm1', body: '{"n":1}' };
    await log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 1), card: sessionCard('aaaaaa'), snapshot: first });
    const card = sessionCard('aaaaaa', { state: 'generating', open: true, turns: 2, costUsd: 0.25 });
    await log.append({ stream: A, epoch: 0, expected: 1, signals: chainedSignals(A, 2, 1), card });

    expect(await log.card('aaaaaa')).toEqual(card);
    expect(await log.loadSnapshot(A)).toEqual(first);
    expect(await log.loadSnapshot(A, 1)).toEqual(first);
    expect(await log.loadSnapshot(A, 0)).toBeNull();
    expect(await log.countCards()).toEqual({ generating: 1 });
    expect(await log.card('absent')).toBeNull();
    expect(await log.loadSnapshot(B)).toBeNull();
  });

  test('cards come newest first, equal times by id, and continue behind the last one', async () => {
    const log = await open();
    const times = { one001: 1, two002: 3, three3: 3, four04: 2 };
    for (const [id, second] of Object.entries(times))
      await putCard(log, sessionCard(id, { updatedAt: `2026-01-01T00:00:0${second}.000Z` }));
    const ids = async (cards: Promise<SessionCard[]>): Promise<string[]> => (await cards).map((card) => card.id);

    expect(await ids(log.cards({ limit: 10 }))).toEqual(['three3', 'two002', 'four04', 'one001']);
    expect(await ids(log.cards({ limit: 2 }))).toEqual(['three3', 'two002']);
    expect(await ids(log.cards({ limit: 2, after: { updatedAt: '2026-01-01T00:00:03.000Z', id: 'three3' } }))).toEqual([
      'two002',
      'four04',
    ]);
    expect(await ids(log.cards({ limit: 2, after: { updatedAt: '2026-01-01T00:00:01.000Z', id: 'one001' } }))).toEqual([]);
  });
}

function conformCardFilters(open: Open): void {
  test('cards are filtered by agent, state, parent, open and any part of id, key, title and project', async () => {
    const log = await open();
    await putCard(log, sessionCard('parent', { agent: 'lead', title: 'Größe Ändern' }));
    await putCard(log, sessionCard('child1', { agent: 'lead', parent: 'parent', state: 'generating', open: true, key: 'agent:dot:main' }));
    await putCard(log, sessionCard('child2', { parent: 'parent', project: '/srv/Shop_100%' }));
    const ids = async (query: object): Promise<string[]> => (await log.cards({ limit: 10, ...query })).map((card) => card.id);

    expect(await ids({ agent: 'lead' })).toEqual(['child1', 'parent']);
    expect(await ids({ state: 'generating' })).toEqual(['child1']);
    expect(await ids({ parent: 'parent' })).toEqual(['child1', 'child2']);
    expect(await ids({ parent: 'parent', agent: 'writer' })).toEqual(['child2']);
    expect(await ids({ open: true })).toEqual(['child1']);
    expect(await ids({ open: false, agent: 'lead' })).toEqual(['parent']);
    expect(await ids({ search: 'GRÖSSE' })).toEqual([]);
    expect(await ids({ search: 'größe ä' })).toEqual(['parent']);
    expect(await ids({ search: 'DOT:' })).toEqual(['child1']);
    expect(await ids({ search: '_100%' })).toEqual(['child2']);
    expect(await log.countCards()).toEqual({ idle: 2, generating: 1 });
  });

  test('a search that fits few of many cards finds them all', async () => {
    const log = await open();
    const puts = Array.from({ length: 2_500 }, (_, index) =>
      putCard(
        log,
        sessionCard(`many_${index}`, {
          title: index % 1_000 === 999 ? 'needle' : 'hay',
          updatedAt: `2026-01-01T00:00:00.${String(index % 7)}00Z`,
        }),
      ),
    );
    await Promise.all(puts);

    const found = await log.cards({ search: 'needle', limit: 10 });

    expect(found.map((card) => card.id).sort()).toEqual(['many_1999', 'many_999']);
  });
}

function conformPurging(open: Open): void {
  test('a purged stream is gone from reads, feed, snapshot and cards, and its numbers are not used again', async () => {
    const log = await open();
    const snapshot = { seq: 1, version: 'm1', body: '{}' };
    const { epoch } = await log.own(A);
    await log.append({ stream: B, epoch: 0, expected: 0, signals: chainedSignals(B, 1, 1) });
    await log.append({ stream: A, epoch, expected: 0, signals: chainedSignals(A, 1, 12_000), card: sessionCard('aaaaaa'), snapshot });

    await log.purge(A);

    expect(await log.read(A, 0, 10)).toEqual([]);
    expect(await log.loadSnapshot(A)).toBeNull();
    expect(await log.card('aaaaaa')).toBeNull();
    expect((await log.feed({ after: 0, limit: 10 })).map((signal) => signal.stream)).toEqual(['session:bbbbbb']);
    expect(await log.headGseq()).toBe(12_001);
    const late = log.append({ stream: A, epoch, expected: 12_000, signals: chainedSignals(A, 12_001, 1) });
    await expect(late).rejects.toMatchObject({ code: 'session_fenced', extra: { head: 12_000 } });
    const again = await log.own(A);
    expect(again.head).toBe(12_000);
    const next = await log.append({ stream: A, epoch: again.epoch, expected: 12_000, signals: chainedSignals(A, 12_001, 1) });
    expect(next).toEqual({ head: 12_001, firstGseq: 12_002 });
  });

  test('what a new owner appends while an old purge is still deleting stays', async () => {
    const log = await open();
    await log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 12_000) });
    const purging = log.purge(A);
    const { head, epoch } = await log.own(A);
    await log.append({ stream: A, epoch, expected: head, signals: chainedSignals(A, 12_001, 1) });
    await purging;

    expect((await log.read(A, 0, 10)).map((signal) => signal.seq)).toEqual([12_001]);
  });

  test('purging what does not exist does nothing', async () => {
    const log = await open();
    await log.purge('session:absent');
    expect(await log.head('session:absent')).toEqual({ head: 0, epoch: 0 });
  });
}

function conformTrimming(open: Open): void {
  const checkpoint = { seq: 11_000, format: 1, body: '{"folded":true}' };

  test('a trim appends, keeps the checkpoint, and drops what it stands for; others keep their signals', async () => {
    const log = await open();
    const snapshot = { seq: 1, version: 'm1', body: '{}' };
    await log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 12_000), snapshot });
    await log.append({ stream: B, epoch: 0, expected: 0, signals: chainedSignals(B, 1, 1) });

    const trimmed = await log.trim({ stream: A, epoch: 0, expected: 12_000, signals: chainedSignals(A, 12_001, 1), checkpoint });

    expect(trimmed).toEqual({ head: 12_001, firstGseq: 12_002 });
    expect((await log.read(A, 0, 2_000)).map(({ seq }) => seq)).toEqual(Array.from({ length: 1_001 }, (_, index) => 11_001 + index));
    expect((await log.readBefore(A, 11_003, 5)).map(({ seq }) => seq)).toEqual([11_001, 11_002]);
    expect(await log.loadCheckpoint(A)).toEqual(checkpoint);
    expect(await log.loadSnapshot(A)).toBeNull();
    expect((await log.feed({ after: 0, limit: 1 }))[0]?.gseq).toBe(11_001);
    expect(await log.loadCheckpoint(B)).toBeNull();
    expect(await log.read(B, 0, 5)).toHaveLength(1);
  });

  test('a writer that is not the owner trims nothing', async () => {
    const log = await open();
    await log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 3) });
    await log.own(A);

    const late = log.trim({ stream: A, epoch: 0, expected: 3, signals: chainedSignals(A, 4, 1), checkpoint: { ...checkpoint, seq: 2 } });

    await expect(late).rejects.toMatchObject({ code: 'session_fenced' });
    expect(await log.read(A, 0, 5)).toHaveLength(3);
    expect(await log.loadCheckpoint(A)).toBeNull();
  });

  test('a purge takes the checkpoint along', async () => {
    const log = await open();
    await log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 3) });
    await log.trim({ stream: A, epoch: 0, expected: 3, signals: chainedSignals(A, 4, 1), checkpoint: { ...checkpoint, seq: 2 } });

    await log.purge(A);

    expect(await log.loadCheckpoint(A)).toBeNull();
    expect(await log.read(A, 0, 5)).toEqual([]);
  });
}
