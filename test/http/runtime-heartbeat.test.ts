import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Rig, startRig } from '../e2e/rig.ts';
import { openSse } from '../helpers/sse-client.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig();
});
afterAll(() => rig.close());

test('quiet streams of all three kinds show a heartbeat that moves no cursor', async () => {
  const { id, seq } = await rig.client.session.wait((await rig.client.session.create({})).id);
  const socket = new WebSocket(`${rig.runtimeUrl.replace('http', 'ws')}/ws`);
  await once(socket, 'open');
  const beat = Promise.withResolvers<Record<string, unknown>>();
  socket.addEventListener('message', ({ data }) => {
    const frame = JSON.parse(String(data)) as Record<string, unknown>;
    if (frame.event === 'heartbeat') beat.resolve(frame);
  });
  socket.send(JSON.stringify({ id: 1, op: 'sub', session: id, after: seq }));
  const streams = await Promise.all([openSse(`${rig.runtimeUrl}/session/${id}/stream?after=${seq}`), openSse(`${rig.runtimeUrl}/events`)]);
  const beats = await Promise.all(streams.map((stream) => stream.until(({ event }) => event === 'heartbeat')));
  for (const frame of beats) expect(frame).toEqual({ event: 'heartbeat', data: { head: expect.any(Number), at: expect.any(String) } });
  expect(beats[0]!.data.head).toBe(seq);
  expect(await beat.promise).toEqual({ session: id, event: 'heartbeat', head: seq, at: expect.any(String) });
  for (const stream of streams) stream.close();
  socket.close();
});
