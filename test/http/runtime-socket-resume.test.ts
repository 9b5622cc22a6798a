import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Rig, readLog, startRig } from '../e2e/rig.ts';
import { createRandom, SEED } from '../helpers/seeded-random.ts';
import { openSocket, type SocketMessage } from '../helpers/socket-client.ts';

const BREAKS_MIN = 100;
/** A socket is left after 1 to so many messages. */
const MESSAGES_MAX = 25;

let rig: Rig;
beforeAll(async () => {
  rig = await startRig();
});
afterAll(() => rig.close());

test(`a socket that breaks ${BREAKS_MIN} times and subscribes again at its cursor has every signal and character once (SEED=${SEED})`, async () => {
  const random = createRandom(SEED);
  rig.model.respond(() => ({ thinking: 'Let me think.', text: Array.from({ length: 50 }, (_, n) => `word${n} `).join(''), delayMs: 2 }));
  const { id } = await rig.client.session.create({});
  const stored: number[] = [];
  const texts = new Map<string, string>();
  let cursor: string | undefined;
  let ended = false;
  let breaks = 0;
  const take = (message: SocketMessage): void => {
    if (message.event === 'end') ended = true;
    if (message.cursor === undefined) return;
    cursor = String(message.cursor);
    if (message.seq !== undefined) stored.push(Number(message.seq));
    else {
      const key = `${(message.source as { parent: string }).parent} ${String(message.event).split(':')[0]}`;
      texts.set(key, (texts.get(key) ?? '') + message.content);
    }
  };
  const reading = (async () => {
    while (!ended) {
      let left = 1 + Math.floor(random() * MESSAGES_MAX);
      const enough = Promise.withResolvers<void>();
      const socket = await openSocket(rig.runtimeUrl, (message) => {
        if (message.re !== undefined || message.event === 'hello' || left === 0) return;
        left -= 1;
        take(message);
        if (left === 0 || ended) enough.resolve();
      });
      socket.send(JSON.stringify({ id: 1, op: 'sub', session: id, ...(cursor === undefined ? {} : { after: cursor }) }));
      await enough.promise;
      await socket.close();
      breaks += 1;
    }
  })();
  while (breaks < BREAKS_MIN) await rig.client.session.prompt(id, { content: 'Speak.' });
  await rig.client.session.end(id);
  await reading;
  const log = await readLog(rig.client, id);
  expect(stored).toEqual(log.map(({ seq }) => seq));
  const whole = log.filter(({ name }) => name === 'text:complete' || name === 'thinking:complete');
  expect(Object.fromEntries(texts)).toEqual(
    Object.fromEntries(whole.map(({ name, source, payload }) => [`${source.parent} ${name.split(':')[0]}`, payload.content])),
  );
});
