import { hash } from 'node:crypto';
import { expect } from 'vitest';
import type { InputEvent, OutputEvent } from '../../machines/session-context.ts';
import type { PayloadOf } from '../../src/contract/catalog.ts';
import type { Signal } from '../../src/contract/signal.ts';
import type { EdgeStep } from './edge-stepper.ts';
import { leafOf, type SessionSnapshot } from './moves.ts';
import type { SessionStepper } from './paths.ts';

/** What the machine says of a log: where it stands at its end, and all edges it took on the way. */
export interface Explained {
  readonly snapshot: SessionSnapshot;
  /** Ids of the edges taken, in order. */
  readonly edges: readonly string[];
  /** `source event target` of the edges that stand in `session:transition` signals. */
  readonly recorded: readonly string[];
}

/**
 * Reads a log with a machine: after each input the log must hold exactly what the machine says to it, the edges it takes included.
 *
 * @throws when the log holds something else: the machine is not the one that wrote it
 */
export function explainLog(stepper: SessionStepper, log: readonly Signal[]): Explained {
  const edges: string[] = [];
  const recorded: string[] = [];
  let snapshot: SessionSnapshot | null = null;
  for (let index = 0; index < log.length; index += 1) {
    const signal = log[index]!;
    if (signal.source.kind !== 'input') continue;
    const at = Date.parse(signal.timestamp);
    const step: EdgeStep<SessionSnapshot, OutputEvent> =
      snapshot === null
        ? stepper.begin({ at, created: signal.payload })
        : stepper.next(snapshot, { type: signal.name, at, payload: signal.payload } as unknown as InputEvent);
    const from: string = snapshot === null ? '' : leafOf(snapshot.value);
    snapshot = step.snapshot;
    edges.push(...step.edges);
    const next = log.findIndex((later, position) => position > index && later.source.kind === 'input');
    const said = log.slice(index + 1, next < 0 ? log.length : next).filter(({ name }) => !FACTS.has(name));
    const transition = said.find(({ name }) => name === 'session:transition');
    expectSaid(signal, said, step.said);
    expectTransition({
      signal,
      transition,
      from,
      snapshot,
      steps: step.steps,
      ignored: said.some(({ name }) => name === 'session:ignored'),
    });
    if (transition) recorded.push(...(transition.payload as unknown as PayloadOf<'session:transition'>).steps.map(edgeText));
  }
  return { snapshot: snapshot!, edges, recorded };
}

/** Facts that no machine says. */
const FACTS: ReadonlySet<string> = new Set([
  'session:owned',
  'session:resumed',
  'supervisor:child:started',
  'session:quarantined',
  'supervisor:child:restarted',
]);
const MADE_BY_RUNTIME: ReadonlySet<string> = new Set(['session:transition', 'session:ignored']);

export function edgeText({ source, target, event }: { source: string; target: readonly string[]; event: string }): string {
  return `${source} --${event || 'always'}--> ${target.join(' ')}`;
}

function expectSaid(signal: Signal, said: readonly Signal[], expected: readonly OutputEvent[]): void {
  const names = said.map(({ name }) => name).filter((name) => !MADE_BY_RUNTIME.has(name));
  expect(names, `what ${signal.name} (seq ${signal.seq}) caused`).toEqual(expected.map(({ type }) => type));
}

function expectTransition(of: {
  signal: Signal;
  transition: Signal | undefined;
  from: string;
  snapshot: SessionSnapshot;
  steps: readonly { source: string; target: readonly string[]; event: string }[];
  ignored: boolean;
}): void {
  const { signal, transition, from, snapshot, steps, ignored } = of;
  const moved = from === '' || steps.some(({ source, target }) => target[0] !== source);
  expect(ignored, `${signal.name} (seq ${signal.seq}) is ignored`).toBe(steps.length === 0 && from !== '');
  expect(transition !== undefined, `${signal.name} (seq ${signal.seq}) moves the session`).toBe(moved);
  if (!transition) return;
  const payload = transition.payload as unknown as PayloadOf<'session:transition'>;
  expect(payload.steps.map(edgeText), `edges taken for ${signal.name} (seq ${signal.seq})`).toEqual(steps.map(edgeText));
  expect(payload.value).toEqual(snapshot.value);
  const digest = hash('sha256', JSON.stringify([snapshot.value, snapshot.context]), 'base64url');
  expect(payload.state, `digest of the state after ${signal.name} (seq ${signal.seq})`).toBe(digest);
}

/** Numbers without gaps, parents that exist and came before, and at most one end of each prompt. */
export function expectSoundLog(log: readonly Signal[]): void {
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
  const ids = new Set<string>();
  for (const { id, name, source } of log) {
    if (source.parent !== undefined) expect(ids, `parent of ${name} ${id}`).toContain(source.parent);
    ids.add(id);
  }
  for (const [promptId, ends] of promptEnds(log))
    expect(ends.length, `ends of prompt ${promptId}: ${ends.join(', ')}`).toBeLessThanOrEqual(1);
}

export function expectAllPromptsEnded(log: readonly Signal[]): void {
  for (const [promptId, ends] of promptEnds(log)) expect(ends, `ends of prompt ${promptId}`).toHaveLength(1);
}

/** Signals that ended each prompt. */
export function promptEnds(log: readonly Signal[]): Map<string, string[]> {
  const ends = new Map<string, string[]>();
  for (const { name, payload } of log) {
    const { promptId, promptIds, stopReason, reason } = payload as {
      promptId: string;
      promptIds: string[];
      stopReason: string;
      reason: string;
    };
    if (name === 'prompt:received') ends.set(promptId, []);
    if (name === 'turn:rejected') ends.get(promptId)?.push(`rejected ${reason}`);
    if (name === 'prompt:cancelled') ends.get(promptId)?.push('cancelled');
    if (name === 'turn:end') for (const id of promptIds) ends.get(id)?.push(`ended ${stopReason}`);
  }
  return ends;
}
