/** A model server as a process of its own: `node test/helpers/model-server/main.ts --port 0 --tokens 50 --delay-ms 5`. */
import { parseArgs } from 'node:util';
import { startModelServer } from './server.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    tokens: { type: 'string', default: '50' },
    'delay-ms': { type: 'string' },
    /** A tool that is called once before each answer. */
    call: { type: 'string' },
  },
});

const tokens = Number(values.tokens);
const text = Array.from({ length: tokens }, (_, index) => `token${index}`).join(' ');
const server = await startModelServer({
  port: Number(values.port),
  record: false,
  reply: {
    text,
    usage: { inputTokens: 10, outputTokens: tokens },
    ...(values['delay-ms'] === undefined ? {} : { delayMs: Number(values['delay-ms']) }),
  },
});
const { call } = values;
if (call !== undefined) {
  server.respond(({ body }) => {
    const last = JSON.stringify((body.messages as unknown[]).at(-1));
    return last.includes('tool_result') ? undefined : { toolCalls: [{ name: call, input: { query: 'tea' } }] };
  });
}
process.stdout.write(`${server.url}\n`);

for (const name of ['SIGTERM', 'SIGINT'] as const) {
  process.once(name, () => void server.close());
}
