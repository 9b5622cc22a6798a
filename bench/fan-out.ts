/** What one frame costs per reader: the same turns with many readers and with none. */
import { startDaemon, startModel, WIRES } from './rig/child-process.ts';
import { report } from './rig/figure.ts';
import { readEvents } from './rig/http-client.ts';
import { createSessions, runTurn } from './rig/load.ts';
import { cpuMs, pause } from './rig/process-usage.ts';

const READERS = 100;
const TOKENS = 100;
/** Slower than the daemon coalesces, so that each token is a frame; unit: milliseconds. */
const DELAY_MS = 10;
const TURNS = 5;
const WARM_TURNS = 3;
const REST_MS = 500;

const model = await startModel({ tokens: TOKENS, delayMs: DELAY_MS });
const daemon = await startDaemon({ env: WIRES.anthropic(model.url) });
const [session] = await createSessions(daemon.url, 1);
await measure(WARM_TURNS);
const alone = await measure(TURNS);
const readers = await Promise.all(Array.from({ length: READERS }, () => readEvents(`${daemon.url}/session/${session}/stream`)));
await measure(WARM_TURNS);
const framesBefore = countFrames();
const read = await measure(TURNS);
const frames = countFrames() - framesBefore;
report({
  name: 'CPU of a frame per reader',
  value: ((read - alone) * 1_000) / frames,
  unit: 'µs',
  note: `${READERS} readers, ${Math.round(frames / READERS / TURNS)} frames a turn`,
});
for (const reader of readers) reader.close();
await daemon.close();
await model.close();

/** CPU of the daemon in ms. */
async function measure(turns: number): Promise<number> {
  await pause(REST_MS);
  const before = cpuMs(daemon.pid);
  for (let turn = 0; turn < turns; turn += 1) await runTurn(daemon.url, session!);
  await pause(REST_MS);
  return cpuMs(daemon.pid) - before;
}

function countFrames(): number {
  return readers.reduce((sum, reader) => sum + reader.frames, 0);
}
