import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { call, hooksOf } from './calls.ts';
import { verifies } from './verifies.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));

const FILES = {
  'agent.yaml': `agents:
  roster:
    - { name: dot, model: large, skills: [sailing] }
    - { name: miles, personality: voices/gruff.md }
runtime:
  providers:
    other: { kind: openai-compatible, baseUrl: 'http://127.0.0.1:9/v1', model: middle }
`,
  'SOUL.md': 'Soul of the workspace.',
  'AGENTS.md': 'Instructions of the workspace.',
  'USER.md': 'The user is called Kim.',
  'IDENTITY.md': '- **Name:** Root\n',
  'voices/gruff.md': 'Gruff but kind.',
  'agents/dot/SOUL.md': 'Soul of dot.',
  'agents/dot/IDENTITY.md': '- **Name:** Dot the Sailor\n',
  'agents/rose/IDENTITY.md': '- **Name:** Rose\n',
};

let folder: string;
let signet: Signet;
let hook: ReturnType<typeof hooksOf>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signet-agents-'));
  for (const [file, text] of Object.entries(FILES)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
  // Nobody listens there: these tests begin sessions and call no model.
  const env = { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1', SIGNET_PROVIDER: 'openai-compatible', SIGNET_MODEL: 'small' };
  signet = await startSignet({ folder, env });
  hook = hooksOf(signet.daemonUrl);
});
afterAll(async () => {
  await signet.close();
  rmSync(folder, { recursive: true, force: true });
});

