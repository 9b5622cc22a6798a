import { expect, onTestFinished, test } from 'vitest';
import type { RuntimeClient } from '../../src/client/runtime-client.ts';
import { readLog, startRig } from '../e2e/rig.ts';
import { createRandom, SEED } from '../helpers/seeded-random.ts';

const SEEDS = process.env.SOAK ? 100 : 25;
/** Longest piece a reader takes before it is killed; unit: events. */
const PIECE_MAX = 12;

test(`T9: a reader that is killed and comes back at random places gets each signal once, in order (${SEEDS} seeds from ${SEED})`, {
  timeout: 120_000,
}, async () => {
  const rig = await startRig();
  onTestFinished(() => rig.close());
  rig.model.respond(() => ({ text: 'one two three four', chunks: 4, delayMs: 1 }));
  const { id } = await rig.client.session.create({});
  const talking = (async () => {
    for (let turn = 0; turn < 8; turn += 1) await rig.client.session.prompt(id, { content: `Turn ${turn}.` });
    await rig.client.session.end(id);
  })();
  const readers = Array.from({ length: SEEDS }, (_, index) => readInPieces(rig.client, id, createRandom(SEED + index)));
  await talking;
  const log = (await readLog(rig.client, id)).map(({ id: signal }) => signal);
  for (const [index, signals] of (await Promise.all(readers)).entries()) expect([SEED + index, signals]).toEqual([SEED + index, log]);
});

async function readInPieces(client: RuntimeClient, id: string, random: () => number): Promise<string[]> {
  const signals: string[] = [];
  let after: string | undefined;
  for (;;) {
    let left = 1 + Math.floor(random() * PIECE_MAX);
    const cut = new AbortController();
    for await (const event of client.session.stream(id, { ...(after === undefined ? {} : { after }), signal: cut.signal })) {
      if (event.seq !== undefined) signals.push(event.id!);
      if (event.name === 'end') return signals;
      after = event.cursor ?? after;
      left -= 1;
      if (left === 0) break;
    }
    cut.abort();
  }
}
