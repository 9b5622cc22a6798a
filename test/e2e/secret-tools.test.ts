import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { runSlashCommand } from '../../src/cli/chat-slash.ts';
import { createChatView } from '../../src/cli/chat-view.ts';
import { createStyle } from '../../src/cli/terminal.ts';
import { secretOperations } from '../../src/contract/secrets.ts';
import { call } from '../conformance/calls.ts';
import type { ModelRequest } from '../helpers/model-server/request.ts';
import { nextSignal, payloads, type Rig, readLog, startRig } from './rig.ts';

const CANARY = 'nachtigall/7c1Qx+Wz==';
const LISTED = 'runtime: { secretTools: { agents: [default] } }\n';

let rig: Rig;
afterEach(() => rig.close());

async function startWithSecret(yaml: string): Promise<void> {
  rig = await startRig({ yaml: `secrets: { keyring: false }\n${yaml}` });
  await rig.daemon.call(secretOperations.putSecret, { name: 'API_KEY', value: CANARY });
}

const exec = (command: string) => ({
  toolCalls: [{ id: 'c1', name: 'secret_exec', input: { command, secrets: { KEY: 'API_KEY' } } }],
});
const offered = ({ body }: ModelRequest) => (body.tools as { name: string }[]).map(({ name }) => name);
const lastOffer = () => offered(rig.model.requests.at(-1)!);

/** Every file below a folder, as text. */
function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => readFileSync(path, 'latin1'));
}

async function expectGone(pidFile: string): Promise<void> {
  const pid = Number(readFileSync(pidFile, 'utf8'));
  expect(pid).toBeGreaterThan(1);
  await expect.poll(() => isRunning(pid), { timeout: 20_000 }).toBe(false);
}

function isRunning(pid: number): boolean {
  try {
    // One that has ended and waits for its parent counts as gone.
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false; // No such process.
  }
}

test('a command runs when a person agrees; neither the log nor any file nor the model holds the value', async () => {
  await startWithSecret(LISTED);
  const { id } = await rig.client.session.create({});
  rig.model.script([
    { toolCalls: [{ id: 'c0', name: 'secret_list', input: {} }] },
    exec('echo "key $KEY"; printf %s "$KEY" | base64; printf %s "$KEY" >&2; exit 3'),
    { text: 'Done.' },
  ]);
  const prompt = rig.client.session.prompt(id, { content: 'Use the key.' });
  const asked = await nextSignal(rig.client, id, 'tool:approval:requested');
  expect(asked.payload).toMatchObject({ id: 'c1', name: 'secret_exec', input: { secrets: { KEY: 'API_KEY' } } });
  await rig.client.approvals.decide(id, 'c1', 'once');
  const answer = await prompt;
  expect(answer.toolResults).toMatchObject([{ output: JSON.stringify({ secrets: ['API_KEY'] }) }, { isError: false }]);
  expect(JSON.parse(String(answer.toolResults[1]!.output))).toEqual({
    stdout: expect.stringMatching(/^key \[REDACTED\]\n\[REDACTED\]\s*$/),
    stderr: '[REDACTED]',
    code: 3,
    timedOut: false,
    truncated: false,
  });
  expect(payloads(await readLog(rig.client, id), 'tool:call').at(-1)).toMatchObject({ name: 'secret_exec', class: 'unsafe' });

  const { body: logs } = await call('GET', `${rig.daemonUrl}/api/logs?level=debug&limit=500`);
  expect(JSON.stringify(logs)).toContain('a command was run with secrets');
  const seen = [
    ...filesBelow(rig.folder),
    ...rig.model.requests.map(({ body }) => JSON.stringify(body)),
    ...[answer, logs, await readLog(rig.client, id), await rig.client.session.messages(id)].map((told) => JSON.stringify(told)),
  ];
  expect(seen.join('\n')).toContain('REDACTED');
  for (const form of [CANARY, Buffer.from(CANARY).toString('base64').slice(0, 24), encodeURIComponent(CANARY)])
    expect(seen.filter((text) => text.includes(form))).toEqual([]);
});

test('the tools of a conversation are those its agent may use', async () => {
  await startWithSecret('agents: { roster: [{ name: rose }] }\nruntime: { secretTools: { agents: [rose] } }\n');
  for (const [agent, secret] of [
    ['rose', ['secret_exec', 'secret_list']],
    ['default', []],
  ] as const) {
    const session = await rig.client.session.create({ agent });
    let shown = '';
    const notes = { write: (text: string) => (shown += text) };
    const style = createStyle(notes, {});
    const view = createChatView({ answer: null, notes, style });
    await runSlashCommand('tools', { client: rig.client, session, view, style, leave: () => {} });
    const names = [...shown.matchAll(/^(\w+) /gm)].map(([, name]) => name!);
    await rig.client.session.prompt(session.id, { content: 'Hello.' });
    expect(names.toSorted()).toEqual(lastOffer().toSorted());
    expect(names.filter((name) => name.startsWith('secret_'))).toEqual(secret);
  }
  expect((await rig.client.tools.list()).tools.map(({ name }) => name)).toContain('secret_exec');
});

