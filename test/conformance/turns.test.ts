import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { createRuntimeClient } from '../../src/client/runtime-client.ts';
import { start } from '../../src/compose.ts';
import { resolveSettings } from '../../src/config.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { Provider } from '../../src/core/provider.ts';
import { type Rig, readLog, startRig } from '../e2e/rig.ts';
import { createPlannedProvider } from '../helpers/planned-provider.ts';
import { startSignet } from '../helpers/signet.ts';
import { call } from './calls.ts';
import { verifies } from './verifies.ts';

let rig: Rig;
beforeAll(async () => {
  rig = await startRig();
});
afterAll(() => rig.close());

const lastBody = () => rig.model.requests.at(-1)?.body as Record<string, unknown>;
const names = (tools: unknown) => (tools as { name: string }[]).map(({ name }) => name).sort();

verifies(['runtime.loop.provider', 'runtime.turn.delivers'], async () => {
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

verifies('runtime.tool.context.daemon-url', async () => {
  await rig.tool('witness', () => 'seen');
  const { id } = await rig.client.session.create();
  rig.model.script([{ toolCalls: [{ id: 'd', name: 'witness', input: {} }] }]);
  await rig.client.session.prompt(id, { content: 'look' });
  await rig.client.tools.unregister('witness');
  const { daemonUrl } = rig.tools.requests.at(-1)!.body as { daemonUrl: string };
  // No other address of the daemon is told, and this one answers.
  expect((await call('POST', `${daemonUrl}/api/memory/remember`, { content: 'told by a tool' })).status).toBe(200);
  expect((await call('POST', `${rig.daemonUrl}/api/memory/recall`, { query: 'told by a tool' })).body.count).toBe(1);
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
  const memory = ['memory_forget', 'memory_get', 'memory_modify', 'memory_search', 'memory_store'];
  expect(names(builtIn)).toEqual([...memory, 'secret_exec', 'secret_list', 'skill_read', 'spawn_session']);
});

verifies('runtime.output.streaming', 'an answer says whether it came piece by piece, and nothing before there is one', async () => {
  const { id } = await rig.client.session.create();
  rig.model.script([{ text: 'Low tide at four.' }]);
  expect(await rig.client.session.prompt(id, { content: 'When?', promptId: 'tide' })).toMatchObject({ streaming: true });
  expect((await call('GET', `${rig.runtimeUrl}/session/${id}/prompt/tide`)).body.answer).toMatchObject({ streaming: true });
  const accepted = await call('POST', `${rig.runtimeUrl}/session/${id}/prompt?async=1`, { content: 'And high tide?' });
  expect([accepted.status, accepted.body.streaming]).toEqual([202, undefined]);

  // Most providers stream; one that is brought along in code need not.
  const folder = await mkdtemp(join(tmpdir(), 'signet-whole-'));
  const settings = resolveSettings({ SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_RUNTIME_PORT: '0' });
  const piecewise = createPlannedProvider(() => ({ text: 'At ten.' }));
  const whole: Provider = {
    ...piecewise,
    async *stream(messages, options) {
      for await (const chunk of piecewise.stream(messages, options)) if (chunk.type === 'done') yield chunk;
    },
  };
  const running = await start(settings, silentLogger, { providers: [whole], defaultProvider: whole.id });
  const client = createRuntimeClient({ baseUrl: running.runtime.url });
  const other = await client.session.create();
  expect(await client.session.prompt(other.id, { content: 'When?' })).toMatchObject({ content: 'At ten.', streaming: false });
  await running.close();
  await rm(folder, { recursive: true });
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

verifies('runtime.provider.default', 'with keys of several providers and no choice, Anthropic answers', async () => {
  const keys = {
    OPENAI_API_KEY: 'test',
    OPENAI_BASE_URL: `${rig.model.url}/v1`,
    ANTHROPIC_API_KEY: 'test',
    ANTHROPIC_BASE_URL: rig.model.url,
  };
  const signet = await startSignet({ env: keys });
  try {
    const { id, provider } = await signet.client.session.create();
    rig.model.script([{ text: 'Good evening.' }]);
    expect([provider, (await signet.client.session.prompt(id, { content: 'hello' })).content]).toEqual(['anthropic', 'Good evening.']);
    expect(rig.model.requests.at(-1)?.wire).toBe('anthropic');
  } finally {
    await signet.close();
  }
});

verifies(
  'runtime.resume.documented',
  'a session resumed by id has what docs/sessions.md says: the last words, not the conversation',
  async () => {
    const page = await readFile(new URL('../../docs/sessions.md', import.meta.url), 'utf8');
    expect(page).toMatch(/`resume: <id>`/);
    const old = await rig.client.session.create({ sessionKey: 'harbour-log' });
    rig.model.script([{ text: 'The first buoy is red.' }, { text: 'Summary: buoys were named.' }, { text: 'The last buoy is blue.' }]);
    await rig.client.session.prompt(old.id, { content: 'Name the first buoy, please.' });
    await rig.client.session.compact(old.id);
    await rig.client.session.prompt(old.id, { content: 'Name the last buoy.' });
    await rig.client.session.end(old.id);

    const resumed = await rig.client.session.create({ resume: old.id });
    expect(resumed).toMatchObject({ sessionKey: 'harbour-log', turns: 0 });
    await rig.client.session.prompt(resumed.id, { content: 'Go on.' });
    const { system, messages } = lastBody();
    expect(JSON.stringify(system)).toContain('Summary: buoys were named.');
    expect(JSON.stringify(system)).toContain('The last buoy is blue.');
    expect(messages).toHaveLength(1);
    expect(JSON.stringify(await rig.client.session.messages(old.id))).toContain('first buoy');
  },
);
