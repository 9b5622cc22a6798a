import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Rig, readLog, startRig } from '../e2e/rig.ts';
import { maskedFrame, openDeafReader, UPGRADE_HEADERS } from '../helpers/raw-http.ts';
import { openSocket, type SocketMessage } from '../helpers/socket-client.ts';

/** Together more than the kernel and the server hold for one reader. */
const CALLS = 120;
const OUTPUT_CHARS = 60_000;

let rig: Rig;
beforeAll(async () => {
  rig = await startRig();
  await rig.tool('flood', () => 'x'.repeat(OUTPUT_CHARS));
});
afterAll(() => rig.close());

test('a reader that takes nothing for a while holds nobody up, and then has everything once and in order', async () => {
  const { id } = await rig.client.session.create({});
  const deaf = await openDeafReader(Number(new URL(rig.runtimeUrl).port), '/ws', UPGRADE_HEADERS);
  deaf.write(maskedFrame(JSON.stringify({ id: 1, op: 'sub', session: id })));
  // So much output is compacted before the model is asked again.
  rig.model.script([
    { toolCalls: Array.from({ length: CALLS }, (_, n) => ({ id: `c${n}`, name: 'flood', input: {} })) },
    { text: 'The summary.' },
    { text: 'Done.' },
  ]);
  const quick = await openSocket(rig.runtimeUrl);
  await quick.ask({ op: 'sub', session: id });
  const answer = await rig.client.session.prompt(id, { content: 'Flood.' });
  expect(answer.content).toBe('Done.');
  await quick.until(({ event }) => event === 'turn:end');
  await quick.close();
  await rig.client.session.end(id);

  const messages = await readMessages(deaf, ({ event }) => event === 'end');
  deaf.destroy();
  const log = await readLog(rig.client, id);
  expect(JSON.stringify(log).length).toBeGreaterThan(CALLS * OUTPUT_CHARS);
  expect(messages.filter(({ seq }) => seq !== undefined).map(({ seq, name }) => [seq, name])).toEqual(
    log.map(({ seq, name }) => [seq, name]),
  );
});

test('a reader over a thousand signals behind is told so, and when it has caught up', async () => {
  const { id } = await rig.client.session.create({});
  rig.model.script([{ toolCalls: Array.from({ length: 500 }, (_, n) => ({ id: `c${n}`, name: 'nothing', input: {} })) }, {}]);
  await rig.client.session.prompt(id, { content: 'Many calls.' });
  const { length } = await readLog(rig.client, id);
  const socket = await openSocket(rig.runtimeUrl);
  await socket.ask({ op: 'sub', session: id });
  expect(await socket.until(({ event }) => event === 'caught_up')).toEqual({ session: id, event: 'caught_up', at: length });
  expect(socket.messages.find(({ event }) => event === 'lagged')).toEqual({ session: id, event: 'lagged', behind: length });
  await socket.close();
});

/** Reads frames off the socket until one fits; the answer to the upgrade is skipped, pings are left unanswered. */
async function readMessages(socket: Socket, last: (message: SocketMessage) => boolean): Promise<SocketMessage[]> {
  const messages: SocketMessage[] = [];
  let bytes = Buffer.alloc(0);
  let upgraded = false;
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    bytes = Buffer.concat([bytes, chunk]);
    if (!upgraded) {
      const end = bytes.indexOf('\r\n\r\n');
      if (end < 0) continue;
      bytes = bytes.subarray(end + 4);
      upgraded = true;
    }
    for (let frame = takeFrame(bytes); frame; frame = takeFrame(bytes)) {
      bytes = bytes.subarray(frame.bytes);
      if (frame.opcode !== 1) continue;
      const message = JSON.parse(frame.text) as SocketMessage;
      messages.push(message);
      if (last(message)) return messages;
    }
  }
  throw new Error(`the socket ended after ${messages.length} messages`);
}

function takeFrame(bytes: Buffer): { opcode: number; text: string; bytes: number } | undefined {
  if (bytes.length < 2) return undefined;
  const short = bytes[1]! & 0x7f;
  const head = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < head) return undefined;
  const length = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
  if (bytes.length < head + length) return undefined;
  return { opcode: bytes[0]! & 0x0f, text: bytes.subarray(head, head + length).toString('utf8'), bytes: head + length };
}