test('only sessions of agents that agent.yaml lists are offered the tools, at once, and nobody else may call them', async () => {
  const roster = 'agents: { roster: [{ name: rose }] }\n';
  await startWithSecret(roster);
  const { id } = await rig.client.session.create({});
  rig.model.script([exec('touch called'), { text: 'Not allowed.' }]);
  const refused = await rig.client.session.prompt(id, { content: 'Use the key.' });
  expect(offered(rig.model.requests[0]!)).not.toContain('secret_exec');
  expect(refused.toolResults).toMatchObject([{ isError: true, output: 'secret_exec is not among the tools of this session of default' }]);
  expect((await rig.client.approvals.list()).count).toBe(0);
  const byHand = (input: object) => call('POST', `${rig.runtimeUrl}/tools/secret_list`, { input: {}, ...input });
  expect((await byHand({ sessionId: id })).body).toMatchObject({ isError: true, error: { code: 'secrets_forbidden' } });
  expect((await byHand({})).body.error.message).toContain('runtime.secretTools.agents');

  writeFileSync(join(rig.folder, 'agent.yaml'), `secrets: { keyring: false }\n${roster}${LISTED}`);
  const listed = async () => (await call('GET', `${rig.daemonUrl}/api/config`)).body.config.runtime.secretTools.agents;
  await expect.poll(listed, { timeout: 30_000 }).toEqual(['default']);
  await rig.client.session.prompt(id, { content: 'And now?' });
  expect(lastOffer()).toEqual(expect.arrayContaining(['secret_exec', 'secret_list']));
  expect((await byHand({ sessionId: id })).body).toMatchObject({ isError: false, output: { secrets: ['API_KEY'] } });
  // A session with tools of its own has these alone, and so has another agent.
  for (const session of [{ tools: ['memory_search'] }, { agent: 'rose' }]) {
    const other = await rig.client.session.create(session);
    rig.model.script([exec('touch called'), { text: 'Not allowed.' }]);
    const { toolResults } = await rig.client.session.prompt(other.id, { content: 'And you?' });
    expect(lastOffer().filter((name) => name.startsWith('secret_'))).toEqual([]);
    expect(toolResults).toMatchObject([{ isError: true, output: expect.stringContaining('secret_exec is not among the tools') }]);
  }
});

test('a rule of agent.yaml may let commands run unasked, or never', async () => {
  const rules = '[{ tool: secret_exec, input: { command: "rm *" }, decision: deny }, { tool: secret_exec, decision: allow }]';
  await startWithSecret(`runtime: { secretTools: { agents: [default] }, approvals: ${rules} }\n`);
  const { id } = await rig.client.session.create({});
  rig.model.script([exec('echo $KEY'), exec('rm -rf $KEY'), { text: 'Done.' }]);
  const { toolResults } = await rig.client.session.prompt(id, { content: 'Use the key.' });
  expect(toolResults).toMatchObject([
    { isError: false, output: expect.stringContaining('[REDACTED]') },
    { isError: true, output: expect.stringContaining('agent.yaml says deny') },
  ]);
});

test('an abort of the turn and the deadline of a call end the command with all it has started', async () => {
  await startWithSecret('runtime: { secretTools: { agents: [default] }, approvals: [{ tool: secret_exec, decision: allow }] }\n');
  const lasting = (pidFile: string) => `sleep 600 & echo $! > ${pidFile}.new; mv ${pidFile}.new ${pidFile}; wait`;
  const [aborted, late] = ['aborted', 'late'].map((name) => join(rig.folder, name)) as [string, string];
  const { id } = await rig.client.session.create({});
  rig.model.script([exec(lasting(aborted))]);
  const prompt = rig.client.session.prompt(id, { content: 'Wait for it.' });
  await expect.poll(() => readdirSync(rig.folder), { timeout: 20_000 }).toContain('aborted');
  expect(await rig.client.session.abort(id)).toMatchObject({ aborted: true, state: 'idle' });
  expect((await prompt).status).toBe('aborted');
  await expectGone(aborted);

  const input = { command: lasting(late), secrets: { KEY: 'API_KEY' } };
  const answer = call('POST', `${rig.runtimeUrl}/tools/secret_exec`, { input, sessionId: id, timeoutMs: 3_000 });
  await expect.poll(() => readdirSync(rig.folder), { timeout: 20_000 }).toContain('late');
  expect((await answer).body).toMatchObject({ isError: true, error: { code: 'timeout' } });
  await expectGone(late);
});

test('an unknown secret and a name that is none are results the model can act on', async () => {
  await startWithSecret(LISTED);
  const { id } = await rig.client.session.create({});
  const run = async (secrets: object) =>
    (await call('POST', `${rig.runtimeUrl}/tools/secret_exec`, { input: { command: 'true', secrets }, sessionId: id })).body.error;
  expect(await run({ KEY: 'API_KEI' })).toMatchObject({ code: 'secret_not_found', message: expect.stringContaining('API_KEI') });
  expect(await run({ KEY: 'no name' })).toMatchObject({ code: 'invalid_request', message: expect.stringContaining('secrets') });
  expect(await run({})).toMatchObject({ code: 'invalid_request', message: expect.stringContaining('secrets') });
});
