/** A tool of your own behind a URL. Run: node examples/own-tool.ts */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRuntime } from '../src/index.ts';

// The tool: one POST a call, {name, input, callKey, ...} in, {output} out.
const lamp = createServer((request, response) => {
  let body = '';
  request.on('data', (chunk) => (body += chunk));
  request.on('end', () => {
    const { input } = JSON.parse(body) as { input: { on: boolean } };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ output: `the lamp is ${input.on ? 'on' : 'off'}` }));
  });
});
await new Promise<void>((resolve) => lamp.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${(lamp.address() as AddressInfo).port}/lamp`;

const path = mkdtempSync(join(tmpdir(), 'signet-example-'));
const { client, server } = await createRuntime({ path, port: 0, daemonPort: 0 });
try {
  await client.tools.register({
    name: 'lamp',
    description: 'Switch the lamp on or off',
    inputSchema: { type: 'object', properties: { on: { type: 'boolean' } }, required: ['on'], additionalProperties: false },
    class: 'idempotent',
    callback: { url },
  });
  const result = await client.tools.call('lamp', { on: true });
  assert.deepEqual([result.isError, result.output], [false, 'the lamp is on']);

  const refused = await client.tools.call('lamp', { on: 'very' });
  assert.equal(refused.isError, true);
  process.stdout.write(`${result.output}; a wrong input is a result, too: ${refused.error?.message}\n`);
} finally {
  await server.close();
  lamp.close();
  rmSync(path, { recursive: true, force: true });
}
