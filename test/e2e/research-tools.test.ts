import { afterEach, beforeEach, expect, test } from 'vitest';
import { payloads, type Rig, readLog, startRig } from './rig.ts';

let rig: Rig;

beforeEach(async () => {
  rig = await startRig();
});
afterEach(() => rig.close());

test('a tool that runs before generation is given the prompt as its schema takes it', async () => {
  const inputSchema = { type: 'object', properties: { q: { type: 'string' } }, required: ['q'], additionalProperties: false };
  await rig.tool('scout', ({ q }) => `found ${q}`, { inputSchema, runBeforeGeneration: true });
  rig.model.script([{ text: 'I see.' }]);
  const { id } = await rig.client.session.create({});

  const answer = await rig.client.session.prompt(id, { content: 'tea' });

  expect(answer).not.toHaveProperty('researchFaults');
  const log = await readLog(rig.client, id);
  expect(payloads(log, 'tool:call')).toMatchObject([{ input: { q: 'tea' }, phase: 'research' }]);
  expect(payloads(log, 'tool:result')).toMatchObject([{ isError: false, output: 'found tea' }]);
  expect(payloads(log, 'research:end')).toMatchObject([{ tools: 1, failed: 0 }]);
});

test('one that wants more is refused at its registration, with what is missing', async () => {
  const inputSchema = { type: 'object', properties: { query: { type: 'string' }, city: { type: 'string' } }, required: ['query', 'city'] };
  const refused = rig.tool('scout', () => 'never', { inputSchema, runBeforeGeneration: true });
  await expect(refused).rejects.toMatchObject({ code: 'invalid_request', detail: expect.stringContaining('also requires city') });
});

test('one that fails is named in the turn: in its signal, its answer, and when it is asked for later', async () => {
  await rig.tool('scout', (_input, _request, response) => void response.writeHead(500).end('no map'), { runBeforeGeneration: true });
  rig.model.script([{ text: 'I see.' }]);
  const { id } = await rig.client.session.create({});

  const answer = await rig.client.session.prompt(id, { content: 'tea', promptId: 'p1' });

  const faults = [{ name: 'scout', code: 'tool_failed', message: expect.stringContaining('500') }];
  expect(answer).toMatchObject({ content: 'I see.', researchFaults: faults });
  expect((await rig.client.session.getPrompt(id, 'p1')).answer).toMatchObject({ researchFaults: faults });
  expect(payloads(await readLog(rig.client, id), 'research:end')).toMatchObject([{ failed: 1, faults }]);
});
