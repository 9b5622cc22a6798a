import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { readAgentYaml } from '../../src/daemon/agent-yaml.ts';
import { verifies } from '../conformance/verifies.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';

const SKILLS = { 'skills/sailing/SKILL.md': '# Sailing', 'skills/knots/SKILL.md': '# Knots', 'skills/not-one/README.md': '' };
const WORKSPACE = {
  ...SKILLS,
  'SOUL.md': 'Soul of the workspace.',
  'AGENTS.md': 'Instructions of the workspace.',
  'agent.yaml': `# mine
agents:
  # everybody
  roster:
    - name: dot # a sailor
      skills: [sailing]
    - { name: miles, skills: [] }
    - name: rose
`,
};

const names = async (daemon: DaemonServer): Promise<string[]> =>
  (await daemon.get('/api/agents')).body.agents.map(({ name }: { name: string }) => name);
const yamlOf = (daemon: DaemonServer): string => readFileSync(join(daemon.folder, 'agent.yaml'), 'utf8');
const remember = async (daemon: DaemonServer, content: string, more: object = {}): Promise<string> =>
  (await daemon.post('/api/memory/remember', { content, ...more })).body.id;
const found = async (daemon: DaemonServer, query: string, agentId?: string): Promise<string[]> =>
  (await daemon.post('/api/memory/recall', { query, agentId })).body.results.map(({ content }: { content: string }) => content);

describe('GET /api/agents/:name', () => {
  verifies(['agents.api.get.identity', 'agents.api.get.skills', 'agents.skills.filter', 'agents.skills.shared-pool'], async () => {
    const daemon = await serveDaemon({ files: { ...WORKSPACE, 'agents/dot/SOUL.md': 'Soul of dot.' } });
    await remember(daemon, 'Dot tells all.', { agentId: 'dot' });
    await remember(daemon, 'Dot whispers.', { agentId: 'dot', scope: 'private' });
    const { status, body } = await daemon.get('/api/agents/dot');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      name: 'dot',
      source: 'roster',
      skills: ['sailing'],
      skills_allowed: ['sailing'],
      memories: { global: 1, private: 1, archived: 0 },
      warnings: [],
    });
    expect(body.identity.files).toEqual([
      { name: 'AGENTS.md', origin: 'workspace', path: 'AGENTS.md', content: 'Instructions of the workspace.' },
      { name: 'SOUL.md', origin: 'agent', path: join('agents', 'dot', 'SOUL.md'), content: 'Soul of dot.' },
    ]);
    expect(body.identity.missing).toEqual(['IDENTITY.md', 'USER.md', 'TOOLS.md', 'MEMORY.md']);
  });

  verifies(['agents.skills.missing-list', 'agents.skills.empty-list', 'agents.skills.allowlist'], async () => {
    const daemon = await serveDaemon({ files: WORKSPACE });
    const { agents } = (await daemon.get('/api/agents')).body;
    const skillsOf = (name: string) => agents.find((agent: { name: string }) => agent.name === name).skills;
    expect(skillsOf('rose')).toEqual(['knots', 'sailing']);
    expect(skillsOf('miles')).toEqual([]);
    expect(skillsOf('dot')).toEqual(['sailing']);
    expect((await daemon.get('/api/agents/rose')).body.skills_allowed).toBe(null);
  });

  verifies('agents.api.get.unknown', async () => {
    const daemon = await serveDaemon();
    const { status, body } = await daemon.get('/api/agents/nobody');
    expect([status, body.code]).toEqual([404, 'agent_not_found']);
    expect(body.detail).toContain('signet agent add nobody');
    expect((await daemon.get('/api/agents/..%2Fx')).status).toBe(400);
  });

  test('a damaged SOUL.md is shown with a warning', async () => {
    const daemon = await serveDaemon({ files: WORKSPACE });
    mkdirSync(join(daemon.folder, 'agents', 'dot'), { recursive: true });
    writeFileSync(join(daemon.folder, 'agents', 'dot', 'SOUL.md'), Buffer.from([0x43, 0x61, 0xff, 0xfe, 0x6d]));
    const { status, body } = await daemon.get('/api/agents/dot');
    expect([status, body.warnings]).toEqual([200, [expect.stringMatching(/^agents.dot.SOUL\.md is not valid UTF-8/)]]);
    expect((await daemon.post('/api/hooks/session-start', { harness: 'test', agentId: 'dot' })).body.inject).toContain('Ca');
  });
});

