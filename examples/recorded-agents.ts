/** Two agents that react to signals, recorded once and replayed without a model. Run: node examples/recorded-agents.ts */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createWorkflow, Player } from '../src/index.ts';

const { agent, runReactive } = createWorkflow<{ analysis: unknown; review: unknown }>();

const agents = {
  analyzer: agent({
    prompt: 'Analyse {{ input }}',
    activateOn: ['workflow:start'],
    emits: ['analysis:complete'],
    updates: 'analysis',
  }),
  reviewer: agent({
    prompt: 'Review {{ state.analysis }}',
    activateOn: ['analysis:complete'],
    when: ({ state }) => state.review === null,
    output: { type: 'object', properties: { approved: { type: 'boolean' } }, required: ['approved'] },
    updates: 'review',
  }),
};

const folder = mkdtempSync(join(tmpdir(), 'signet-example-'));
const path = join(folder, 'review.jsonl');
const run = (mode: 'record' | 'replay') =>
  runReactive({ agents, state: { analysis: null, review: null }, input: 'the build', recording: { path, mode } });
try {
  const live = await run('record');
  const replayed = await run('replay');
  assert.deepEqual(replayed.state, live.state);
  assert.deepEqual(
    replayed.signals.map(({ id, name }) => [id, name]),
    live.signals.map(({ id, name }) => [id, name]),
  );

  const player = new Player(replayed.signals);
  const activations = player.findAll('agent:activated').map(({ payload }) => payload.agent);
  assert.deepEqual(activations, ['analyzer', 'reviewer']);
  player.gotoNext('state:analysis:changed');
  assert.equal(player.state.workflow?.review, null);
  process.stdout.write(`${live.signals.length} signals, the same in the replay; ${live.provider.id} answered once\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
