import { afterAll, beforeAll, expect, test } from 'vitest';
import { nextSignal, type Rig, readLog, startRig } from '../e2e/rig.ts';
import { openSse, type SseFrame } from '../helpers/sse-client.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ yaml: 'runtime: { limits: { idleTtlMs: 1000 } }\n' });
});
afterAll(() => rig.close());

const seqs = (frames: readonly SseFrame[]) => frames.filter(({ data }) => data.gseq !== undefined).map(({ data }) => data.seq);

test('a reader stays with a session that leaves memory and comes back', async () => {
  const { id } = await rig.client.session.create({});
  const stream = await openSse(`${rig.runtimeUrl}/session/${id}/stream`);
  await stream.until(({ event }) => event === 'session:passivated');
  expect(await rig.client.session.get(id)).toMatchObject({ state: 'passivated' });
  expect((await rig.client.session.prompt(id, { content: 'Still there?' })).status).toBe('completed');
  await stream.until(({ event }) => event === 'turn:end');
  await rig.client.session.end(id);
  await stream.closed;
  expect(seqs(stream.frames)).toEqual((await readLog(rig.client, id)).map(({ seq }) => seq));
});

test('a reader that comes while the session is out of memory sees all that follows, and its end', async () => {
  const { id } = await rig.client.session.create({});
  await nextSignal(rig.client, id, 'session:passivated');
  await expect.poll(async () => (await rig.client.health()).sessions.alive, { timeout: 10_000 }).toBe(0);
  const stream = await openSse(`${rig.runtimeUrl}/session/${id}/stream`);
  expect((await stream.until(() => true)).data).toMatchObject({ session: { state: 'passivated' } });
  await rig.client.session.end(id);
  await stream.until(({ event }) => event === 'end');
  expect(seqs(stream.frames)).toEqual((await readLog(rig.client, id)).map(({ seq }) => seq));
});
