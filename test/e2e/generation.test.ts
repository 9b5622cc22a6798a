import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import { readAgentYaml } from '../../src/daemon/agent-yaml.ts';
import { call } from '../conformance/calls.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { startSignet } from '../helpers/signet.ts';
import { payloads, type Rig, readLog, startRig } from './rig.ts';

const LOCAL = '{ kind: openai-compatible, baseUrl: "$MODEL/v1", model: scripted, temperature: 0.4, topP: 0.4, maxTokens: 400 }';
const YAML = `
agents: { roster: [{ name: poet, temperature: 0.3, topP: 0.3, stopSequences: [FIN] }] }
runtime:
  default: local
  temperature: 0.5
  topP: 0.5
  maxTokens: 500
  stopSequences: [STOP]
  providers: { local: ${LOCAL}, plain: { kind: openai-compatible, baseUrl: "$MODEL/v1", model: scripted } }
`;

async function rigOf(yaml = YAML): Promise<Rig> {
  const rig = await startRig({ yaml, wire: 'chat', env: { SIGNET_PROVIDER: '', SIGNET_MODEL: '' } });
  onTestFinished(() => rig.close());
  return rig;
}

/** The settings of the newest request. */
function asked(model: ModelServer): unknown[] {
  const { temperature, top_p: topP, max_tokens: maxTokens, stop } = model.requests.at(-1)!.body;
  return [temperature, topP, maxTokens, stop];
}

describe('how an answer is written', () => {
  test('says the prompt, then the session, its agent, the provider and the runtime, each setting by itself', async () => {
    const { client, model } = await rigOf();
    const said = async (session: object, prompt: object = {}) => {
      const { id } = await client.session.create(session);
      await client.session.prompt(id, { content: 'Go.', ...prompt });
      return asked(model);
    };
    expect(await said({ provider: 'plain' })).toEqual([0.5, 0.5, 500, ['STOP']]);
    expect(await said({})).toEqual([0.4, 0.4, 400, ['STOP']]);
    expect(await said({ agent: 'poet' })).toEqual([0.3, 0.3, 400, ['FIN']]);
    expect(await said({ agent: 'poet', temperature: 0.2 })).toEqual([0.2, 0.3, 400, ['FIN']]);
    expect(await said({ agent: 'poet', temperature: 0.2 }, { temperature: 0, maxTokens: 100, stopSequences: [] })).toEqual([
      ...[0, 0.3, 100, undefined],
    ]);
  });

  test('a prompt says for its own turn alone, and a session until it is changed', async () => {
    const { client, model } = await rigOf();
    const { id, ...created } = await client.session.create({ agent: 'poet', temperature: 0.2, thinkingTokens: 0 });
    expect(created).toMatchObject({ temperature: 0.2, topP: 0.3, stopSequences: ['FIN'], thinkingTokens: 0 });
    await client.session.prompt(id, { content: 'One.', temperature: 1.5 });
    expect(asked(model)[0]).toBe(1.5);
    await client.session.prompt(id, { content: 'Two.' });
    expect(asked(model)[0]).toBe(0.2);
    expect(await client.session.update(id, { temperature: 0.9, topP: 0.8, maxTokens: 7 })).toMatchObject({
      temperature: 0.9,
      maxTokens: 7,
    });
    await client.session.prompt(id, { content: 'Three.' });
    expect(asked(model)).toEqual([0.9, 0.8, 7, ['FIN']]);
    // What is taken away is what the agent says, or nothing.
    await client.session.update(id, { temperature: null, maxTokens: null });
    const shown = await client.session.get(id);
    expect(shown).toMatchObject({ temperature: 0.3, topP: 0.8 });
    expect(shown).not.toHaveProperty('maxTokens');
    await client.session.prompt(id, { content: 'Four.' });
    expect(asked(model)).toEqual([0.3, 0.8, 400, ['FIN']]);
    expect((await client.session.verify(id)).divergence).toBeNull();
  });

  test('is kept by forks, which may say otherwise, and by the session that continues one', async () => {
    const { client, model } = await rigOf();
    const { id } = await client.session.create({ temperature: 0.2, stopSequences: ['END'] });
    await client.session.prompt(id, { content: 'One.', topP: 0.1 });
    const [received] = (await readLog(client, id)).filter(({ name }) => name === 'prompt:received');
    expect(received!.payload).toMatchObject({ topP: 0.1 });
    // Before the model is called: the prompt that is owed there keeps what it said.
    const fork = await client.session.fork(id, { at: received!.seq, temperature: 0.6 });
    await client.session.wait(fork.id, { timeoutMs: 20_000 });
    expect(asked(model)).toEqual([0.6, 0.1, 400, ['END']]);
    expect(await client.session.get(fork.id)).toMatchObject({ temperature: 0.6, stopSequences: ['END'] });
    expect((await client.session.verify(fork.id)).divergence).toBeNull();
    const other = await client.session.fork(id, { at: received!.seq, replaceInput: { topP: 0.7 } });
    await client.session.wait(other.id, { timeoutMs: 20_000 });
    expect(asked(model)).toEqual([0.2, 0.7, 400, ['END']]);
    await client.session.end(id);
    expect(await client.session.create({ resume: id })).toMatchObject({ temperature: 0.2, stopSequences: ['END'] });
  });

  test('is still known after a restart', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'signet-generation-'));
    const model = await startModelServer();
    const yaml = YAML.replaceAll('$MODEL', model.url);
    let signet = await startSignet({ folder, yaml });
    onTestFinished(async () => {
      await signet.close();
      await model.close();
      rmSync(folder, { recursive: true, force: true });
    });
    const { id } = await signet.client.session.create({ agent: 'poet', temperature: 0.2 });
    await signet.client.session.update(id, { maxTokens: 77 });
    await signet.close();
    signet = await startSignet({ folder, yaml: yaml.replace('temperature: 0.3, topP: 0.3', 'temperature: 1') });
    expect(await signet.client.session.get(id)).toMatchObject({ temperature: 0.2, topP: 0.3, maxTokens: 77 });
    await signet.client.session.prompt(id, { content: 'Go.' });
    expect(asked(model)).toEqual([0.2, 0.3, 77, ['FIN']]);
    expect((await signet.client.session.verify(id)).divergence).toBeNull();
  });

  test('follows agent.yaml while sessions run, where the provider and the runtime say it', async () => {
    const { client, model, folder } = await rigOf();
    const { id } = await client.session.create({});
    await client.session.prompt(id, { content: 'One.' });
    const file = join(folder, 'agent.yaml');
    const changed = readFileSync(file, 'utf8').replace('temperature: 0.4,', 'temperature: 0.45,').replace('[STOP]', '[HALT]');
    writeFileSync(file, changed);
    const now = async () => {
      await client.session.prompt(id, { content: 'Again.' });
      return asked(model);
    };
    await expect.poll(now, { timeout: 20_000 }).toEqual([0.45, 0.4, 400, ['HALT']]);
  });

  test('a summary has no stop sequence and no length of a prompt', async () => {
    const { client, model } = await rigOf();
    const { id } = await client.session.create({ temperature: 0.2, maxTokens: 5, stopSequences: ['.'] });
    await client.session.prompt(id, { content: 'One.' });
    await client.session.compact(id);
    expect(asked(model)).toEqual([0.4, 0.4, undefined, undefined]);
  });
});

