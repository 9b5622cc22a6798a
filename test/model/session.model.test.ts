import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { statechartGraph } from '../../machines/graph.ts';
import { sessionMachine } from '../../machines/session.machine.ts';
import type { Signal } from '../../src/contract/signal.ts';
import { edgeText, explainLog } from './log-check.ts';
import { mutants, withEdgeTo } from './mutants.ts';
import { describePath, edgePaths, type SessionStepper, sessionEdges, sessionStepper, walk } from './paths.ts';
import { Lane, Lanes, type Proof, seededRandom } from './proof.ts';

/** Servers that take paths at the same time. */
const LANES = 3;
/** Waiting for a lane counts as time of the test; unit: milliseconds. */
const PATH_TIMEOUT_MS = 300_000;

/** Edges no client can bring about, and why. */
const UNREACHABLE: Readonly<Record<string, string>> = {
  'session.ending#prompt:received#0':
    'prompts to a session that is ending are refused before they become a signal; the edge is a second lock',
};

const TO_MODEL = ['hook answers', 'prompt', 'hook answers', 'tool answers'];
const TO_SUMMARY = [...TO_MODEL, 'answer', 'compact', 'hook answers'];

/** Ways that no edge asks for, and that went wrong once or might. */
const FURTHER: Readonly<Record<string, { readonly types: readonly string[]; readonly stray?: true }>> = {
  'compacts a session that left memory': { types: [...TO_MODEL, 'answer', 'idle timer', 'compact', 'hook answers'] },
  'asks bypassed hooks all the same': { types: ['hook answers', 'bypass', 'prompt', 'hook answers', 'tool answers'] },
  'does not take a call that was given up for the next one': {
    types: [...TO_MODEL, 'abort', 'abort timer', ...TO_MODEL.slice(1)],
    stray: true,
  },
  'does not take a call that was given up for a summary': {
    types: [...TO_SUMMARY, 'abort', 'abort timer', 'compact', 'hook answers'],
    stray: true,
  },
  'does not take a hook that was given up for a saved summary': {
    types: [...TO_MODEL, 'answer', 'prompt', 'tool answers', 'abort', 'abort timer', 'compact', 'hook answers', 'answer'],
    stray: true,
  },
};
const further = Object.entries(FURTHER).map(([what, way]) => ({ what, ...way }));

/** Changes that change nothing, and why. */
const HARMLESS: Readonly<Record<string, string>> = {
  'session.turn.compacting.guidelines#hook:end#0 without keepGuidelines': 'the call of the summary takes the place of all that is pending',
  'session.turn.compacting.guidelines#hook:error#0 without keepGuidelines':
    'the call of the summary takes the place of all that is pending',
};

const seed = Number(process.env.MODEL_SEED ?? Date.now() % 1_000_000);
console.info(`session model: MODEL_SEED=${seed}`);
const random = seededRandom(seed);
const stepper = sessionStepper();
const paths = edgePaths(stepper);
const rows = [...paths].map(([edge, path]) => ({ edge, path, way: describePath(path) }));
const proofs = new Map<string, Proof>();
let lanes: Lanes;

beforeAll(async () => {
  lanes = await Lanes.open(LANES);
});
afterAll(() => lanes.close());

describe.concurrent('a running server', { timeout: PATH_TIMEOUT_MS }, () => {
  test.for(rows)('takes $edge: $way', async ({ edge, path }, context) => {
    const proof = await lanes.use((lane) => lane.prove(stepper, path, random));
    proofs.set(edge, proof);
    context.expect(proof.edges).toContain(edge);
  });

  test.for(further)('$what', async ({ what, types, stray = false }) => {
    proofs.set(what, await lanes.use((lane) => lane.prove(stepper, walk(stepper, types), random, { stray })));
  });
});

describe('all paths together', { timeout: PATH_TIMEOUT_MS }, () => {
  test('took every edge that a client can bring about', () => {
    const taken = new Set([...proofs.values()].flatMap(({ edges }) => edges));
    expect(sessionEdges().filter((edge) => !taken.has(edge))).toEqual(Object.keys(UNREACHABLE));
  });

  test('left every edge that moves a session in its session:transition signals', () => {
    const recorded = new Set([...proofs.values()].flatMap((proof) => proof.recorded));
    const moving = statechartGraph(sessionMachine).edges.filter(({ source, target }) => target[0] !== source);
    expect(moving.map(edgeText).filter((edge) => !recorded.has(edge))).toEqual([]);
  });

  test('leave sessions that answer the same after a restart and come to rest', async () => {
    const same = await Promise.all(lanes.all.map((lane) => lane.restart(stepper)));
    expect(same.reduce((sum, count) => sum + count, 0)).toBeGreaterThanOrEqual(proofs.size);
  });
});

describe('a wrong model', { timeout: PATH_TIMEOUT_MS }, () => {
  test('is found out by the server: an edge that leads elsewhere fails its path', async () => {
    const wrong = sessionStepper(withEdgeTo('session.turn.researching', 'hook:error', '#session.idle'));
    const path = edgePaths(wrong).get('session.turn.researching#hook:error#0')!;
    const lane = await Lane.open();
    try {
      await expect(lane.prove(wrong, path, random)).rejects.toThrow('move 3, "hook fails"');
    } finally {
      await lane.close();
    }
  });

  test.for(mutants().filter(({ change }) => !(change in HARMLESS)))('is found out by the logs: $change', ({ edge, machine }) => {
    const wrong = sessionStepper(machine);
    const logs = [...proofs.values()].filter(({ edges }) => edges.includes(edge)).map(({ log }) => log);
    expect(logs.some((log) => !explains(wrong, log))).toBe(true);
  });
});

function explains(model: SessionStepper, log: readonly Signal[]): boolean {
  try {
    explainLog(model, log);
    return true;
  } catch {
    return false; // Whatever differs: this log was not written by this machine.
  }
}
