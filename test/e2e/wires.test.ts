import { afterEach, describe, expect, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import type { Signal } from '../../src/contract/signal.ts';
import { verifies } from '../conformance/verifies.ts';
import type { Wire } from '../helpers/model-server/reply.ts';
import type { ModelRequest } from '../helpers/model-server/request.ts';
import { nextSignal, payloads, type Rig, readLog, startRig } from './rig.ts';

let rig: Rig;
afterEach(() => rig.close());

/** Two rounds of two parallel calls; the first call of each is the slower one. */
async function runTurn(wire: Wire) {
  rig = await startRig({ wire });
  let releaseSlow = (): void => undefined;
  await rig.tool('slow', ({ n }, _request, response) => {
    releaseSlow = () => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ output: `slow ${n}` }));
    return undefined;
  });
  await rig.tool('quick', ({ n }) => `quick ${n}`);
  await rig.daemon.call(daemonOperations.remember, {
    content: 'The deploy password of the kettle project lives in the teapot.',
    importance: 0.9,
    scope: 'global',
  });
  rig.model.script([
    {
      text: 'Looking. ',
      toolCalls: [
        { id: 'call_a', name: 'slow', input: { n: 1 } },
        { id: 'call_b', name: 'quick', input: { n: 1 } },
      ],
      usage: { inputTokens: 100, outputTokens: 10 },
    },
    {
      toolCalls: [
        { id: 'call_c', name: 'slow', input: { n: 2 } },
        { id: 'call_d', name: 'quick', input: { n: 2 } },
      ],
      usage: { inputTokens: 200, outputTokens: 20 },
    },
    { text: 'All four are done.', usage: { inputTokens: 300, outputTokens: 30 } },
  ]);
  const { id } = await rig.client.session.create({});
  // The slow one ends when the quick one's result is in the log, so results come in another order than calls.
  void nextSignal(rig.client, id, 'tool:result', (result) => result.id === 'call_b').then(() => releaseSlow());
  void nextSignal(rig.client, id, 'tool:result', (result) => result.id === 'call_d').then(() => releaseSlow());
  const answer = await rig.client.session.prompt(id, { content: 'Where does the deploy password of the kettle project live?' });
  return { id, answer, log: await readLog(rig.client, id), messages: await rig.client.session.messages(id) };
}

describe.for<Wire>(['anthropic', 'responses', 'chat'])('on the wire %s', (wire) => {
  verifies(
    [
      'runtime.loop.tools',
      'runtime.tool-loop.every-call',
      'runtime.tool-loop.results',
      'runtime.tool-loop.until-end',
      'runtime.turn.order',
      'runtime.research.before-model',
      'runtime.output.content',
      'runtime.output.tool-results',
      'runtime.session.messages',
      'runtime.session.prompt',
      'runtime.context.history',
    ],
    'a turn with two rounds of parallel calls is right in answer, transcript, requests and log',
    async () => {
      const { id, answer, log, messages } = await runTurn(wire);
      expect(rig.model.requests.map((request) => request.wire)).toEqual([wire, wire, wire]);
      expect(answer).toMatchObject({
        status: 'completed',
        content: 'All four are done.',
        stopReason: 'end_turn',
        usage: { inputTokens: 600, outputTokens: 60 },
      });
      expect(answer.toolResults.map(({ id: call, output, isError }) => [call, output, isError]).sort()).toEqual([
        ['call_a', 'slow 1', false],
        ['call_b', 'quick 1', false],
        ['call_c', 'slow 2', false],
        ['call_d', 'quick 2', false],
      ]);
      expect((await rig.client.session.get(id)).usage).toMatchObject({ inputTokens: 600, outputTokens: 60 });
      expect(messages.map(({ role, content, toolCalls }) => [role, toolCalls ? toolCalls.map((call) => call.id) : content])).toEqual([
        ['user', 'Where does the deploy password of the kettle project live?'],
        ['assistant', ['call_a', 'call_b']],
        ['tool', expect.any(String)],
        ['tool', expect.any(String)],
        ['assistant', ['call_c', 'call_d']],
        ['tool', expect.any(String)],
        ['tool', expect.any(String)],
        ['assistant', 'All four are done.'],
      ]);
      expect(messages[1]!.content).toBe('Looking. ');

      const [first, second, third] = rig.model.requests as unknown as [ModelRequest, ModelRequest, ModelRequest];
      expect(JSON.stringify(first.body)).toContain('lives in the teapot');
      expect(resultsIn(second, wire)).toEqual([
        ['call_a', 'slow 1'],
        ['call_b', 'quick 1'],
      ]);
      expect(resultsIn(third, wire)).toEqual([
        ['call_a', 'slow 1'],
        ['call_b', 'quick 1'],
        ['call_c', 'slow 2'],
        ['call_d', 'quick 2'],
      ]);
      checkLog(log);
    },
  );

  test('calls that a server numbers anew in every answer have ids of their own, and the model is sent them again', async () => {
    rig = await startRig({ wire });
    await rig.tool('quick', ({ n }) => `quick ${n}`);
    const round = (n: number) => ({ toolCalls: [{ id: 'call_0', name: 'quick', input: { n } }] });
    rig.model.script([round(1), round(2), { text: 'Both are done.' }, round(3), { text: 'That too.' }]);
    const { id } = await rig.client.session.create({});
    await rig.client.session.prompt(id, { content: 'Twice.' });
    await rig.client.session.prompt(id, { content: 'Once more.' });
    const results = [
      ['call_0', 'quick 1'],
      ['call_0_1', 'quick 2'],
      ['call_0_2', 'quick 3'],
    ];
    const last = rig.model.requests.at(-1) as unknown as ModelRequest;
    expect(resultsIn(last, wire)).toEqual(results);
    expect(callsIn(last, wire)).toEqual(results.map(([call]) => call));
  });
});