test.each([
  ['session', { temperature: 3 }, '/temperature'],
  ['session', { topP: -1 }, '/topP'],
  ['prompt', { maxTokens: 0 }, '/maxTokens'],
  ['prompt', { stopSequences: [''] }, '/stopSequences/0'],
  ['prompt', { thinkingTokens: 1.5 }, '/thinkingTokens'],
  ['session', { max_tokens: 5 }, '/max_tokens'],
] as const)('a %s with %j is refused with the name of the field', async (place, body, pointer) => {
  const { client, runtimeUrl } = await rigOf();
  const { id } = await client.session.create({});
  const path = place === 'session' ? '/session' : `/session/${id}/prompt`;
  const content = place === 'session' ? {} : { content: 'Go.' };
  expect(await call('POST', `${runtimeUrl}${path}`, { ...content, ...body })).toMatchObject({
    status: 400,
    body: { code: 'invalid_request', errors: [{ pointer }] },
  });
});

test('agent.yaml is refused with the name of the key, wherever it stands', () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-generation-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const fault = (yaml: string) => {
    writeFileSync(join(folder, 'agent.yaml'), yaml);
    try {
      readAgentYaml(folder);
    } catch (error) {
      return String((error as { detail?: string }).detail);
    }
    return '';
  };
  expect(fault('runtime: { topP: 2 }\n')).toContain('runtime.topP');
  expect(fault('runtime: { providers: { p: { kind: openai, temperature: hot } } }\n')).toContain('runtime.providers.p.temperature');
  expect(fault('agents: { roster: [{ name: poet, stopSequences: END }] }\n')).toContain('stopSequences');
  expect(fault('runtime: { limits: { mailboxTurnsMax: 200, toolTimeoutMs: 3600000 } }\n')).toBe('');
});

