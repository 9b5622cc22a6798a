import { afterEach, describe, expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { payloads, type Rig, readLog, startRig } from './rig.ts';

/** One transparent pixel. */
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

let rig: Rig;
afterEach(() => rig.close());

const SCHEMA = { type: 'object', properties: { cups: { type: 'integer' } }, required: ['cups'], additionalProperties: false };

describe('structured output', () => {
  test('is parsed when it fits the schema, which the provider is given', async () => {
    rig = await startRig();
    rig.model.script([{ text: '{"cups": 3}' }]);
    const { id } = await rig.client.session.create({});
    const answer = await rig.client.session.prompt(id, { content: 'How many cups?', output: { schema: SCHEMA } });
    expect(answer).toMatchObject({ status: 'completed', output: { cups: 3 } });
    expect(JSON.stringify(rig.model.requests[0]!.body)).toContain('"cups"');
  });

  test.each(['{"cups": "three"}', 'three cups'])('that does not fit fails the turn as output_invalid: %s', async (text) => {
    rig = await startRig();
    rig.model.script([{ text }, { text: 'on with it' }]);
    const { id } = await rig.client.session.create({});
    const prompt = rig.client.session.prompt(id, { content: 'How many cups?', output: { schema: SCHEMA } });
    await expect(prompt).rejects.toMatchObject({ code: 'output_invalid', status: 502 });
    expect(await rig.client.session.prompt(id, { content: 'Go on.' })).toMatchObject({ status: 'completed', content: 'on with it' });
  });
});

verifies(
  ['runtime.turn.attachments', 'runtime.turn.content', 'runtime.turn.metadata'],
  'attachments reach the model, and the transcript tells of them without their bytes',
  async () => {
    rig = await startRig();
    const { id } = await rig.client.session.create({});
    await rig.client.session.prompt(id, {
      content: 'What is this?',
      metadata: { from: 'a test' },
      attachments: [
        { type: 'image', mediaType: 'image/png', name: 'dot.png', data: PIXEL },
        { type: 'text', name: 'notes.txt', text: 'It is a dot.' },
      ],
    });
    const [message] = rig.model.requests[0]!.body.messages as { content: { type: string; text?: string; source?: unknown }[] }[];
    expect(message!.content.find(({ type }) => type === 'image')?.source).toMatchObject({ media_type: 'image/png', data: PIXEL });
    expect(JSON.stringify(message)).toContain('notes.txt:\\nIt is a dot.');
    const [shown] = await rig.client.session.messages(id);
    expect(shown!.attachments).toEqual([
      { type: 'image', name: 'dot.png', mediaType: 'image/png', bytes: 70 },
      { type: 'text', name: 'notes.txt', bytes: 12 },
    ]);
    expect(payloads(await readLog(rig.client, id), 'prompt:received')).toMatchObject([{ metadata: { from: 'a test' } }]);
  },
);

test('thinking is streamed, kept in the log and the transcript, and given back to the model with its signature', async () => {
  rig = await startRig({ yaml: 'runtime: { thinkingTokens: 2048 }\n' });
  await rig.tool('look', () => 'found');
  rig.model.script([
    { thinking: 'Better look first.', signature: 'sig-1', toolCalls: [{ id: 'c1', name: 'look', input: {} }] },
    { thinking: 'Now I know.', text: 'Found it.' },
  ]);
  const { id } = await rig.client.session.create({ model: 'claude-haiku-4-5' });
  const prompt = rig.client.session.prompt(id, { content: 'Where is it?' });
  const thoughts: string[] = [];
  for await (const event of rig.client.session.stream(id)) {
    if (event.name === 'thinking:delta') thoughts.push(String(event.payload.content));
    if (event.name === 'turn:end') break;
  }
  expect((await prompt).content).toBe('Found it.');
  expect(thoughts.join('|')).toBe('Better look first.|Now I know.');
  const log = await readLog(rig.client, id);
  expect(payloads(log, 'thinking:complete').map(({ content }) => content)).toEqual(['Better look first.', 'Now I know.']);
  expect(JSON.stringify(rig.model.requests[1]!.body.messages)).toContain('"signature":"sig-1"');
  expect((await rig.client.session.messages(id)).at(-1)).toMatchObject({ content: 'Found it.', thinking: 'Now I know.' });
});

test('a prompt may name another model for its turn alone; a session keeps the one it is given', async () => {
  rig = await startRig();
  const { id } = await rig.client.session.create({ model: 'claude-haiku-4-5' });
  await rig.client.session.prompt(id, { content: 'One.' });
  await rig.client.session.prompt(id, { content: 'Two.', model: 'claude-opus-5' });
  await rig.client.session.prompt(id, { content: 'Three.' });
  await rig.client.session.update(id, { model: 'claude-sonnet-5' });
  await rig.client.session.prompt(id, { content: 'Four.' });
  expect(rig.model.requests.map(({ model }) => model)).toEqual([
    'claude-haiku-4-5',
    'claude-opus-5',
    'claude-haiku-4-5',
    'claude-sonnet-5',
  ]);
});

describe('tools', () => {
  test('a session is offered the tools it names and no other', async () => {
    rig = await startRig();
    await rig.tool('look', () => 'found');
    const { id } = await rig.client.session.create({ tools: ['look', 'memory_search'] });
    await rig.client.session.prompt(id, { content: 'Go.' });
    const offered = rig.model.requests[0]!.body.tools as { name: string }[];
    expect(offered.map(({ name }) => name)).toEqual(['look', 'memory_search']);
  });

  test('what it was not offered a model does not get by asking for it all the same', async () => {
    rig = await startRig();
    let calls = 0;
    await rig.tool('open_door', () => {
      calls += 1;
      return 'open';
    });
    const { id } = await rig.client.session.create({ tools: ['memory_search'] });
    rig.model.script([{ toolCalls: [{ id: 'c1', name: 'open_door', input: {} }] }, { text: 'It stays closed.' }]);
    const { content, toolResults } = await rig.client.session.prompt(id, { content: 'Open the door.' });
    expect(toolResults).toMatchObject([
      { isError: true, output: expect.stringContaining('open_door is not among the tools of this session') },
    ]);
    expect({ content, calls }).toEqual({ content: 'It stays closed.', calls: 0 });
  });

  verifies(
    ['runtime.tool.unknown', 'runtime.tool.input-validated', 'runtime.tool.dispatch'],
    'an unknown tool, input that does not fit, a tool that is late and one that fails are results for the model',
    async () => {
      rig = await startRig();
      const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
      await rig.tool('count', ({ n }) => `counted ${n}`, { inputSchema: schema });
      await rig.tool('late', () => undefined, { timeoutMs: 50 });
      await rig.tool('broken', (_input, _request, response) => void response.writeHead(500).end('{"error":"it is broken"}'));
      rig.model.script([
        {
          toolCalls: [
            { id: 'c1', name: 'cuont', input: { n: 1 } },
            { id: 'c2', name: 'count', input: { n: 'one' } },
            { id: 'c3', name: 'late', input: {} },
            { id: 'c4', name: 'broken', input: {} },
            { id: 'c5', name: 'count', input: { n: 5 } },
          ],
        },
        { text: 'I see.' },
      ]);
      const { id } = await rig.client.session.create({});
      const answer = await rig.client.session.prompt(id, { content: 'Count.' });
      expect(answer.content).toBe('I see.');
      const byCall = new Map(payloads(await readLog(rig.client, id), 'tool:result').map((result) => [result.id, result]));
      expect(byCall.get('c1')).toMatchObject({ isError: true, error: { code: 'tool_not_found' } });
      expect(String(byCall.get('c1')!.output)).toContain('near it: count');
      expect(byCall.get('c2')).toMatchObject({ isError: true, error: { code: 'invalid_request' } });
      expect(String(byCall.get('c2')!.output)).toContain('/n');
      expect(byCall.get('c3')).toMatchObject({ isError: true, error: { code: 'timeout' } });
      expect(byCall.get('c4')).toMatchObject({ isError: true, error: { code: 'tool_failed' } });
      expect(byCall.get('c5')).toMatchObject({ isError: false, output: 'counted 5' });
      // What does not fit never reached the tool.
      expect(rig.tools.requests.filter(({ body }) => body.name === 'count').map(({ body }) => body.input)).toEqual([{ n: 5 }]);
      const results = (rig.model.requests[1]!.body.messages as { content: { tool_use_id: string; is_error?: boolean }[] }[]).at(
        -1,
      )!.content;
      expect(results.map((part) => [part.tool_use_id, part.is_error ?? false])).toEqual([
        ['c1', true],
        ['c2', true],
        ['c3', true],
        ['c4', true],
        ['c5', false],
      ]);
    },
  );

  test('output beyond the cap is cut, says so, and its true size is told', async () => {
    rig = await startRig({ yaml: 'runtime: { limits: { toolOutputBytesMax: 1000 } }\n' });
    await rig.tool('flood', () => 'x'.repeat(50_000));
    rig.model.script([{ toolCalls: [{ id: 'c1', name: 'flood', input: {} }] }, { text: 'Too much.' }]);
    const { id } = await rig.client.session.create({});
    await rig.client.session.prompt(id, { content: 'Flood.' });
    const [result] = payloads(await readLog(rig.client, id), 'tool:result');
    expect(result).toMatchObject({ truncated: true, bytes: 50_000, isError: false });
    expect(String(result!.output).length).toBeLessThan(1_200);
    expect(JSON.stringify(rig.model.requests[1]!.body).length).toBeLessThan(20_000);
  });

  test('a turn that never stops calling ends at the limit of rounds', async () => {
    rig = await startRig({ yaml: 'runtime: { limits: { roundsMax: 3 } }\n' });
    await rig.tool('again', () => 'again');
    rig.model.respond(() => ({ toolCalls: [{ name: 'again', input: {} }] }));
    const { id } = await rig.client.session.create({});
    expect(await rig.client.session.prompt(id, { content: 'Go.' })).toMatchObject({ status: 'completed', stopReason: 'max_rounds' });
    expect(rig.model.requests.length).toBe(3);
    expect(await rig.client.session.get(id)).toMatchObject({ state: 'idle' });
  });
});
