import { symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { AgentYaml } from '../../src/contract/config.ts';
import { loadIdentity } from '../../src/daemon/identity.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';

const config = AgentYaml.parse({});

test("an agent's own files come first, the workspace's fill the gaps", () => {
  const folder = tempFolder({
    'SOUL.md': 'root soul',
    'USER.md': 'root user\n',
    'IDENTITY.md': '- **Name:** Root',
    'agents/dot/SOUL.md': 'dot soul',
    'agents/dot/USER.md': '   ',
  });
  const dot = loadIdentity({ folder, config }, 'dot');
  expect(dot.files).toEqual({ 'SOUL.md': 'dot soul', 'USER.md': 'root user', 'IDENTITY.md': '- **Name:** Root' });
  expect(dot.origins).toEqual({ 'SOUL.md': 'agent', 'USER.md': 'workspace', 'IDENTITY.md': 'workspace' });
  expect(dot.name).toBe('dot');
  expect(loadIdentity({ folder, config })).toMatchObject({ name: 'Root', files: { 'SOUL.md': 'root soul' } });
});

test('the name: agent.yaml, then IDENTITY.md; an agent goes by its own', () => {
  const folder = tempFolder({
    'IDENTITY.md': '# Identity\n\nname: Mr. Claude\ndescription: Personal AI assistant\n',
    'agents/dot/IDENTITY.md': '**Name**: Dot the Great\n',
  });
  expect(loadIdentity({ folder, config })).toMatchObject({ name: 'Mr. Claude', description: 'Personal AI assistant' });
  const named = AgentYaml.parse({ agent: { name: 'Ada' } });
  expect(loadIdentity({ folder, config: named })).toMatchObject({ name: 'Ada', description: 'Personal AI assistant' });
  expect(loadIdentity({ folder, config: named }, 'dot')).toMatchObject({ name: 'Dot the Great' });
  expect(loadIdentity({ folder: tempFolder(), config })).toMatchObject({ name: undefined, files: {} });
});

test('personality of the roster is the soul, as long as it stays in the workspace', () => {
  const outside = tempFolder({ 'secret.md': 'secret' });
  const folder = tempFolder({ 'SOUL.md': 'root', 'souls/calm.md': 'calm' });
  const soul = (personality: string) => {
    const roster = AgentYaml.parse({ agents: { roster: [{ name: 'dot', personality }] } });
    return loadIdentity({ folder, config: roster }, 'dot').files['SOUL.md'];
  };
  expect(soul('souls/calm.md')).toBe('calm');
  expect(soul(join(outside, 'secret.md'))).toBe('root');
  expect(soul('../../../../../etc/passwd')).toBe('root');
});

test.each(['.secrets/key', '.daemon/tokens.json', 'data/notes.md', 'link.md', 'folder/key', './souls/../.secrets/key'])(
  'personality %s is not read: keys and data are no text for a model',
  (personality) => {
    const secret = 'k3y-of-the-vault';
    const folder = tempFolder({
      'SOUL.md': 'root',
      '.secrets/key': secret,
      '.daemon/tokens.json': secret,
      'data/notes.md': secret,
      'souls/a': '',
    });
    symlinkSync(join('.secrets', 'key'), join(folder, 'link.md'));
    symlinkSync('.secrets', join(folder, 'folder'));
    const roster = AgentYaml.parse({ agents: { roster: [{ name: 'dot', personality }] } });
    const dot = loadIdentity({ folder, config: roster }, 'dot');
    expect(dot.files).toEqual({ 'SOUL.md': 'root' });
    expect(dot.warnings).toEqual([`personality ${personality} leads into one of .daemon, .secrets, data: it is not read`]);
  },
);

test('SOUL.md that is a link to the key, or to a folder of keys that lies elsewhere, is not read', () => {
  const folder = tempFolder({ 'private/key': 'k3y', 'agents/dot/x': '' });
  symlinkSync('private', join(folder, '.secrets'));
  symlinkSync(join(folder, '.secrets', 'key'), join(folder, 'SOUL.md'));
  symlinkSync(join(folder, 'private', 'key'), join(folder, 'agents', 'dot', 'SOUL.md'));
  const dot = loadIdentity({ folder, config }, 'dot');
  expect(dot.files).toEqual({});
  expect(dot.warnings).toEqual([
    `${join('agents', 'dot', 'SOUL.md')} leads into one of .daemon, .secrets, data: it is not read`,
    'SOUL.md leads into one of .daemon, .secrets, data: it is not read',
  ]);
});

test.each([
  ['souls/none.md', 'is no file with text'],
  ['souls/blank.md', 'is no file with text'],
  ['souls', 'is no file with text'],
  ['../elsewhere.md', 'leads out of the workspace: it is not read'],
])('personality %s is told of, and the next soul counts', (personality, problem) => {
  const folder = tempFolder({ 'SOUL.md': 'root', 'souls/blank.md': ' \n' });
  const roster = AgentYaml.parse({ agents: { roster: [{ name: 'dot', personality }] } });
  const { files, warnings } = loadIdentity({ folder, config: roster }, 'dot');
  expect([files['SOUL.md'], warnings]).toEqual(['root', [`personality ${personality} ${problem}`]]);
});

test.each(['..', '../x', 'a/b', 'A', '', '.hidden', 'x'.repeat(65), 'a\0b'])('%j is no agent', (name) => {
  expect(() => loadIdentity({ folder: tempFolder(), config }, name)).toThrow(expect.objectContaining({ code: 'invalid_request' }));
});

test('a link out of the workspace is taken as absent, one within is followed', () => {
  const outside = tempFolder({ 'secret.md': 'secret' });
  const folder = tempFolder({ 'notes/soul.md': 'within', 'agents/dot/x': '' });
  symlinkSync(join(outside, 'secret.md'), join(folder, 'USER.md'));
  symlinkSync(join(folder, 'notes', 'soul.md'), join(folder, 'SOUL.md'));
  symlinkSync(outside, join(folder, 'agents', 'rose'));
  expect(loadIdentity({ folder, config }).files).toEqual({ 'SOUL.md': 'within' });
});

test('a folder in place of a file is taken as absent', () => {
  expect(loadIdentity({ folder: tempFolder({ 'SOUL.md/x': '' }), config }).files).toEqual({});
});

test('invalid UTF-8 is replaced, a huge file cut at a whole character', () => {
  const folder = tempFolder({ 'SOUL.md': Buffer.from([0x61, 0xff, 0x62]), 'USER.md': `a${'é'.repeat(1_000_000)}` });
  const { files } = loadIdentity({ folder, config });
  expect(files['SOUL.md']).toBe('a\ufffdb');
  expect(files['USER.md']).toBe(`a${'é'.repeat(524_287)}`);
});

test('a changed file is read again', () => {
  const folder = tempFolder({ 'SOUL.md': 'one' });
  expect(loadIdentity({ folder, config }).files['SOUL.md']).toBe('one');
  writeFileSync(join(folder, 'SOUL.md'), 'two');
  utimesSync(join(folder, 'SOUL.md'), 1, 1);
  expect(loadIdentity({ folder, config }).files['SOUL.md']).toBe('two');
});
