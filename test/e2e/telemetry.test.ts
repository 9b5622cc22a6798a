import { afterEach, expect, onTestFinished, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { type CollectedSpan, type OtlpCollector, spansOf, startOtlpCollector } from '../helpers/otlp-collector.ts';
import { startSignet } from '../helpers/signet.ts';
import { type Rig, startRig } from './rig.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

let rig: Rig;
let stopped: Promise<void> | null = Promise.resolve();
afterEach(() => stop());

async function run(options: Parameters<typeof startRig>[0]): Promise<void> {
  stopped = null;
  rig = await startRig({ wire: 'chat', ...options });
}

function stop(): Promise<void> {
  stopped ??= rig.close();
  return stopped;
}

async function collecting(answer?: number | null): Promise<OtlpCollector> {
  const collector = await startOtlpCollector(answer);
  onTestFinished(() => collector.close());
  return collector;
}

async function toolTurn(traceparent?: string): Promise<string> {
  await rig.tool('shell', () => 'the secret output');
  const { id } = await rig.client.session.create({});
  rig.model.script([{ toolCalls: [{ id: 'c0', name: 'shell', input: { command: 'ls' } }] }, { text: 'Two files.' }]);
  const headers = { 'content-type': 'application/json', ...(traceparent ? { traceparent } : {}) };
  const answer = await fetch(`${rig.client.baseUrl}/session/${id}/prompt`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ content: 'What is the secret question?' }),
  });
  expect(answer.status).toBe(200);
  return id;
}

test('a turn becomes a trace: model calls, tool calls and hooks with the names and attributes of the GenAI conventions', async () => {
  const collector = await collecting();
  await run({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SERVICE_NAME: 'my-signet' } });
  const id = await toolTurn(`00-${TRACE}-${PARENT}-01`);

  const turn = await collector.until(({ name }) => name === 'invoke_agent default');
  expect(collector.requests[0]).toBe('POST /v1/traces application/json');
  expect(turn).toMatchObject({ traceId: TRACE, parentSpanId: PARENT, resource: { 'service.name': 'my-signet' } });
  expect(turn.attributes).toMatchObject({
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.agent.name': 'default',
    'gen_ai.conversation.id': id,
    'gen_ai.usage.input_tokens': expect.any(Number),
    'gen_ai.usage.output_tokens': expect.any(Number),
    'signet.rounds': 2,
    'signet.tool_calls': 1,
  });
  const inTurn = collector.spans.filter((span) => span.attributes['signet.turn'] === 1 && span !== turn);
  expect(inTurn.map(({ name }) => name).sort()).toEqual([
    'chat scripted',
    'chat scripted',
    'execute_tool shell',
    'hook user-prompt-submit',
  ]);
  for (const span of inTurn) {
    expect(span).toMatchObject({ traceId: TRACE, parentSpanId: turn.spanId });
    expect(span.startNs >= turn.startNs && span.endNs <= turn.endNs && span.endNs >= span.startNs).toBe(true);
  }
  const chat = inTurn.find(({ name }) => name === 'chat scripted')!;
  expect(chat.kind).toBe(3);
  expect(chat.attributes).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'openai-compatible',
    'gen_ai.request.model': 'scripted',
    'gen_ai.response.finish_reasons': ['tool_use'],
    'gen_ai.usage.input_tokens': expect.any(Number),
  });
  expect(inTurn.find(({ name }) => name.startsWith('execute_tool'))!.attributes).toMatchObject({
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'shell',
    'gen_ai.tool.call.id': 'c0',
  });
  expect(JSON.stringify(collector.spans.map(({ attributes }) => attributes))).not.toMatch(/secret|command/);
  expect(new Set(collector.spans.map(({ spanId }) => spanId)).size).toBe(collector.spans.length);
});

test('signet trace --format otlp gives the same spans from the log, and content only where it was asked for', async () => {
  const collector = await collecting();
  await run({ yaml: `telemetry: { otlpEndpoint: "${collector.url}", content: true }\n` });
  const id = await toolTurn();
  await rig.client.session.end(id);
  await collector.until(({ name }) => name === 'hook session-end');

  const cli = captureCli({ runtimeUrl: rig.client.baseUrl, folder: rig.folder });
  expect(await runCli(cli.context, ['trace', id, '--format', 'otlp'])).toBe(0);
  const shown = (spans: readonly CollectedSpan[]) =>
    spans.map(({ traceId, spanId, parentSpanId, name, startNs, endNs }) => ({ traceId, spanId, parentSpanId, name, startNs, endNs }));
  expect(shown(spansOf(JSON.parse(cli.out())))).toEqual(shown(collector.spans));
  expect(cli.out()).not.toContain('secret');
  const tool = collector.spans.find(({ name }) => name === 'execute_tool shell')!;
  expect(tool.attributes).toMatchObject({
    'gen_ai.tool.call.arguments': '{"command":"ls"}',
    'gen_ai.tool.call.result': 'the secret output',
  });
  expect(String(collector.spans.find(({ name }) => name === 'invoke_agent default')!.attributes['gen_ai.input.messages'])).toContain(
    'the secret question',
  );
});

test('failures are told by their code, and what waits is sent when the process stops', async () => {
  const collector = await collecting();
  await run({
    env: { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/somewhere/else` },
    yaml: 'runtime: { limits: { attemptsMax: 1 } }\n',
  });
  const { id } = await rig.client.session.create({});
  rig.model.script([{ fault: { kind: 'status', status: 400 } }]);
  await expect(rig.client.session.prompt(id, { content: 'Hello?' })).rejects.toMatchObject({ code: 'provider_refused' });
  await stop();

  expect(collector.requests[0]).toBe('POST /somewhere/else application/json');
  for (const name of ['chat scripted', 'invoke_agent default']) {
    const span = collector.spans.find((candidate) => candidate.name === name)!;
    expect(span).toMatchObject({ status: { code: 2 }, attributes: { 'error.type': 'provider_refused' } });
  }
});

test('a caller who does not sample gets no spans', async () => {
  const collector = await collecting();
  await run({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
  const id = await toolTurn(`00-${TRACE}-${PARENT}-00`);
  await rig.client.session.prompt(id, { content: 'And now?' });
  await collector.until(({ attributes }) => attributes['signet.turn'] === 2);
  expect(collector.spans.filter(({ traceId }) => traceId === TRACE)).toEqual([]);
  expect(collector.spans.filter(({ attributes }) => attributes['signet.turn'] === 1)).toEqual([]);
});

test.each([
  ['refuses', 503],
  ['never answers', null],
])('a collector that %s disturbs nobody, and the process still stops', async (_what, answer) => {
  const collector = await collecting(answer);
  await run({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
  const id = await toolTurn();
  await expect.poll(() => collector.requests.length, { timeout: 10_000 }).toBeGreaterThan(0);
  expect((await rig.client.session.prompt(id, { content: 'And now?' })).stopReason).toBe('end_turn');
  expect(await rig.client.session.verify(id)).toMatchObject({ verified: true });
  await stop();
});

test('an endpoint that is no address is told at the start', async () => {
  await expect(startSignet({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' } })).rejects.toMatchObject({
    code: 'config_invalid',
    detail: expect.stringContaining('OTEL_EXPORTER_OTLP_ENDPOINT'),
  });
});
