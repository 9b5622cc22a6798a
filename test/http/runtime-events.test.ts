import { afterAll, beforeAll, expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { type Rig, readLog, startRig } from '../e2e/rig.ts';
import { startCutProxy } from '../helpers/cut-proxy.ts';
import { createRandom, SEED } from '../helpers/seeded-random.ts';
import { openSocket } from '../helpers/socket-client.ts';
import { openSse, type SseFrame } from '../helpers/sse-client.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ yaml: 'agents: { roster: [{ name: scout }] }\n' });
});
afterAll(() => rig.close());

const eventsOf = (query = '') => `${rig.runtimeUrl}/events${query}`;
const stored = (frames: readonly SseFrame[]) => frames.filter(({ data }) => data.seq !== undefined);
/** Seq of the end of the n-th turn; 0 while it has not come. */
function headOf(frames: readonly SseFrame[], turn: number): number {
  return Number(frames.filter(({ event }) => event === 'turn:end')[turn - 1]?.data.seq ?? 0);
}
const gseqs = (frames: readonly SseFrame[]) => stored(frames).map(({ data }) => data.gseq as number);

async function turnsOf(ids: readonly string[], turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1)
    await Promise.all(ids.map((id) => rig.client.session.prompt(id, { content: `Turn ${turn}.` })));
}

verifies(
  'sdk.runtime-client.two-clients',
  'a reader of all sessions has every signal of each once, in the order of the log, with log-wide ids',
  async () => {
    const client = await openSse(eventsOf());
    expect((await client.until(() => true)).event).toBe('log:snapshot');
    const ids = await Promise.all(Array.from({ length: 5 }, async () => (await rig.client.session.create({})).id));
    await turnsOf(ids, 3);
    await Promise.all(ids.map((id) => rig.client.session.end(id)));
    const ended = new Set<unknown>();
    await client.until(({ event, data }) => {
      if (event === 'supervisor:child:stopped') ended.add(data.stream);
      return ended.size === ids.length;
    });
    client.close();
    const numbers = gseqs(client.frames);
    expect(numbers).toEqual(numbers.map((_, index) => numbers[0]! + index));
    for (const frame of stored(client.frames)) expect(frame.id).toBe(String(frame.data.gseq));
    for (const id of ids) {
      const mine = stored(client.frames).filter(({ data }) => data.stream === `session:${id}`);
      expect(mine.map(({ data }) => data)).toEqual(await readLog(rig.client, id));
    }
  },
);

verifies(
  'runtime.clients.several',
  'two event streams and a socket of one session see the same signals while a third client prompts',
  async () => {
    const { id } = await rig.client.session.create({});
    const url = `${rig.runtimeUrl}/session/${id}/stream`;
    const [first, second, socket] = await Promise.all([openSse(url), openSse(url), openSocket(rig.runtimeUrl)]);
    await socket.ask({ op: 'sub', session: id });
    await turnsOf([id], 2);
    for (const reader of [first, second])
      await reader.until(({ event, data }) => event === 'turn:end' && data.seq === headOf(reader.frames, 2));
    await socket.until(({ event, seq }) => event === 'turn:end' && seq === headOf(first.frames, 2));
    const log = await readLog(rig.client, id);
    const seqs = log.map(({ seq }) => seq);
    const told = [
      ...[first, second].map(({ frames }) => stored(frames).map(({ data }) => data.seq as number)),
      socket.messages.flatMap(({ seq }) => (seq === undefined ? [] : [seq as number])),
    ];
    // Each from where it came in, without a gap and without a double.
    for (const seen of told) expect(seen).toEqual(seqs.filter((seq) => seq >= seen[0]!));
    expect(Math.max(...told.map((seen) => seen[0]!))).toBeLessThan(headOf(first.frames, 1));
    first.close();
    second.close();
    await socket.close();
  },
);

test('a reader that is cut off resumes with the rest, also when it stands far back in the log', async () => {
  const { id } = await rig.client.session.create({});
  const first = await openSse(eventsOf());
  await first.until(({ event }) => event === 'log:snapshot');
  await turnsOf([id], 1);
  await first.until(({ event, data }) => event === 'turn:end' && data.stream === `session:${id}`);
  first.close();
  await turnsOf([id], 1);
  const second = await openSse(eventsOf(), { lastEventId: first.lastId! });
  await second.until(({ event, data }) => event === 'turn:end' && data.stream === `session:${id}`);
  second.close();
  const numbers = [...gseqs(first.frames), ...gseqs(second.frames)];
  expect(numbers).toEqual(numbers.map((_, index) => numbers[0]! + index));
  const all = await openSse(eventsOf('?after=0'));
  await all.until(({ data }) => data.gseq === numbers.at(-1));
  all.close();
  expect(gseqs(all.frames)[0]).toBe(1);
  expect(gseqs(all.frames).slice(numbers[0]! - 1, numbers.at(-1))).toEqual(numbers);
});