describe('the length of an answer', () => {
  test('is not 8,192 tokens when the model can write more, within limits.outputTokensMax', async () => {
    const rig = await startRig();
    onTestFinished(() => rig.close());
    const length = async (model: string, extra: object = {}) => {
      const { id } = await rig.client.session.create({ model });
      await rig.client.session.prompt(id, { content: 'Go.', ...extra });
      return rig.model.requests.at(-1)!.body.max_tokens;
    };
    expect(await length('claude-opus-5')).toBe(128_000);
    expect(await length('claude-haiku-4-5', { maxTokens: 20_000 })).toBe(20_000);
  });

  test('is bounded by what the window has left, and by the cap of the configuration', async () => {
    const small = 'models: { scripted: { contextTokens: 10000, outputTokensMax: 9000 } }';
    const local = `{ kind: openai-compatible, baseUrl: "$MODEL/v1", model: scripted, ${small} }`;
    const rig = await rigOf(`runtime: { default: local, providers: { local: ${local} }, limits: { compactAtShare: 0.98 } }\n`);
    const { id } = await rig.client.session.create({});
    await rig.client.session.prompt(id, { content: 'word '.repeat(4_000) });
    const left = Number(rig.model.requests.at(-1)!.body.max_tokens);
    expect(left).toBeLessThan(5_000);
    expect(left).toBeGreaterThan(1_000);
    const capped = await rigOf(`runtime: { default: local, providers: { local: ${local} }, limits: { outputTokensMax: 50 } }\n`);
    const session = await capped.client.session.create({ maxTokens: 60 });
    await capped.client.session.prompt(session.id, { content: 'Go.' });
    expect(asked(capped.model)[2]).toBe(50);
  });
});

test('a request that is made again without a refused parameter is counted as one of its own', async () => {
  const { client, daemonUrl, model } = await rigOf();
  const { id } = await client.session.create({});
  const message = "Unsupported parameter: 'top_p' is not supported with this model.";
  model.script([{ fault: { kind: 'status', status: 400, code: 'unsupported_parameter', message } }, { text: 'Done.' }]);
  expect(await client.session.prompt(id, { content: 'Go.' })).toMatchObject({ content: 'Done.' });
  expect(asked(model)).toEqual([0.4, undefined, 400, ['STOP']]);
  const errors = payloads(await readLog(client, id), 'harness:error');
  expect(errors).toEqual([]);
  const { body } = await call('GET', `${daemonUrl}/api/usage`);
  expect(body).toMatchObject({ total: { calls: 2, failed: 1, retries: 1, inputTokens: 10, outputTokens: 5 } });
});

test('a turn ends at a stop sequence that its provider does not know', async () => {
  const rig = await startRig({ wire: 'responses' });
  onTestFinished(() => rig.close());
  rig.model.script([{ text: 'One two END three.' }, { text: 'Next.' }]);
  const { id } = await rig.client.session.create({});
  const answer = await rig.client.session.prompt(id, { content: 'Go.', stopSequences: ['END'] });
  expect(answer).toMatchObject({ status: 'completed', content: 'One two ', stopReason: 'stop_sequence', usage: { estimated: true } });
  expect((await rig.client.session.prompt(id, { content: 'On.' })).content).toBe('Next.');
  expect(JSON.stringify(rig.model.requests[1]!.body.input)).not.toContain('END');
});

test('signet chat says it for a new session, and for one it goes on with', async () => {
  const rig = await rigOf();
  const chat = async (...flags: string[]) => {
    const cli = captureCli(rig);
    const code = await runCli(cli.context, ['chat', '--print', 'Go.', ...flags]);
    return code === 0 ? asked(rig.model) : cli.err();
  };
  expect(await chat('--temperature', '0.1', '--max-tokens', '30', '--stop-sequences', 'A', 'B')).toEqual([0.1, 0.4, 30, ['A', 'B']]);
  const { items } = await rig.client.session.list();
  expect(await chat('--session', items[0]!.id, '--top-p', '0.9')).toEqual([0.1, 0.9, 30, ['A', 'B']]);
  expect(await chat('--temperature', '5')).toContain('--temperature');
});

test('more than sixteen prompts wait where the configuration says so', async () => {
  const rig = await rigOf(`${YAML}  limits: { mailboxTurnsMax: 100 }\n`);
  const { id } = await rig.client.session.create({});
  rig.model.gate();
  const prompts = Array.from({ length: 81 }, (_, index) =>
    rig.client.session.prompt(id, { content: `Number ${index}.`, promptId: `p${index}` }),
  );
  const first = await rig.model.next();
  await expect.poll(async () => (await rig.client.session.get(id)).queue.length, { timeout: 20_000 }).toBe(80);
  rig.model.open();
  first.reply({ text: 'ok' });
  for (const answer of await Promise.all(prompts)) expect(answer.status).toBe('completed');
  const told = rig.model.requests.map(({ body }) => JSON.stringify((body.messages as unknown[]).at(-1)));
  expect(told.filter((text) => /Number \d+\./.test(text)).length).toBe(81);
}, 60_000);