const get = (path: string, headers?: Record<string, string>) => call('GET', signet.daemonUrl + path, undefined, headers);
const post = (path: string, body: unknown) => call('POST', signet.daemonUrl + path, body);
const remember = async (body: Record<string, unknown>) => (await post('/api/memory/remember', body)).body;
/** `signet remember` in a process of its own. @returns its exit code */
async function storeInProcess(content: string, agent: string): Promise<number | null> {
  const child = spawn(process.execPath, [LAUNCHER, 'remember', content, '--agent', agent, '--private'], {
    env: { PATH: process.env.PATH, HOME: folder, SIGNET_PATH: folder, SIGNET_DAEMON_URL: signet.daemonUrl },
    stdio: 'ignore',
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code;
}
const contents = ({ results }: { results: { content: string }[] }) => results.map(({ content }) => content).sort();
const recall = async (query: string, agentId?: string) => contents((await post('/api/memory/recall', { query, agentId })).body);
const injectOf = async (agentId?: string): Promise<string> => (await hook('session-start', { agentId })).inject;

describe('agents and their identity', () => {
  verifies(['agents.discover', 'agents.api.list', 'agents.verify.api', 'agents.directory'], async () => {
    const { agents, count } = (await get('/api/agents')).body;
    expect(count).toBe(4);
    expect(agents).toMatchObject([
      { name: 'default', source: 'built-in' },
      { name: 'dot', model: 'large', source: 'roster', folder: true },
      { name: 'miles', source: 'roster', folder: false },
      { name: 'rose', source: 'folder', folder: true },
    ]);
    mkdirSync(join(folder, 'agents', 'late'));
    expect((await get('/api/agents')).body.agents).toContainEqual(expect.objectContaining({ name: 'late', source: 'folder' }));
    rmSync(join(folder, 'agents', 'late'), { recursive: true });
  });

  verifies(
    ['agents.identity.override', 'agents.identity.inherits', 'agents.identity.shared-files', 'agents.identity.no-soul'],
    async () => {
      const dot = await injectOf('dot');
      expect(dot).toContain('You are Dot the Sailor.');
      expect(dot).toContain('Soul of dot.');
      expect(dot).not.toContain('Soul of the workspace.');
      expect(dot).toContain('Instructions of the workspace.');
      expect(dot).toContain('The user is called Kim.');

      const rose = await injectOf('rose');
      expect(rose).toContain('You are Rose.');
      expect(rose).toContain('Soul of the workspace.');
      expect(await injectOf()).toContain('You are Root.');
    },
  );

  verifies('agents.definition.personality', async () => {
    expect(await injectOf('miles')).toContain('Gruff but kind.');
    expect(await injectOf('miles')).not.toContain('Soul of the workspace.');
  });

  verifies('agents.definition.model', async () => {
    const { body } = await call('POST', `${signet.runtimeUrl}/session`, { agent: 'dot' });
    expect(body).toMatchObject({ agent: 'dot', model: 'large' });
    expect((await call('POST', `${signet.runtimeUrl}/session`, { agent: 'rose' })).body.model).toBe('small');
    // One that is set up while it runs, with a provider of its own; a choice for one session still wins.
    await post('/api/agents', { name: 'pat', provider: 'other', model: 'huge' });
    const own = await call('POST', `${signet.runtimeUrl}/session`, { agent: 'pat' });
    expect(own.body).toMatchObject({ agent: 'pat', provider: 'other', model: 'huge' });
    expect((await call('POST', `${signet.runtimeUrl}/session`, { agent: 'pat', model: 'tiny' })).body).toMatchObject({
      provider: 'other',
      model: 'tiny',
    });
    await call('DELETE', `${signet.daemonUrl}/api/agents/pat?folder=true`);
  });
});

describe('what an agent sees', () => {
  verifies(
    ['agents.scope.enforced', 'agents.scope.with-agent', 'agents.scope.without-agent', 'agents.search.scope', 'agents.param.recall'],
    async () => {
      await remember({ content: 'The lantern is lit for everybody.' });
      const secret = await remember({ content: 'The lantern of dot is cracked.', agentId: 'dot', scope: 'private' });

      expect(await recall('lantern', 'dot')).toEqual(['The lantern is lit for everybody.', 'The lantern of dot is cracked.']);
      expect(await recall('lantern', 'rose')).toEqual(['The lantern is lit for everybody.']);
      expect(await recall('lantern')).toEqual(['The lantern is lit for everybody.']);
      expect(contents(await hook('recall', { query: 'lantern', agentId: 'dot' }))).toHaveLength(2);
      expect(contents(await hook('recall', { query: 'lantern', agentId: 'rose' }))).toHaveLength(1);

      expect((await get(`/api/memory/${secret.id}?agentId=dot`)).status).toBe(200);
      for (const asking of ['', '?agentId=rose']) expect((await get(`/api/memory/${secret.id}${asking}`)).status).toBe(404);
      const change = await call('PATCH', `${signet.daemonUrl}/api/memory/${secret.id}`, {
        agentId: 'rose',
        reason: 'curious',
        content: 'mine',
      });
      expect(change.status).toBe(404);
      expect((await hook('session-start', { agentId: 'rose' })).inject).not.toContain('cracked');
      expect((await hook('user-prompt-submit', { agentId: 'rose', prompt: 'the lantern of dot' })).inject).not.toContain('cracked');
      const tool = await call('POST', `${signet.runtimeUrl}/tools/memory_search`, { input: { query: 'lantern' } });
      expect(tool.body.output).toHaveLength(1);
    },
  );

  verifies(['agents.schema.agent-id', 'agents.schema.scope', 'agents.param.remember', 'agents.params.optional'], async () => {
    expect(await remember({ content: 'A note of nobody in particular.' })).toMatchObject({ agentId: 'default', scope: 'global' });
    expect(await remember({ content: 'A note of rose.', agentId: 'rose' })).toMatchObject({ agentId: 'rose', scope: 'global' });
  });

  verifies('agents.hook.remember.scope', async () => {
    const stored = async (body: Record<string, unknown>) => {
      const { id } = await hook('remember', body);
      return (await get(`/api/memory/${id}?agentId=dot`)).body;
    };
    expect(await stored({ content: 'Dot tells all.', agentId: 'dot', scope: 'global' })).toMatchObject({ agentId: 'dot', scope: 'global' });
    expect(await stored({ content: 'Dot whispers.', agentId: 'dot', scope: 'private' })).toMatchObject({
      agentId: 'dot',
      scope: 'private',
    });
    expect((await post('/api/hooks/remember', { harness: 'test', content: 'x', agentId: 'dot', scope: 'planetary' })).status).toBe(400);
  });

  verifies('agents.hook.recall.scope', async () => {
    await remember({ content: 'The windlass is for everybody.', agentId: 'dot' });
    await remember({ content: 'The windlass creaks, says dot.', agentId: 'dot', scope: 'private' });
    const found = async (body: Record<string, unknown>) => contents(await hook('recall', { query: 'windlass', ...body }));
    expect(await found({ agentId: 'dot' })).toHaveLength(2);
    expect(await found({ agentId: 'dot', scope: 'global' })).toEqual(['The windlass is for everybody.']);
    expect(await found({ agentId: 'dot', scope: 'private' })).toEqual(['The windlass creaks, says dot.']);
    expect(await found({ agentId: 'rose', scope: 'private' })).toEqual([]);
    expect((await post('/api/hooks/recall', { harness: 'test', query: 'windlass', scope: 'archived' })).status).toBe(400);
  });

  verifies('agents.search.limit-after-scope', async () => {
    for (let index = 0; index < 5; index += 1) {
      await remember({ content: `Compass compass compass of dot, number ${index}.`, agentId: 'dot', scope: 'private' });
    }
    for (let index = 0; index < 3; index += 1)
      await remember({ content: `One compass among many other things on the shelf, number ${index}.` });
    const { results } = (await post('/api/memory/recall', { query: 'compass', agentId: 'rose', limit: 3 })).body;
    expect(results).toHaveLength(3);
    expect(contents({ results }).join()).not.toContain('of dot');
  });

  verifies(
    ['agents.one-daemon', 'agents.write.concurrent'],
    'harnesses of two agents in processes of their own write at once',
    async () => {
      const writes = Array.from({ length: 8 }, (_, index) => storeInProcess(`Parallel entry ${index}.`, index % 2 === 0 ? 'dot' : 'rose'));
      expect(await Promise.all(writes)).toEqual(Array.from({ length: 8 }, () => 0));
      const seen = async (agentId: string) =>
        (await post('/api/memory/recall', { query: 'parallel entry', agentId, limit: 100 })).body.count;
      expect([await seen('dot'), await seen('rose')]).toEqual([4, 4]);
      expect(
        readdirSync(join(folder, 'data'))
          .filter((file) => file.endsWith('.db'))
          .sort(),
      ).toContain('memory.db');
      expect(readdirSync(folder, { recursive: true }).filter((file) => String(file).endsWith('memory.db'))).toHaveLength(1);
    },
  );
});

describe('workspaces and their configuration', () => {
  async function inWorkspace<T>(yaml: string | undefined, use: (signet: Signet, path: string) => Promise<T>): Promise<T> {
    const path = mkdtempSync(join(tmpdir(), 'signet-agents-'));
    if (yaml !== undefined) writeFileSync(join(path, 'agent.yaml'), yaml);
    try {
      const running = await startSignet({ folder: path });
      return await use(running, path).finally(() => running.close());
    } finally {
      rmSync(path, { recursive: true, force: true });
    }
  }

  verifies(['agents.roster.optional', 'agents.upgrade.old-config', 'agents.verify.single-agent'], async () => {
    await inWorkspace('version: 1\nagent: { name: Solo }\n', async (solo) => {
      const solosHook = hooksOf(solo.daemonUrl);
      expect((await call('GET', `${solo.daemonUrl}/api/agents`)).body.agents).toMatchObject([{ name: 'default', source: 'built-in' }]);
      await solosHook('remember', { sessionKey: 's', content: 'The anchor is rusty.' });
      expect((await solosHook('session-start', { sessionKey: 's' })).inject).toMatch(/^You are Solo\.[\s\S]*The anchor is rusty\./);
      expect(contents(await solosHook('recall', { sessionKey: 's', query: 'anchor' }))).toEqual(['The anchor is rusty.']);
      expect((await call('POST', `${solo.runtimeUrl}/session`, {})).body.agent).toBe('default');
    });
  });

  verifies(
    ['agents.roster.name-required', 'agents.roster.names-unique', 'agents.definition.name', 'agents.definition.skills'],
    async () => {
      const refusal = (yaml: string) => inWorkspace(yaml, async () => 'started').catch((error: Error) => error.message);
      expect(await refusal('agents: { roster: [{ name: dot, skills: [sailing, knots] }] }\n')).toBe('started');
      expect(await refusal('agents:\n  roster:\n    - model: large\n')).toMatch(/agent\.yaml:3:\d+ .*name/);
      expect(await refusal('agents: { roster: [{ name: dot }, { name: dot }] }\n')).toMatch(/agent\.yaml:1:\d+ .*dot/);
      expect(await refusal('agents: { roster: [{ name: dot, skills: sailing }] }\n')).toMatch(/agent\.yaml:1:\d+ .*skills/);
    },
  );

  verifies('agents.archived.hidden', async () => {
    const path = mkdtempSync(join(tmpdir(), 'signet-agents-'));
    const first = await startSignet({ folder: path });
    const url = (running: Signet, rest: string) => running.daemonUrl + rest;
    const { id } = (
      await call('POST', url(first, '/api/memory/remember'), { content: 'Miles lost a glove.', agentId: 'miles', scope: 'private' })
    ).body;
    await first.close();
    const db = new DatabaseSync(join(path, 'data', 'memory.db'));
    db.prepare("UPDATE memories SET scope = 'archived' WHERE id = ?").run(id);
    db.close();

    const second = await startSignet({ folder: path });
    for (const agentId of ['miles', undefined]) {
      expect((await call('POST', url(second, '/api/memory/recall'), { query: 'glove', agentId })).body.results).toEqual([]);
    }
    expect((await call('GET', url(second, `/api/memory/${id}?agentId=miles`))).status).toBe(404);
    expect((await hooksOf(second.daemonUrl)('session-start', { agentId: 'miles' })).inject).not.toContain('glove');
    await second.close();
    rmSync(path, { recursive: true, force: true });
  });
});