test('text comes as deltas without ids, so that they never move the cursor', async () => {
  const { id } = await rig.client.session.create({});
  const client = await openSse(eventsOf(`?session=${id}`));
  await client.until(({ event }) => event === 'log:snapshot');
  rig.model.script([{ text: 'one two three', delayMs: 5 }]);
  await rig.client.session.prompt(id, { content: 'Count.' });
  await client.until(({ event }) => event === 'turn:end');
  client.close();
  const deltas = client.frames.filter(({ event }) => event === 'text:delta');
  expect(deltas.map(({ data }) => data.content).join('')).toBe('one two three');
  expect(deltas.map((frame) => frame.id)).toEqual(deltas.map(() => undefined));
});

test('a reader may choose sessions, agents, kinds and names', async () => {
  const plain = (await rig.client.session.create({})).id;
  const scout = (await rig.client.session.create({ agent: 'scout' })).id;
  const queries = [`?session=${plain}`, '?agent=scout', '?kind=effect', '?events=turn:end', '?deltas=0'];
  const clients = await Promise.all(queries.map((query) => openSse(eventsOf(query))));
  await Promise.all(clients.map((client) => client.until(({ event }) => event === 'log:snapshot')));
  await turnsOf([plain, scout], 1);
  const [bySession, byAgent, byKind, byName, noDeltas] = clients as [(typeof clients)[0], ...typeof clients] & typeof clients;
  const ends = (client: (typeof clients)[0], count: number, name: string) => {
    let seen = 0;
    return client.until(({ event }) => event === name && ++seen === count);
  };
  await ends(bySession!, 1, 'turn:end');
  await ends(byAgent!, 1, 'turn:end');
  await ends(byKind!, 2, 'harness:start');
  await ends(byName!, 2, 'turn:end');
  await ends(noDeltas!, 2, 'turn:end');
  for (const client of clients) client.close();
  const values = (client: (typeof clients)[0], of: (frame: SseFrame) => unknown) => [...new Set(stored(client.frames).map(of))];
  expect(values(bySession!, ({ data }) => data.stream)).toEqual([`session:${plain}`]);
  expect(values(byAgent!, ({ data }) => data.stream)).toEqual([`session:${scout}`]);
  expect(values(byKind!, ({ data }) => (data.source as { kind: string }).kind)).toEqual(['effect']);
  expect(values(byName!, ({ event }) => event)).toEqual(['turn:end']);
  expect(noDeltas!.frames.some(({ event }) => event.endsWith(':delta'))).toBe(false);
});

test(`a reader of all sessions that is cut off 200 times at any byte has every signal once (SEED=${SEED})`, async () => {
  const random = createRandom(SEED);
  const proxy = await startCutProxy(rig.runtimeUrl, () => 1 + Math.floor(random() * 8_000));
  const ids = await Promise.all(Array.from({ length: 4 }, async () => (await rig.client.session.create({})).id));
  const start = (await readLog(rig.client, ids[0]!))[0]!.gseq - 1;
  const seen: number[] = [];
  let isOver = false;
  const reading = (async () => {
    while (!isOver) {
      const client = await openSse(`${proxy.url}/events?after=${seen.at(-1) ?? start}`, {
        onFrame: ({ data }) => void (typeof data.gseq === 'number' && seen.push(data.gseq)),
      }).catch(() => undefined); // Cut within the headers.
      await client?.closed;
    }
  })();
  while (proxy.cuts < 200) {
    await turnsOf(ids, 1);
    const logs = await Promise.all(ids.map((id) => readLog(rig.client, id)));
    const head = Math.max(...logs.map((log) => log.at(-1)!.gseq));
    // The reader is let come near before more happens: being cut off all the time, it is slower than the turns.
    await expect.poll(() => seen.at(-1), { timeout: 15_000 }).toBeGreaterThanOrEqual(head);
  }
  isOver = true;
  await proxy.close();
  await reading;
  expect(seen).toEqual(seen.map((_, index) => start + 1 + index));
});
