import { afterAll, beforeAll, expect } from 'vitest';
import type { Signal } from '../../src/contract/signal.ts';
import { verifies } from '../conformance/verifies.ts';
import { type Rig, readLog, startRig } from '../e2e/rig.ts';
import { type CutProxy, startCutProxy } from '../helpers/cut-proxy.ts';
import { createRandom, SEED } from '../helpers/seeded-random.ts';
import { openSse, type SseFrame } from '../helpers/sse-client.ts';

/** Connections that are cut, over all readers. */
const CUTS_MIN = 1_000;
const SESSIONS = 3;
const READERS_PER_SESSION = 4;
/** A cut comes after 1 to so many bytes of an answer, headers included. */
const CUT_BYTES_MAX = 6_000;

let rig: Rig;
let proxy: CutProxy;
beforeAll(async () => {
  rig = await startRig();
  const random = createRandom(SEED);
  proxy = await startCutProxy(rig.runtimeUrl, () => 1 + Math.floor(random() * CUT_BYTES_MAX));
});
afterAll(async () => {
  await proxy.close();
  await rig.close();
});

/** What one reader has got over all of its connections. */
interface Reading {
  readonly stored: SseFrame[];
  /** Text by the model call it belongs to and its kind. */
  readonly texts: Map<string, string>;
  connections: number;
}

verifies(
  ['signals.text.delta', 'signals.thinking.delta', 'runtime.session.stream'],
  `a reader that is cut off at any byte and resumes has every signal once and every character once (SEED=${SEED})`,
  async () => {
    await rig.tool('look', ({ n }) => `found ${n}`);
    rig.model.respond(({ body }) => {
      const messages = body.messages as { content: unknown }[];
      const afterTool = JSON.stringify(messages.at(-1)).includes('tool_result');
      const words = Array.from({ length: 60 }, (_, index) => `wörd${index}🫖`).join(' ');
      return afterTool
        ? { thinking: `So it is: ${words}`, text: `It is found: ${words}`, delayMs: 2 }
        : {
            thinking: 'Where could it be?',
            text: `Let me look. ${words}`,
            delayMs: 2,
            toolCalls: ['a', 'b'].map((n) => ({ name: 'look', input: { n } })),
          };
    });
    const ids = await Promise.all(Array.from({ length: SESSIONS }, async () => (await rig.client.session.create({})).id));
    const readings = ids.map((id) => Array.from({ length: READERS_PER_SESSION }, () => read(id)));
    // Turns run for as long as it takes to be cut often enough; then the sessions end, and so do their streams.
    await Promise.all(
      ids.map(async (id) => {
        while (proxy.cuts < CUTS_MIN) await rig.client.session.prompt(id, { content: 'Find it.' });
        await rig.client.session.end(id);
      }),
    );
    expect(proxy.cuts).toBeGreaterThanOrEqual(CUTS_MIN);
    for (const [index, id] of ids.entries()) {
      const log = await readLog(rig.client, id);
      for (const reading of await Promise.all(readings[index]!)) {
        expect(reading.stored.map(({ data }) => data)).toEqual(log);
        expect(Object.fromEntries(reading.texts)).toEqual(Object.fromEntries(textsOf(log)));
        expect(reading.connections).toBeGreaterThan(10);
      }
    }
  },
  60_000,
);

/** Follows a session to its end, through the proxy, coming back with the last id it saw whenever it is cut off. */
async function read(id: string): Promise<Reading> {
  const reading: Reading = { stored: [], texts: new Map(), connections: 0 };
  let lastEventId: string | undefined;
  let ended = false;
  const onFrame = (frame: SseFrame): void => {
    const { data, event } = frame;
    if (event === 'end') ended = true;
    if (event === 'text:delta' || event === 'thinking:delta') {
      const key = `${(data.source as { parent: string }).parent} ${event.split(':')[0]}`;
      reading.texts.set(key, (reading.texts.get(key) ?? '') + (data.payload as { content: string }).content);
    } else if (frame.id !== undefined) reading.stored.push(frame);
    lastEventId = frame.id ?? lastEventId;
  };
  while (!ended) {
    reading.connections += 1;
    try {
      const client = await openSse(`${proxy.url}/session/${id}/stream`, { ...(lastEventId === undefined ? {} : { lastEventId }), onFrame });
      await client.closed;
    } catch {
      // Cut within the headers: nothing was received, so the same cursor is used again.
    }
  }
  return reading;
}

function textsOf(log: readonly Signal[]): Map<string, string> {
  const texts = new Map<string, string>();
  for (const { name, source, payload } of log) {
    if (name === 'text:complete' || name === 'thinking:complete')
      texts.set(`${source.parent} ${name.split(':')[0]}`, String(payload.content));
  }
  return texts;
}
