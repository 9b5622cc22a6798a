/** Two agents that react to signals: one analyses, the other reviews what it hears. Run: node examples/workflow.ts */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRuntime } from '../src/index.ts';

const path = mkdtempSync(join(tmpdir(), 'signet-example-'));
const { client, server } = await createRuntime({ path, port: 0, daemonPort: 0 });
try {
  const { id } = await client.workflow.start({
    name: 'review',
    input: { topic: 'green tea' },
    agents: [
      {
        name: 'analyzer',
        activateOn: ['workflow:start'],
        prompt: 'Analyse {{ input.topic }}.',
        emits: ['analysis:complete'],
        updates: 'analysis',
      },
      {
        name: 'reviewer',
        activateOn: ['analysis:complete'],
        when: 'state.analysis != null',
        prompt: 'Review this: {{ signal.payload.output }}',
        updates: 'review',
      },
    ],
    state: { analysis: null, review: null },
    endWhen: 'state.review != null',
  });

  const names: string[] = [];
  for await (const event of client.workflow.stream(id)) {
    if (event.seq === undefined) continue;
    names.push(event.name);
    process.stdout.write(`${event.seq} ${event.name}\n`);
  }
  assert.deepEqual(
    names.filter((name) => name.startsWith('agent:')),
    ['agent:activated', 'agent:completed', 'agent:activated', 'agent:completed'],
  );
  assert.equal(names.at(-1), 'workflow:end');

  const { reason, state, live } = await client.workflow.get(id);
  assert.equal(reason, 'end-when');
  assert.ok(String(state.review).length > 0);
  assert.deepEqual(live, []);
} finally {
  await server.close();
  rmSync(path, { recursive: true, force: true });
}
