import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, expect } from 'vitest';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { call } from './calls.ts';
import { type SplitRuntime, startSplitRuntime } from './split-runtime.ts';
import { verifies } from './verifies.ts';

const SOURCE = new URL('../../src', import.meta.url).pathname;

let signet: Signet;
let model: ModelServer;
let split: SplitRuntime;

beforeAll(async () => {
  model = await startModelServer();
  signet = await startSignet({
    yaml: 'agent: { name: Merle }\nsecrets: { keyring: false }\nruntime: { secretTools: { agents: [default] } }\n',
  });
  writeFileSync(join(signet.folder, 'SOUL.md'), 'Speak like a lighthouse keeper.');
  split = await startSplitRuntime(signet.daemonUrl, { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'test' });
});
afterAll(async () => {
  await split.close();
  await signet.close();
  await model.close();
});

const remember = async (content: string): Promise<string> =>
  (await call('POST', `${signet.daemonUrl}/api/memory/remember`, { content })).body.id;
/** What the runtime asked the daemon while `run` ran. */
async function asked(run: () => Promise<unknown>): Promise<SplitRuntime['requests']> {
  const before = split.requests.length;
  await run();
  return split.requests.slice(before);
}
const lines = (requests: SplitRuntime['requests']) => requests.map(({ line }) => line);

verifies(
  [
    'runtime.parity.session-start',
    'runtime.parity.user-prompt-submit',
    'runtime.parity.session-end',
    'runtime.session-start.hook',
    'runtime.session-end.hook',
    'runtime.turn.records',
  ],
  'a session with two turns is one session-start, one user-prompt-submit per turn and one session-end',
  async () => {
    const requests = await asked(async () => {
      const { id } = await split.client.session.create({ sessionKey: 'parity', project: '/work/boat' });
      await split.client.session.prompt(id, { content: 'Is the hull dry?' });
      await split.client.session.prompt(id, { content: 'And the mast?' });
      await split.client.session.end(id);
    });
    expect(lines(requests)).toEqual([
      'POST /api/hooks/session-start',
      'POST /api/hooks/user-prompt-submit',
      'POST /api/hooks/user-prompt-submit',
      'POST /api/hooks/session-end',
    ]);
    for (const { body } of requests) expect(body).toMatchObject({ sessionKey: 'parity', project: '/work/boat', agentId: 'default' });
    expect(requests[1]?.body.userMessage).toBe('Is the hull dry?');
    expect(requests[2]?.body).toMatchObject({
      userMessage: 'And the mast?',
      lastAssistantMessage: expect.stringContaining('scripted answer'),
    });
    expect(requests[3]?.body.transcript).toMatchObject([
      { role: 'user', content: 'Is the hull dry?' },
      { role: 'assistant' },
      { role: 'user', content: 'And the mast?' },
      { role: 'assistant' },
    ]);
  },
);

verifies(['runtime.parity.pre-compaction', 'runtime.parity.compaction-complete'], async () => {
  const { id } = await split.client.session.create({ sessionKey: 'compacted' });
  await split.client.session.prompt(id, { content: 'The keel is three metres long.' });
  model.script([{ text: 'Summary: the keel is three metres.' }]);
  const requests = await asked(() => split.client.session.compact(id));
  expect(requests).toMatchObject([
    { line: 'POST /api/hooks/pre-compaction', body: { sessionKey: 'compacted', messageCount: 2 } },
    { line: 'POST /api/hooks/compaction-complete', body: { sessionKey: 'compacted', summary: 'Summary: the keel is three metres.' } },
  ]);
  const { body } = await call('POST', `${signet.daemonUrl}/api/memory/recall`, { query: 'keel metres', agentId: 'default' });
  expect(body.results).toMatchObject([{ type: 'session_summary', content: 'Summary: the keel is three metres.' }]);
});

verifies(['runtime.parity.recall', 'runtime.parity.get', 'runtime.daemon-first'], async () => {
  const id = await remember('The rudder was oiled in spring.');
  const run = (name: string, input: object) => asked(() => split.client.tools.call(name, input));
  expect(lines(await run('memory_search', { query: 'rudder' }))).toEqual(['POST /api/memory/recall']);
  expect(lines(await run('memory_get', { id }))).toEqual([`GET /api/memory/${id}`]);
  expect(lines(await run('memory_store', { content: 'The tiller is loose.' }))).toEqual(['POST /api/memory/remember']);
  expect(lines(await run('memory_modify', { id, reason: 'again', content: 'The rudder was oiled twice.' }))).toEqual([
    ...['POST /api/memory/modify', `GET /api/memory/${id}`],
  ]);
  expect(lines(await run('memory_forget', { id, reason: 'sold' }))).toEqual(['POST /api/memory/forget']);
});

