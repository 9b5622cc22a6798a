import { expect } from 'vitest';
import type { InputEvent } from '../../machines/session-context.ts';
import type { SealedSignal, Signal } from '../../src/contract/signal.ts';
import type { ModelServer } from '../helpers/model-server/server.ts';
import type { HeldAppend } from './gates.ts';
import { leafOf, type Move, type SessionSnapshot } from './moves.ts';
import { Outside } from './outside.ts';
import { abstractState, describePath, type Path, type SessionStepper } from './paths.ts';
import type { World } from './world.ts';

const PAGE_SIGNALS = 1_000;
/** Outcomes that come by themselves when a session aborts. */
const OUTCOMES: ReadonlySet<string> = new Set([
  'hook:end',
  'hook:error',
  'text:complete',
  'thinking:complete',
  'harness:end',
  'harness:error',
  'tool:result',
]);

const STRAY: Move = { type: 'stray', inputs: [] };

/** One path taken on a running server, move by move; after each the server must be where the model is. */
export class Journey {
  readonly session: string;
  readonly outside: Outside;
  readonly #world: World;
  readonly #stepper: SessionStepper;
  readonly #path: Path;
  /** The model, moved by the inputs the server has written. */
  #at: SessionSnapshot | null = null;
  /** Inputs that were written and belong to moves to come. */
  readonly #ahead: InputEvent[] = [];

  constructor(world: World, model: ModelServer, stepper: SessionStepper, path: Path, session: string) {
    this.session = session;
    this.outside = new Outside(world, model, session);
    this.#world = world;
    this.#stepper = stepper;
    this.#path = path;
  }

  /** @throws when the server does something else than the model, naming the move */
  async take(): Promise<void> {
    this.outside.create();
    await this.#write(await this.#world.gates.appends.next('session:created'), null);
    await this.outside.takeUp(this.#at!.context);
    let done = 0;
    for (const [index, step] of this.#path.entries()) {
      try {
        if (index >= done) {
          this.outside.act(step.move, this.#at!.context);
          done = index + 1;
        }
        done = await this.#expect(step.move, index, done);
        if (this.#ahead.length === 0) await this.#compare(step.snapshot);
      } catch (error) {
        throw new Error(`move ${index + 1}, "${step.move.type}", of ${describePath(this.#path)}: ${(error as Error).message}`, {
          cause: error,
        });
      }
    }
    expect(
      this.#ahead.map(({ type }) => type),
      'inputs after the last move',
    ).toEqual([]);
  }

  /** An outcome of work that was given up comes after all: it is written, and nothing follows from it. */
  async expectStray(): Promise<void> {
    await this.#write(await this.#world.gates.appends.next('an outcome that nobody waits for'), STRAY);
    expect(
      this.#ahead.map(({ type }) => type),
      'outcomes that were taken for those of other work',
    ).toEqual([]);
    await this.#compare(this.#path.at(-1)!.snapshot);
  }

  /** Lets the server write until the inputs of this move are there. Answers how many moves have been acted. */
  async #expect(move: Move, index: number, acted: number): Promise<number> {
    let done = acted;
    const types = move.inputs.map(({ type }) => type);
    while (this.#ahead.length < types.length) {
      const held = await this.#world.gates.appends.next(`${move.type} (${types.join(', ')})`);
      const inputs = inputsOf(held);
      if (move.type === 'abort timer' && inputs.every(({ name }) => OUTCOMES.has(name))) {
        held.refuse();
        continue;
      }
      // What is to happen while the session aborts must be on its way before it does: once it aborts, its work settles by itself.
      if (inputs.length > 0) done = await this.#actAhead(index, done);
      await this.#write(held, move);
    }
    const written = this.#ahead.splice(0, types.length).map(({ type }) => type);
    if (move.unordered) expect(written.sort()).toEqual(types.sort());
    else expect(written).toEqual(types);
    return done;
  }

  async #actAhead(index: number, acted: number): Promise<number> {
    let done = acted;
    while (done < this.#path.length && done > index) {
      const before = this.#path[done - 1]!.snapshot;
      const { move } = this.#path[done]!;
      if (before.value !== 'aborting' || move.type === 'settle' || move.type === 'abort timer') break;
      await this.outside.actInTime(move, before.context);
      done += 1;
    }
    return done;
  }

  /** Lets one commit through and moves the model by its inputs. */
  async #write(held: HeldAppend, move: Move | null): Promise<void> {
    await held.permit();
    for (const signal of inputsOf(held)) {
      const at = Date.parse(signal.timestamp);
      const event = { type: signal.name, at, payload: signal.payload } as unknown as InputEvent;
      const step = this.#at === null ? this.#stepper.begin({ at, created: signal.payload }) : this.#stepper.next(this.#at, event);
      this.#at = step.snapshot;
      // Work that was given up may still say so later; no edge takes it.
      if (move !== null && step.edges.length > 0) this.#ahead.push(event);
    }
  }

  async #compare(expected: SessionSnapshot): Promise<void> {
    const at = this.#at!;
    expect(abstractState(at), 'the model, moved by what the server wrote').toBe(abstractState(expected));
    const { client } = this.#world;
    const [session, machine] = await Promise.all([client.session.get(this.session), client.session.machine(this.session)]);
    const { context } = at;
    expect(session).toMatchObject({
      state: stateOf(expected.value),
      value: expected.value,
      queue: context.mailbox.map(({ promptId }) => promptId),
      turns: context.turns,
      endReason: expected.value === 'ended' ? context.endReason : null,
    });
    expect(session.queue).toHaveLength(expected.context.mailbox.length);
    expect(session.turn?.promptId ?? null).toBe(context.turn?.promptId ?? null);
    expect(machine).toMatchObject({ state: session.state, value: expected.value });
    expect(machine.active).toContain(`session.${leafOf(expected.value)}`);
    if (expected.value !== 'aborting') await this.outside.takeUp(context);
  }
}

function inputsOf(held: HeldAppend): readonly SealedSignal[] {
  return held.append.signals.filter(({ source }) => source.kind === 'input');
}

/** The word clients see: the state, or the phase of the turn. */
function stateOf(value: unknown): string {
  if (typeof value === 'string') return value;
  const phase = (value as { turn: string | Record<string, unknown> }).turn;
  return typeof phase === 'string' ? phase : Object.keys(phase)[0]!;
}

/** The whole log of a session, over HTTP. */
export async function readLog(world: World, session: string): Promise<Signal[]> {
  const items: Signal[] = [];
  for (let after: number | null = 0; after !== null; ) {
    const page: { items: Signal[]; next: number | null } = await world.client.session.events(session, { after, limit: PAGE_SIGNALS });
    items.push(...page.items);
    after = page.next;
  }
  return items;
}