describe('POST /api/agents', () => {
  verifies(['agents.api.create', 'agents.scaffold'], async () => {
    const daemon = await serveDaemon({ files: WORKSPACE });
    const { status, body } = await daemon.post('/api/agents', { name: 'kim', soul: 'Loves charts.', model: 'large', skills: ['knots'] });
    expect(status).toBe(201);
    expect(body).toMatchObject({ name: 'kim', source: 'roster', model: 'large', skills: ['knots'], folder: true });
    expect(readFileSync(join(daemon.folder, 'agents', 'kim', 'SOUL.md'), 'utf8')).toBe('# Soul of kim\n\nLoves charts.\n');
    expect(readFileSync(join(daemon.folder, 'agents', 'kim', 'IDENTITY.md'), 'utf8')).toContain('**Name:** Kim');
    // What was said in the file is still there, and it takes effect at once.
    for (const comment of ['# mine', '# everybody', '# a sailor']) expect(yamlOf(daemon)).toContain(comment);
    expect(readAgentYaml(daemon.folder).config.agents?.roster.at(-1)).toEqual({ name: 'kim', model: 'large', skills: ['knots'] });
    expect((await daemon.post('/api/hooks/session-start', { harness: 'test', agentId: 'kim' })).body.inject).toContain('You are Kim');
    const again = await daemon.post('/api/agents', { name: 'kim' });
    expect([again.status, again.body.code]).toEqual([409, 'agent_exists']);
  });

  test('an agent that could not be written whole leaves nothing behind, and is set up when it is asked for again', async () => {
    const daemon = await serveDaemon({ files: { ...WORKSPACE, 'agents/kim/IDENTITY.md.part/in-the-way': '' } });
    const home = join(daemon.folder, 'agents', 'kim');
    const refused = await daemon.post('/api/agents', { name: 'kim', soul: 'Loves charts.' });
    expect([refused.status, refused.body.code]).toEqual([500, 'workspace_unwritable']);
    expect(readdirSync(home)).toEqual(['IDENTITY.md.part']);
    rmSync(join(home, 'IDENTITY.md.part'), { recursive: true });
    expect((await daemon.post('/api/agents', { name: 'kim', soul: 'Loves the sea.' })).status).toBe(201);
    expect(readdirSync(home).sort()).toEqual(['IDENTITY.md', 'SOUL.md']);
    expect(readFileSync(join(home, 'SOUL.md'), 'utf8')).toContain('Loves the sea.');
  });

  test('a roster that cannot be written leaves nothing behind, and a planted link is not written through', async () => {
    const daemon = await serveDaemon({ files: { ...WORKSPACE, 'agent.yaml.part/x': '', victim: 'kept' } });
    const failed = await daemon.post('/api/agents', { name: 'kim', soul: 'Loves charts.' });
    expect([failed.status, failed.body.code]).toEqual([500, 'workspace_unwritable']);
    expect(failed.body.detail).toContain('it stands as it was');
    expect(existsSync(join(daemon.folder, 'agents', 'kim'))).toBe(false);
    rmSync(join(daemon.folder, 'agent.yaml.part'), { recursive: true });
    symlinkSync(join(daemon.folder, 'victim'), join(daemon.folder, 'agent.yaml.part'));
    expect((await daemon.post('/api/agents', { name: 'kim', soul: 'Loves charts.' })).status).toBe(201);
    expect(readFileSync(join(daemon.folder, 'victim'), 'utf8')).toBe('kept');
  });

  test.each([
    ['no file at all', undefined],
    ['an empty file', ''],
    ['comments alone', '# nothing here\n'],
    ['agents with nothing below', 'agents:\nversion: 1 # one\n'],
    ['a roster with nothing below', 'agents:\n  roster:\n'],
    ['a roster in one line', 'agents: { roster: [{ name: dot }] } # all\n'],
    ['Windows lines', 'version: 1 # one\r\nagents:\r\n  roster:\r\n    - name: dot\r\n'],
  ])('finds a place in %s', async (_name, yaml) => {
    const daemon = await serveDaemon({ files: yaml === undefined ? {} : { 'agent.yaml': yaml } });
    expect((await daemon.post('/api/agents', { name: 'kim' })).status).toBe(201);
    expect(await names(daemon)).toContain('kim');
    for (const comment of (yaml ?? '').match(/# \w+/g) ?? []) expect(yamlOf(daemon)).toContain(comment);
    expect(readAgentYaml(daemon.folder).config.agents?.roster.map(({ name }) => name)).toContain('kim');
    if (yaml?.includes('\r\n')) expect(yamlOf(daemon)).not.toMatch(/[^\r]\n/);
    await daemon.restart();
    expect(await names(daemon)).toContain('kim');
  });

  test('files that are there stay, and a folder can join the roster', async () => {
    const daemon = await serveDaemon({ files: { 'agents/kim/SOUL.md': 'My own words.', 'agents/kim/notes.txt': 'kept' } });
    const refused = await daemon.post('/api/agents', { name: 'kim', roster: false });
    expect([refused.status, refused.body.code]).toEqual([409, 'agent_exists']);
    const { body } = await daemon.post('/api/agents', { name: 'kim' });
    expect(body.created).toEqual([join('agents', 'kim', 'IDENTITY.md')]);
    expect(readFileSync(join(daemon.folder, 'agents', 'kim', 'SOUL.md'), 'utf8')).toBe('My own words.');
  });

  test('an agent that is refused leaves nothing behind', async () => {
    const daemon = await serveDaemon({ files: WORKSPACE });
    const before = yamlOf(daemon);
    const { status, body } = await daemon.post('/api/agents', { name: 'kim', skills: ['flying'] });
    expect([status, body.code]).toEqual([400, 'config_invalid']);
    expect(body.detail).toMatch(/agent\.yaml:\d+:\d+ agents\.roster\.3\.skills\.0: no skill "flying"; skills in skills\/: knots, sailing/);
    expect(yamlOf(daemon)).toBe(before);
    expect(existsSync(join(daemon.folder, 'agents', 'kim'))).toBe(false);
  });

  test('a file that is not valid now is not touched', async () => {
    const daemon = await serveDaemon({ files: WORKSPACE });
    writeFileSync(join(daemon.folder, 'agent.yaml'), 'agents: [broken');
    expect((await daemon.post('/api/agents', { name: 'kim' })).body.code).toBe('config_invalid');
    expect(yamlOf(daemon)).toBe('agents: [broken');
  });

  test.each(['../x', 'CON', 'con', 'lpt1', '🦞', 'x'.repeat(300), 'Dot', 'a b', '', '.hidden', 'a/b'])(
    'refuses the name %j',
    async (name) => {
      const daemon = await serveDaemon();
      const { status, body } = await daemon.post('/api/agents', { name });
      expect([status, body.code]).toEqual([400, 'invalid_request']);
      expect(body.errors).toEqual([expect.objectContaining({ pointer: '/name', detail: expect.stringContaining('must') })]);
      expect(existsSync(join(daemon.folder, 'agents'))).toBe(false);
    },
  );

  test('a name that is suggested for a refused one is taken', async () => {
    const daemon = await serveDaemon();
    const { body } = await daemon.post('/api/agents', { name: 'CON' });
    const [, suggested] = /did you mean "(.+)"/.exec(body.errors[0].detail) ?? [];
    expect(suggested).toBe('con-agent');
    expect((await daemon.post('/api/agents', { name: suggested })).status).toBe(201);
  });

  test('refuses a name that a folder has in another case, and a folder that leads out of the workspace', async () => {
    const outside = tempFolder();
    const daemon = await serveDaemon({ files: { 'agents/Kim/SOUL.md': '' } });
    expect((await daemon.post('/api/agents', { name: 'kim' })).body.detail).toContain('differs from "kim" by case alone');
    expect((await daemon.get('/api/agents')).body.problems).toEqual([
      expect.stringMatching(/^agents\/Kim is no agent: .*rename it to kim$/),
    ]);
    symlinkSync(outside, join(daemon.folder, 'agents', 'eve'));
    expect((await daemon.post('/api/agents', { name: 'eve' })).body).toMatchObject({ code: 'workspace_unwritable' });
    expect(existsSync(join(outside, 'SOUL.md'))).toBe(false);
  });

  test('many at once all find their place', async () => {
    const daemon = await serveDaemon({ files: WORKSPACE });
    const added = await Promise.all(Array.from({ length: 12 }, (_, index) => daemon.post('/api/agents', { name: `agent-${index}` })));
    expect(added.map(({ status }) => status)).toEqual(Array(12).fill(201));
    expect(readAgentYaml(daemon.folder).config.agents?.roster).toHaveLength(15);
  });
});

describe('DELETE /api/agents/:name', () => {
  verifies(['agents.api.delete', 'agents.api.delete.keeps-folder', 'agents.archive'], async () => {
    const daemon = await serveDaemon({ files: { ...WORKSPACE, 'agents/dot/SOUL.md': 'Soul of dot.' } });
    const older = await remember(daemon, 'The harbour opens at six.');
    await remember(daemon, 'The harbour opens at seven.', { agentId: 'dot', supersedes: older, idempotencyKey: 'k' });
    await remember(daemon, 'The harbour is deep, thinks dot.', { agentId: 'dot', scope: 'private' });
    await remember(daemon, 'The harbour is deep, thinks dot.', { agentId: 'dot' });
    expect((await daemon.get(`/api/memory/${older}`)).body.superseded_by).not.toBe(null);

    const { status, body } = await daemon.call('DELETE', '/api/agents/dot');
    expect([status, body]).toEqual([200, { success: true, name: 'dot', archived: 3, purged: 0, roster: true, folder: false }]);
    for (const agentId of ['dot', 'rose', undefined])
      expect(await found(daemon, 'harbour', agentId)).toEqual(['The harbour opens at six.']);
    expect((await daemon.get(`/api/memory/${older}`)).body.superseded_by).toBe(null);
    expect((await daemon.get('/api/agents/dot')).body).toMatchObject({
      source: 'folder',
      memories: { global: 0, private: 0, archived: 3 },
    });
    expect(existsSync(join(daemon.folder, 'agents', 'dot', 'SOUL.md'))).toBe(true);
    expect(yamlOf(daemon)).toContain('# everybody');
    expect(readAgentYaml(daemon.folder).config.agents?.roster.map(({ name }) => name)).toEqual(['miles', 'rose']);
    // Nothing was deleted: a backup has all of them.
    expect((await daemon.get('/api/memories/export?all=1')).body.match(/"archived"/g)).toHaveLength(3);
    // An agent of that name starts anew, and may be removed again, with the same words.
    await daemon.post('/api/agents', { name: 'dot' });
    await remember(daemon, 'The harbour is deep, thinks dot.', { agentId: 'dot', idempotencyKey: 'k' });
    expect((await daemon.call('DELETE', '/api/agents/dot')).body.archived).toBe(1);
  });

  test('after a purge no file in data/ holds the words, not those of the search index either', async () => {
    const daemon = await serveDaemon({ files: WORKSPACE });
    for (let at = 0; at < 300; at += 1)
      await remember(daemon, `zyxwut${at} qponmlk of dot ${'and so on '.repeat(at % 30)}`, { agentId: 'dot' });
    await remember(daemon, 'A pelican of rose.', { agentId: 'rose' });
    const gone = await remember(daemon, 'Forgotten vutsrqp.', { agentId: 'dot' });
    await daemon.call('DELETE', `/api/memory/${gone}?reason=test`);
    const holding = (word: string) =>
      readdirSync(join(daemon.folder, 'data')).filter((file) => readFileSync(join(daemon.folder, 'data', file)).includes(word));
    await daemon.restart();
    expect(holding('qponmlk')).toContain('memory.db');
    expect((await daemon.call('DELETE', '/api/agents/dot?purge=true')).body.purged).toBe(301);
    const words = ['zyxwut', 'qponmlk', 'vutsrqp'];
    expect(words.flatMap(holding)).toEqual([]);
    await daemon.restart();
    expect(words.flatMap(holding)).toEqual([]);
    expect(await found(daemon, 'pelican')).toEqual(['A pelican of rose.']);
  });

  test('purge revokes the tokens of the agent and no others', async () => {
    const daemon = await serveDaemon({ files: WORKSPACE });
    const make = async (name: string, agent?: string) =>
      (await daemon.post('/api/tokens', { name, role: 'agent', agent, expiresInDays: null })).body.id;
    const ids = [await make('dot 1', 'dot'), await make('dot 2', 'dot'), await make('rose', 'rose'), await make('any')];
    expect(ids).toEqual(ids.map(() => expect.any(String)));
    const valid = async () => (await daemon.get('/api/tokens')).body.tokens.map(({ name }: { name: string }) => name);
    await daemon.call('DELETE', '/api/agents/rose');
    expect(await valid()).toHaveLength(4);
    await daemon.call('DELETE', '/api/agents/dot?purge=true');
    expect(await valid()).toEqual(['rose', 'any']);
  });

  test('purge deletes memories, what sessions left behind, and the folder, also of an agent removed before', async () => {
    const daemon = await serveDaemon({ files: { ...WORKSPACE, 'agents/dot/SOUL.md': 'Soul of dot.' } });
    const secret = await remember(daemon, 'Dot hid the treasure.', { agentId: 'dot', scope: 'private' });
    await remember(daemon, 'The treasure map is on the wall.', { agentId: 'rose' });
    await daemon.post('/api/memory/feedback', { agentId: 'dot', sessionKey: 's', feedback: { [secret]: 1 } });
    const transcript = [{ role: 'user', content: 'Where is the treasure of dot?' }];
    await daemon.post('/api/hooks/session-start', { harness: 'test', sessionKey: 's', agentId: 'dot' });
    await daemon.post('/api/hooks/session-end', { harness: 'test', sessionKey: 's', agentId: 'dot', transcript });
    const letter = { content: 'Dig at the third palm.', from_agent_id: 'dot', to_agent_id: 'rose' };
    expect((await daemon.post('/api/cross-agent/messages', letter)).status).toBe(200);
    await daemon.call('DELETE', '/api/agents/dot?folder=true');
    expect(existsSync(join(daemon.folder, 'agents', 'dot'))).toBe(false);

    const { body } = await daemon.call('DELETE', '/api/agents/dot?purge=true');
    expect(body).toEqual({ success: true, name: 'dot', archived: 0, purged: 1, roster: false, folder: false });
    expect(await found(daemon, 'treasure', 'rose')).toEqual(['The treasure map is on the wall.']);
    expect((await daemon.call('DELETE', '/api/agents/dot?purge=true')).body.code).toBe('agent_not_found');
    const db = new DatabaseSync(join(daemon.folder, 'data', 'memory.db'), { readOnly: true });
    expect(db.prepare('SELECT count(*) AS n FROM agent_messages').get()?.n).toBe(0);
    const tables = db
      .prepare(`SELECT t.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE c.name = 'agent_id' AND t.type = 'table'`)
      .all();
    const left = tables.filter(({ name }) => db.prepare(`SELECT 1 FROM "${name}" WHERE agent_id = 'dot' LIMIT 1`).get() !== undefined);
    const history = db.prepare('SELECT count(*) AS n FROM memory_history WHERE memory_id = ?').get(secret);
    db.close();
    expect(tables.length).toBeGreaterThan(5);
    expect(left).toEqual([]);
    expect(history).toEqual({ n: 0 });
  });

  test('the default agent stays, an unknown one is 404, and the bindings of a removed one go', async () => {
    const yaml = `agents:
  roster: [{ name: dot }, { name: rose }]
  openclaw:
    bindings:
      - { agent: dot, match: { channel: telegram } }
      - { agent: rose, match: { channel: signal } }
`;
    const daemon = await serveDaemon({ files: { 'agent.yaml': yaml } });
    expect((await daemon.post('/api/agents', { name: 'default' })).body).toMatchObject({ status: 409, code: 'agent_exists' });
    expect(existsSync(join(daemon.folder, 'agents', 'default'))).toBe(false);
    expect((await daemon.call('DELETE', '/api/agents/default')).body).toMatchObject({ status: 409, code: 'agent_protected' });
    expect((await daemon.call('DELETE', '/api/agents/nobody')).body).toMatchObject({ status: 404, code: 'agent_not_found' });
    expect((await daemon.call('DELETE', '/api/agents/dot')).status).toBe(200);
    expect(readAgentYaml(daemon.folder).config.agents?.openclaw?.bindings).toEqual([{ agent: 'rose', match: { channel: 'signal' } }]);
  });

  test('a folder that is a link is taken away; what it leads to stays', async () => {
    const outside = tempFolder({ 'SOUL.md': 'kept' });
    const daemon = await serveDaemon({ files: { 'agent.yaml': 'agents: { roster: [{ name: dot }] }\n', 'agents/x/y': '' } });
    symlinkSync(outside, join(daemon.folder, 'agents', 'dot'));
    expect((await daemon.call('DELETE', '/api/agents/dot?purge=true')).body.folder).toBe(true);
    expect(readFileSync(join(outside, 'SOUL.md'), 'utf8')).toBe('kept');
  });
});

verifies('agents.roster.skills-exist', async () => {
  const refusal = (yaml: string): string => {
    try {
      return readAgentYaml(tempFolder({ ...SKILLS, 'agent.yaml': yaml })).problems.join();
    } catch (error) {
      return (error as Error).message;
    }
  };
  expect(refusal('agents:\n  roster:\n    - name: dot\n      skills: [sailing, flying]\n')).toMatch(
    /agent\.yaml:4:25 agents\.roster\.0\.skills\.1: no skill "flying"; skills in skills\/: knots, sailing/,
  );
  expect(refusal('agents: { roster: [{ name: dot, skills: [sailing, knots] }] }\n')).toBe('');
  // Without a pool there is nothing to compare with: it is said, and nothing is refused.
  const { problems } = readAgentYaml(tempFolder({ 'agent.yaml': 'agents: { roster: [{ name: dot, skills: [sailing] }] }\n' }));
  expect(problems).toEqual([expect.stringContaining('no skill "sailing"')]);
});

test('names of the roster: devices, case, and bindings to nobody are refused at their place', () => {
  const refusal = (yaml: string) => () => readAgentYaml(tempFolder({ 'agent.yaml': yaml }));
  expect(refusal('agents:\n  roster:\n    - name: con\n')).toThrow(
    /agent\.yaml:3:7 agents\.roster\.0\.name: must not be the name of a device/,
  );
  expect(refusal('agents:\n  roster:\n    - name: dot\n    - name: Dot\n')).toThrow(
    /agent\.yaml:4:7 agents\.roster\.1\.name: must be 1 to 64/,
  );
  expect(refusal('agents:\n  openclaw:\n    bindings:\n      - { agent: eve, match: {} }\n')).toThrow(
    /agent\.yaml:4:11 agents\.openclaw\.bindings\.0\.agent: no agent "eve"/,
  );
});
