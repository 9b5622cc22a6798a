/** Starts Signet on a folder of its own, talks to a session, and streams what happened. Run: node examples/first-session.ts */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRuntime } from '../src/index.ts';

const path = mkdtempSync(join(tmpdir(), 'signet-example-'));
const { client, server } = await createRuntime({ path, port: 0, daemonPort: 0 });
try {
  const session = await client.session.create({ title: 'A first session' });
  const answer = await client.session.prompt(session.id, { content: 'remember I like green tea' });
  assert.deepEqual(
    answer.toolResults.map((result) => result.name),
    ['memory_store'],
  );

  let text = '';
  const names = new Set<string>();
  for await (const event of client.session.stream(session.id)) {
    names.add(event.name);
    text += event.content ?? '';
    if (event.name === 'turn:end') break;
  }
  assert.ok(text.includes(answer.content));
  assert.ok(names.has('tool:call') && names.has('tool:result') && names.has('session:tool-looping'));

  const { verified } = await client.session.verify(session.id);
  assert.equal(verified, true);
  process.stdout.write(`${text}\n`);
} finally {
  await server.close();
  rmSync(path, { recursive: true, force: true });
}
