/** 64 sessions stream at once: how much longer than 64 clients that read the model server directly. */
import { startDaemon, startModel, WIRES } from './rig/child-process.ts';
import { report } from './rig/figure.ts';
import { drain } from './rig/http-client.ts';
import { createSessions, runTurn } from './rig/load.ts';
import { median } from './rig/process-usage.ts';

const STREAMS = 64;
const TOKENS = 100;
/** 50 tokens a second, so that the model server is not what the processor works for; unit: milliseconds between two. */
const DELAY_MS = 20;
const ROUNDS = 5;
const WARM_ROUNDS = 2;
const RATIO_MAX = 1.1;

const model = await startModel({ tokens: TOKENS, delayMs: DELAY_MS });
const daemon = await startDaemon({ env: WIRES.anthropic(model.url) });
const request = { model: 'scripted', max_tokens: 1_000, stream: true, messages: [{ role: 'user', content: 'Say something.' }] };
const readDirectly = () => drain(`${model.url}/v1/messages`, request);
const direct: number[] = [];
const through: number[] = [];
for (let round = -WARM_ROUNDS; round < ROUNDS; round += 1) {
  const sessions = await createSessions(daemon.url, STREAMS);
  const directMs = await timed(() => Promise.all(sessions.map(readDirectly)));
  const throughMs = await timed(() => Promise.all(sessions.map((id) => runTurn(daemon.url, id))));
  if (round < 0) continue;
  direct.push(directMs);
  through.push(throughMs);
}
const ratios = through.map((ms, round) => ms / direct[round]!);
const added = median(through) - median(direct);
report({
  name: `${STREAMS} streams at once, time against the model server's own`,
  value: median(ratios),
  unit: '×',
  atMost: RATIO_MAX,
  note: `${TOKENS} tokens at ${1_000 / DELAY_MS}/s each, median of ${ROUNDS}`,
});
report({
  name: `time added to ${STREAMS} streams at once`,
  value: added,
  unit: 'ms',
  note: `to ${Math.round(median(direct))} ms of the model server`,
});
await daemon.close();
await model.close();

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}
