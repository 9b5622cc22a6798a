import { afterAll, beforeAll, expect } from 'vitest';
import { type Rig, readLog, startRig } from '../e2e/rig.ts';
import { call } from './calls.ts';
import { verifies } from './verifies.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig();
});
afterAll(() => rig.close());

const lastBody = () => rig.model.requests.at(-1)?.body as Record<string, unknown>;
const names = (tools: unknown) => (tools as { name: string }[]).map(({ name }) => name).sort();

verifies(['runtime.loop.provider', 'runtime.provider.default', 'runtime.turn.delivers'], async () => {
  const { id, provider } = await rig.client.session.create();
  rig.model.script([{ text: 'Good morning.' }]);
  expect((await rig.client.session.prompt(id, { content: 'hello' })).content).toBe('Good morning.');
  expect(provider).toBe('anthropic');
  expect(rig.model.requests.at(-1)?.wire).toBe('anthropic');
});

verifies(
  ['runtime.research.tools', 'runtime.context.tool-results', 'runtime.tool.run-before-generation', 'runtime.tool.definition'],
  'a tool that asks to run before the generation gets the prompt, and its result is in the first provider call',
  async () => {
    const seen: unknown[] = [];
    const inputSchema = { type: 'object', properties: { query: { type: 'string' } } };
    const early = { runBeforeGeneration: true, description: 'Looks at the sky.', inputSchema };
    await rig.tool(
      'weather',
      (input) => {
        seen.push(input);
        return 'Fog until noon.';
      },
      early,
    );
    const { id } = await rig.client.session.create();
    const before = rig.model.requests.length;
    await rig.client.session.prompt(id, { content: 'Shall we sail?' });
    await rig.client.tools.unregister('weather');

    expect(seen).toEqual([{ query: 'Shall we sail?' }]);
    expect(rig.model.requests.length).toBe(before + 1);
    expect(JSON.stringify(lastBody().messages)).toContain('Fog until noon.');
    const offered = (lastBody().tools as { name: string }[]).find(({ name }) => name === 'weather');
    expect(offered).toMatchObject({ name: 'weather', description: 'Looks at the sky.', input_schema: inputSchema });
    const log = (await readLog(rig.client, id)).map(({ name }) => name);
    expect(log.indexOf('tool:result')).toBeLessThan(log.indexOf('harness:start'));
  },
);

verifies(['runtime.tool.context.session-key', 'runtime.tool.context.project'], async () => {
  await rig.tool('witness', () => 'seen');
  const { id } = await rig.client.session.create({ sessionKey: 'agent:dot:main', project: '/work/boat' });
  rig.model.script([{ toolCalls: [{ id: 'w', name: 'witness', input: {} }] }]);
  await rig.client.session.prompt(id, { content: 'look' });
  await rig.client.tools.unregister('witness');
  expect(rig.tools.requests.at(-1)?.body).toMatchObject({ name: 'witness', sessionKey: 'agent:dot:main', project: '/work/boat' });
});

verifies(['runtime.tool.register', 'runtime.tool.unregister', 'runtime.tools.execute', 'runtime.tools.list'], async () => {
  const listed = async () => names((await call('GET', `${rig.runtimeUrl}/tools`)).body.tools);
  const execute = () => call('POST', `${rig.runtimeUrl}/tools/anchor`, { input: { depth: 4 } });
  const { id } = await rig.client.session.create();
  expect(await listed()).not.toContain('anchor');
  expect((await execute()).status).toBe(404);

  await rig.tool('anchor', ({ depth }) => `down to ${depth}`);
  expect(await listed()).toContain('anchor');
  expect((await execute()).body).toMatchObject({ name: 'anchor', output: 'down to 4', isError: false });
  await rig.client.session.prompt(id, { content: 'one' });
  expect(names(lastBody().tools)).toContain('anchor');

  await rig.client.tools.unregister('anchor');
  expect(await listed()).not.toContain('anchor');
  expect((await execute()).status).toBe(404);
  await rig.client.session.prompt(id, { content: 'two' });
  expect(names(lastBody().tools)).not.toContain('anchor');
});

verifies('runtime.tool.built-in', async () => {
  const builtIn = (await rig.client.tools.list()).tools.filter(({ origin }) => origin === 'builtin');
  expect(names(builtIn)).toEqual(['memory_forget', 'memory_get', 'memory_modify', 'memory_search', 'memory_store', 'spawn_session']);
});

verifies(
  ['runtime.channel.http', 'runtime.session.create', 'runtime.session.get', 'sdk.any-language', 'runtime.json'],
  'plain HTTP is enough for a whole conversation',
  async () => {
    const url = `${rig.runtimeUrl}/session`;
    const created = await call('POST', url, {});
    expect([created.status, created.body.id]).toEqual([201, expect.stringMatching(/^ses_/)]);
    const session = `${url}/${created.body.id}`;
    rig.model.script([{ text: 'Aye.' }]);
    const answers = [
      created,
      await call('POST', `${session}/prompt`, { content: 'Ready?' }),
      await call('GET', session),
      await call('GET', `${session}/messages`),
      await call('GET', `${rig.runtimeUrl}/providers`),
      await call('DELETE', session),
    ];
    expect(answers.map(({ headers }) => headers.get('content-type')?.split(';')[0])).toEqual(answers.map(() => 'application/json'));
    expect(answers[1]?.body).toMatchObject({ status: 'completed', content: 'Aye.' });
    expect(answers[2]?.body).toMatchObject({ id: created.body.id, state: 'idle', turns: 1 });
    expect(answers[3]?.body).toMatchObject([
      { role: 'user', content: 'Ready?' },
      { role: 'assistant', content: 'Aye.' },
    ]);
    expect(answers[5]?.body).toMatchObject({ state: 'ended' });
    const wrongType = await fetch(`${session}/prompt`, {
      method: 'POST',
      headers: { 'content-type': 'text/plain' },
      body: '{"content":"x"}',
    });
    expect(wrongType.status).toBe(415);
  },
);

verifies(['runtime.resume.checkpoint', 'runtime.session-start.resumed'], async () => {
  const first = await rig.client.session.create({ sessionKey: 'comes-back' });
  rig.model.script([{ text: 'The crate holds forty limes.' }]);
  await rig.client.session.prompt(first.id, { content: 'What is in the crate?' });
  await rig.client.session.end(first.id);

  const second = await rig.client.session.create({ sessionKey: 'comes-back' });
  await rig.client.session.prompt(second.id, { content: 'Go on.' });
  expect(JSON.stringify(lastBody().system)).toContain('The crate holds forty limes.');
  const stranger = await rig.client.session.create({ sessionKey: 'somebody-else' });
  await rig.client.session.prompt(stranger.id, { content: 'Go on.' });
  expect(JSON.stringify(lastBody().system)).not.toContain('limes');
});
