import { rmSync } from 'node:fs';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import { type Rig, readLog, startRig } from '../e2e/rig.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { connectHttp } from '../helpers/mcp-connection.ts';
import { call, hooksOf } from './calls.ts';
import { verifies } from './verifies.ts';

const lines = (name: string, count: number) =>
  Array.from({ length: count }, (_, line) => `${name} ${line} is not to be forgotten.`).join('\n');
const SOUL = lines('Promise', 3_000).slice(0, 100_000).trim();
const AGENTS = lines('Rule', 400);
const KNOTS = '---\ndescription: Ties knots that hold\n---\n# Knots\nA bowline never jams.';
const FILES = {
  'SOUL.md': SOUL,
  'AGENTS.md': AGENTS,
  'TOOLS.md': 'The winch needs oil each Monday.',
  'agents/dot/TOOLS.md': 'The crane is broken.',
  'skills/knots/SKILL.md': KNOTS,
  'skills/sails/SKILL.md': '---\ndescription: Mends sails\n---\nWax the thread.',
  'agent.yaml': 'agents: { roster: [{ name: dot, skills: [knots] }] }\n',
};

let folder: string;
let rig: Rig;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'signet-identity-'));
  for (const [name, text] of Object.entries(FILES)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  rig = await startRig({ folder });
});
afterAll(async () => {
  await rig.close();
  rmSync(folder, { recursive: true, force: true });
});

const systemOf = (request: { body: unknown }): string => {
  const { system } = request.body as { system: string | { text: string }[] };
  return typeof system === 'string' ? system : system.map(({ text }) => text).join('\n');
};

async function firstRequest(agent?: string): Promise<string> {
  const { id } = await rig.client.session.create(agent === undefined ? {} : { agent });
  await rig.client.session.prompt(id, { content: 'hello' });
  return systemOf(rig.model.requests.at(-1)!);
}

verifies('runtime.identity.whole', 'a soul of 100 KB is in the request to the model to the last character', async () => {
  expect(SOUL.length).toBeGreaterThan(99_900);
  const system = await firstRequest();
  expect(system).toContain(SOUL);
  expect(system).toContain(AGENTS);
  expect(system).not.toContain('is cut here');
});

verifies('agents.tools-file', async () => {
  expect(await firstRequest()).toContain('The winch needs oil each Monday.');
  const dot = await firstRequest('dot');
  expect(dot).toContain('The crane is broken.');
  expect(dot).not.toContain('winch');
  expect((await hooksOf(rig.daemonUrl)('session-start', {})).inject).toContain('The winch needs oil each Monday.');
});

verifies('hooks.session-start.identity.cut', 'a harness that takes less is told what is left out and where the rest is', async () => {
  const { inject, truncated } = await hooksOf(rig.daemonUrl)('session-start', { harness: 'claude-code' });
  expect(inject.length).toBeLessThanOrEqual(9_800);
  const soul = truncated.find(({ file }: { file: string }) => file === 'SOUL.md');
  expect(soul).toEqual({ file: 'SOUL.md', given: expect.any(Number), of: SOUL.length, path: join(folder, 'SOUL.md') });
  expect(inject).toContain(SOUL.slice(0, soul.given));
  expect(inject).toContain(`[SOUL.md is cut here: ${soul.given} of ${soul.of} characters are shown. Read the rest in ${soul.path}]`);
  const cli = captureCli(rig);
  expect(await runCli(cli.context, ['agent', 'info', 'default', '--url', rig.daemonUrl])).toBe(0);
  expect(cli.err()).toMatch(
    /sessions of claude-code, codex begin with about \d+ of the \d+ characters of SOUL\.md, and the path to the rest/,
  );
  expect(cli.err()).not.toContain('sessions of the runtime');
});

verifies(
  ['agents.skills.named', 'agents.skills.body'],
  'a session reads the body of a skill by the tool that its first text names',
  async () => {
    const system = await firstRequest('dot');
    expect(system).toContain('- knots: Ties knots that hold');
    expect(system).not.toContain('sails');
    expect(system).not.toContain('bowline');
    const { id } = await rig.client.session.create({ agent: 'dot' });
    rig.model.script([
      {
        toolCalls: [
          { id: 'c1', name: 'skill_read', input: { name: 'knots' } },
          { id: 'c2', name: 'skill_read', input: { name: 'sails' } },
        ],
      },
      { text: 'Tied.' },
    ]);
    await rig.client.session.prompt(id, { content: 'tie it' });
    const results = (await readLog(rig.client, id)).filter(({ name }) => name === 'tool:result').map(({ payload }) => payload);
    expect(results).toMatchObject([
      { id: 'c1', isError: false, output: expect.stringContaining('A bowline never jams.') },
      { id: 'c2', isError: true, error: { code: 'skill_not_found' } },
    ]);
    expect(JSON.stringify(rig.model.requests.at(-1)?.body)).toContain('A bowline never jams.');
  },
);

verifies('agents.skills.body', 'a harness reads the body of a skill over MCP, of its own skills alone', async () => {
  const dot = await connectHttp(rig.daemonUrl, { 'x-signet-agent-id': 'dot' });
  try {
    expect(await dot.call('skill_read', { name: 'knots' })).toMatchObject({
      name: 'knots',
      content: KNOTS,
      total: KNOTS.length,
      next: null,
    });
    expect(await dot.refusal('skill_read', { name: 'sails' })).toContain('skill_not_found');
  } finally {
    await dot.close();
  }
});

verifies('runtime.tool.store.hook', async () => {
  const hook = hooksOf(rig.daemonUrl);
  const store = async (content: string) => {
    const { id, sessionKey } = await rig.client.session.create({ agent: 'dot' });
    const bypass = await call('POST', `${rig.daemonUrl}/api/sessions/${sessionKey}/bypass`, { enabled: true });
    expect(bypass.body).toMatchObject({ bypassed: true });
    rig.model.script([{ toolCalls: [{ id: 'c1', name: 'memory_store', input: { content } }] }, { text: 'Stored.' }]);
    await rig.client.session.prompt(id, { content: 'remember it' });
    return { sessionKey, result: (await readLog(rig.client, id)).find(({ name }) => name === 'tool:result')?.payload };
  };
  const { sessionKey, result } = await store('The spare anchor lies in the bow.');
  expect(result).toMatchObject({ isError: false });
  // The hook is silent there; elsewhere it knows the same memory.
  const content = 'The spare anchor lies in the bow.';
  expect(await hook('remember', { sessionKey, agentId: 'dot', content })).toMatchObject({ saved: false, bypassed: true });
  const again = await hook('remember', { sessionKey: 'awake', agentId: 'dot', content });
  expect(again).toMatchObject({ saved: true, deduped: true });
  expect(JSON.stringify(result)).toContain(again.id);
});