function callsIn({ body }: ModelRequest, wire: Wire): string[] {
  type Item = { type?: string; call_id: string; id: string; tool_calls?: { id: string }[]; content: unknown };
  if (wire === 'responses') return (body.input as Item[]).filter(({ type }) => type === 'function_call').map((item) => item.call_id);
  const messages = body.messages as Item[];
  if (wire === 'chat') return messages.flatMap((message) => message.tool_calls?.map((call) => call.id) ?? []);
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? (content as Item[]) : []));
  return parts.filter(({ type }) => type === 'tool_use').map((part) => part.id);
}

function resultsIn({ body }: ModelRequest, wire: Wire): [string, string][] {
  const text = (content: unknown): string =>
    typeof content === 'string' ? content : (content as { text: string }[]).map((part) => part.text).join('');
  if (wire === 'responses') {
    const items = (body.input as { type?: string; call_id: string; output: unknown }[]).filter(
      (item) => item.type === 'function_call_output',
    );
    return items.map((item) => [item.call_id, text(item.output)]);
  }
  const messages = body.messages as { role: string; tool_call_id: string; content: unknown }[];
  if (wire === 'chat')
    return messages.filter(({ role }) => role === 'tool').map((message) => [message.tool_call_id, text(message.content)]);
  const parts = messages.flatMap(({ content }) =>
    Array.isArray(content) ? (content as { type: string; tool_use_id: string; content: unknown }[]) : [],
  );
  return parts.filter(({ type }) => type === 'tool_result').map((part) => [part.tool_use_id, text(part.content)]);
}

function checkLog(log: readonly Signal[]): void {
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
  const prompt = log.find(({ name }) => name === 'prompt:received')!;
  const turn = log.slice(log.indexOf(prompt)).map(({ name }) => name);
  const ofInterest = turn.filter((name) =>
    /^(prompt|turn|research|harness|tool|text):|^session:(researching|generating|tool-looping|idle)/.test(name),
  );
  const round = ['tool:call', 'tool:call', 'tool:result', 'tool:result', 'session:generating', 'harness:start'];
  expect(ofInterest).toEqual([
    ...['prompt:received', 'turn:start', 'session:researching', 'research:start', 'research:end', 'session:generating', 'harness:start'],
    ...['text:complete', 'harness:end', 'session:tool-looping', ...round],
    ...['harness:end', 'session:tool-looping', ...round],
    ...['text:complete', 'harness:end', 'turn:end', 'session:idle'],
  ]);
  const byId = new Map(log.map((signal) => [signal.id, signal]));
  for (const signal of log) {
    const { parent, root, depth } = signal.source;
    if (parent === undefined) expect([signal.name, root, depth]).toEqual([signal.name, signal.id, 0]);
    else {
      expect(byId.get(parent)!.seq).toBeLessThan(signal.seq);
      expect([root, depth]).toEqual([byId.get(parent)!.source.root, byId.get(parent)!.source.depth + 1]);
    }
  }
  // Everything a turn does stands in the tree of its prompt.
  for (const signal of log.slice(log.indexOf(prompt))) expect([signal.name, signal.source.root]).toEqual([signal.name, prompt.id]);
  for (const result of log.filter(({ name }) => name === 'tool:result')) {
    const call = byId.get(result.source.parent!)!;
    expect([call.name, call.payload.key]).toEqual(['tool:call', result.payload.key]);
  }
  for (const end of log.filter(({ name }) => name === 'harness:end'))
    expect(byId.get(end.source.parent!)!.payload.key).toBe(end.payload.key);
  expect(payloads(log, 'turn:end')).toMatchObject([{ rounds: 3, toolCalls: 4, usage: { inputTokens: 600, outputTokens: 60 } }]);
  expect(payloads(log, 'tool:result').map(({ id }) => id)).toEqual(['call_b', 'call_a', 'call_d', 'call_c']);
}
