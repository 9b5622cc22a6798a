import { expect } from 'vitest';
import type { Signal } from '../../src/contract/signal.ts';
import { isAppError } from '../../src/core/errors.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { Arrivals } from './gates.ts';
import { Journey, readLog } from './journey.ts';
import { type Explained, expectAllPromptsEnded, expectSoundLog, explainLog, promptEnds } from './log-check.ts';
import { REFUSALS } from './outside.ts';
import type { Path, SessionStepper } from './paths.ts';
import { openWorld, TestClock, temporaryFolder, type World } from './world.ts';

const START_MS = Date.parse('2026-03-03T12:00:00.000Z');
/** How long a session may take to settle once nothing waits for the test any more; unit: milliseconds. */
const SETTLE_TIMEOUT_MS = 20_000;
/** Longest wait for a lane; unit: milliseconds. */
const LANE_TIMEOUT_MS = 600_000;
/** Frames of a stream that are not stored signals. */
const CONTROL_FRAMES: ReadonlySet<string> = new Set(['session:snapshot', 'heartbeat', 'lagged', 'gap', 'caught_up', 'end']);

export interface Proof extends Explained {
  /** To the end of the path; after a restart of its lane, to the end of all its work. */
  log: readonly Signal[];
}

let sessions = 0;

/** A server that takes one path after the other, each with a session of its own. Several lanes may run at once. */
export class Lane {
  readonly #folder: ReturnType<typeof temporaryFolder>;
  readonly #clock: TestClock;
  readonly #model: ModelServer;
  /** What each session answered at the end of its path. */
  readonly #looks = new Map<string, { readonly look: unknown; readonly proof: Proof }>();
  #world: World;

  private constructor(parts: { folder: ReturnType<typeof temporaryFolder>; clock: TestClock; model: ModelServer; world: World }) {
    this.#folder = parts.folder;
    this.#clock = parts.clock;
    this.#model = parts.model;
    this.#world = parts.world;
  }

  static async open(): Promise<Lane> {
    const folder = temporaryFolder();
    const clock = new TestClock(START_MS);
    const model = await startModelServer();
    model.gate();
    const world = await openWorld({ folder: folder.folder, modelUrl: model.url, clock });
    return new Lane({ folder, clock, model, world });
  }

  /**
   * Takes a path, looks at the log and replays it.
   *
   * @param random  between 0 and 1: where the replay begins
   * @param stray   after the path an outcome comes that nobody waits for any more
   * @throws when the server differs from the model anywhere
   */
  async prove(stepper: SessionStepper, path: Path, random: () => number, { stray = false } = {}): Promise<Proof> {
    sessions += 1;
    const session = `ses_path_${sessions}`;
    this.#world.gates.admit(session);
    const journey = new Journey(this.#world, this.#model, stepper, path, session);
    await journey.take();
    if (stray) await journey.expectStray();
    const log = await readLog(this.#world, session);
    expectSoundLog(log);
    const explained = explainLog(stepper, log);
    await expectRefusalsTold(journey, log);
    await expectReplay(this.#world, session, log, Math.floor(random() * log.length));
    const proof = { ...explained, log };
    this.#looks.set(session, { look: await look(this.#world, session), proof });
    return proof;
  }

  /**
   * Closes the server wherever its sessions are, opens it again on the same folder and lets all of them come to rest.
   *
   * @returns how many sessions answered the same as before
   */
  async restart(stepper: SessionStepper): Promise<number> {
    await this.#world.close();
    const clock = new TestClock(this.#clock.now(), true);
    this.#world = await openWorld({ folder: this.#folder.folder, modelUrl: this.#model.url, clock, open: true });
    for (const [session, before] of this.#looks)
      expect(await look(this.#world, session), `${session} after a restart`).toEqual(before.look);
    this.#model.open();
    await this.#world.resume();
    for (const [session, { proof }] of this.#looks) {
      await comeToRest(this.#world, session);
      proof.log = await readLog(this.#world, session);
      expectSoundLog(proof.log);
      expectAllPromptsEnded(proof.log);
      explainLog(stepper, proof.log);
    }
    return this.#looks.size;
  }

  async close(): Promise<void> {
    await this.#world.close();
    await this.#model.close();
    this.#folder.remove();
  }
}

async function look({ client }: World, session: string) {
  const [view, machine, messages] = await Promise.all([
    client.session.get(session),
    client.session.machine(session),
    client.session.messages(session),
  ]);
  return { view, machine, messages };
}

/** Work that was under way goes on; what waits for a person runs out of time. */
async function comeToRest(world: World, session: string): Promise<void> {
  try {
    await world.client.session.wait(session, { timeoutMs: SETTLE_TIMEOUT_MS });
  } catch (error) {
    // It ended between the two looks of the server.
    if (!isAppError(error, 'session_ended')) throw error;
  }
}

/** A reader that comes with any cursor gets the rest of the log, signal by signal. */
async function expectReplay(world: World, session: string, log: readonly Signal[], after: number): Promise<void> {
  const stop = new AbortController();
  const replayed: unknown[] = [];
  for await (const event of world.client.session.stream(session, { after, deltas: false, signal: stop.signal })) {
    if (CONTROL_FRAMES.has(event.name)) continue;
    const { cursor: _cursor, event: _event, ...signal } = event;
    replayed.push(signal);
    if (replayed.length === log.length - after) stop.abort();
  }
  expect(replayed, `replay after ${after}`).toEqual(log.slice(after));
}

/** A prompt that is refused is refused to its sender as well, with the code of the reason. */
async function expectRefusalsTold({ outside }: Journey, log: readonly Signal[]): Promise<void> {
  for (const [promptId, [end]] of promptEnds(log)) {
    const reason = end?.startsWith('rejected ') ? end.slice('rejected '.length) : '';
    if (reason in REFUSALS) expect(await outside.answerOf(promptId)).toBe(REFUSALS[reason]);
  }
}

/** Lanes that are free; who needs one waits for one. */
export class Lanes {
  readonly #free = new Arrivals<Lane>('free lane', LANE_TIMEOUT_MS);
  readonly all: readonly Lane[];

  private constructor(lanes: readonly Lane[]) {
    this.all = lanes;
    for (const lane of lanes) this.#free.push(lane);
  }

  static async open(count: number): Promise<Lanes> {
    return new Lanes(await Promise.all(Array.from({ length: count }, () => Lane.open())));
  }

  async use<T>(work: (lane: Lane) => Promise<T>): Promise<T> {
    const lane = await this.#free.next('a path');
    try {
      return await work(lane);
    } finally {
      this.#free.push(lane);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map((lane) => lane.close()));
  }
}

/** Random numbers that come again with the same seed. Between 0 and 1. @source mulberry32, public domain */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