verifies('runtime.parity.secrets', 'the secret tools of the runtime are GET /api/secrets and POST /api/secrets/exec', async () => {
  await call('POST', `${signet.daemonUrl}/api/secrets/BERTH_KEY`, { value: 'kelpie-4711-otter' });
  const { id } = await split.client.session.create({ sessionKey: 'berth' });
  const input = { command: 'echo "berth $KEY"', secrets: { KEY: 'BERTH_KEY' } };
  model.script([
    { toolCalls: [{ id: 's1', name: 'secret_list', input: {} }] },
    { toolCalls: [{ id: 's2', name: 'secret_exec', input }] },
    { text: 'Moored.' },
  ]);
  const requests = await asked(async () => {
    const prompt = split.client.session.prompt(id, { content: 'Open the berth.' });
    await expect.poll(async () => (await split.client.approvals.list()).count, { timeout: 15_000 }).toBe(1);
    await split.client.approvals.decide(id, 's2', 'once');
    expect(await prompt).toMatchObject({ content: 'Moored.' });
  });
  expect(lines(requests).filter((line) => !line.includes('/hooks/'))).toEqual(['GET /api/secrets', 'POST /api/secrets/exec']);
  expect(requests.at(-1)?.body).toMatchObject(input);
  const told = JSON.stringify(model.requests.at(-1)?.body);
  expect(told).toContain('berth [REDACTED]');
  expect(told).not.toContain('kelpie-4711-otter');
});

verifies('runtime.parity.remember', async () => {
  const { id } = await split.client.session.create({ sessionKey: 'storing', harness: 'signet-cli' });
  const hook = { harness: 'signet-cli', sessionKey: 'storing', runtimePath: 'plugin', content: 'The bilge pump squeaks.' };
  const stored = await call('POST', `${signet.daemonUrl}/api/hooks/remember`, hook);
  expect(stored.body).toMatchObject({ saved: true });
  await split.client.session.prompt(id, { content: 'What does the bilge pump do?' });
  expect(JSON.stringify(model.requests.at(-1)?.body)).toContain('The bilge pump squeaks.');
});

verifies(
  [
    'runtime.loop.context',
    'runtime.context.system-prompt',
    'runtime.session-start.first-turn',
    'runtime.research.memories',
    'runtime.loop.behaviour',
  ],
  'identity, soul and memories of the daemon are in the prompt, and what was found is written down there',
  async () => {
    const shown = await remember('The compass was repaired by Ines.');
    const { id } = await split.client.session.create({ sessionKey: 'context', system: 'House rules come first.' });
    const found = await remember('The sextant hangs in the cabin.');
    await split.client.session.prompt(id, { content: 'Where does the sextant hang?' });

    const { system, messages } = model.requests.at(-1)?.body ?? {};
    for (const text of ['House rules come first.', 'You are Merle.', 'lighthouse keeper', 'repaired by Ines']) {
      expect(JSON.stringify(system)).toContain(text);
    }
    expect(JSON.stringify(messages)).toContain('The sextant hangs in the cabin.');

    const db = new DatabaseSync(join(signet.folder, 'data', 'memory.db'), { readOnly: true });
    const hits = db.prepare("SELECT memory_id FROM session_memories WHERE session_key = 'context' AND injected = 1").all();
    db.close();
    expect(hits.map(({ memory_id }) => memory_id)).toEqual(expect.arrayContaining([shown, found]));
  },
);

verifies('runtime.parity.health', () => {
  expect(split.requests[0]?.line).toBe('GET /health');
});

verifies(
  'runtime.stateless',
  'a runtime that is stopped and started again has its session, its conversation and its key at the daemon',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'signet-stateless-'));
    const env = { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'test', SIGNET_PATH: folder };
    const claimOf = async () => (await call('GET', `${signet.daemonUrl}/api/sessions/night-watch`)).body;
    const first = await startSplitRuntime(signet.daemonUrl, env);
    const { id } = await first.client.session.create({ sessionKey: 'night-watch' });
    await first.client.session.prompt(id, { content: 'The lamp is lit.' });
    const claim = await claimOf();
    await first.close();
    expect(await claimOf()).toMatchObject({ key: 'night-watch' });

    const second = await startSplitRuntime(signet.daemonUrl, env);
    expect((await second.client.session.list()).items).toMatchObject([{ id, sessionKey: 'night-watch', state: 'idle' }]);
    await second.client.session.prompt(id, { content: 'Is it?' });
    expect(JSON.stringify(model.requests.at(-1)?.body.messages)).toContain('The lamp is lit.');
    expect(lines(second.requests)).not.toContain('POST /api/hooks/session-start');
    expect(await claimOf()).toMatchObject({ key: claim.key, agentId: claim.agentId, runtimePath: claim.runtimePath });
    await second.close();
    rmSync(folder, { recursive: true, force: true });
  },
);

verifies('runtime.no-direct-daemon', () => {
  const files = readdirSync(join(SOURCE, 'runtime'), { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  const imports = files.flatMap((file) => readFileSync(join(SOURCE, 'runtime', file), 'utf8').match(/from '[^']+'/g) ?? []);
  expect(imports.filter((line) => line.includes('/core/')).length).toBeGreaterThan(10);
  expect(imports.filter((line) => line.includes('/daemon/'))).toEqual([]);
});
