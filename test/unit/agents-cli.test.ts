import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import { readAgentYaml } from '../../src/daemon/agent-yaml.ts';
import { verifies } from '../conformance/verifies.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';

const FILES = {
  'agent.yaml': '# mine\nagents:\n  roster:\n    - name: rose # the gardener\n',
  'SOUL.md': 'Soul of all.',
  'skills/sailing/SKILL.md': '',
  'skills/knots/SKILL.md': '',
};

/** Run one command line against a daemon; `tty` answers on a terminal. */
async function signet(daemon: DaemonServer, argv: readonly string[], { stdin = '', tty = false } = {}) {
  const cli = captureCli({ folder: daemon.folder, runtimeUrl: '' });
  const input = cli.context.stdin as unknown as PassThrough & { isTTY?: boolean };
  if (tty) input.isTTY = true;
  input.end(stdin);
  const context = { ...cli.context, env: { HOME: daemon.folder, SIGNET_DAEMON_URL: daemon.url } };
  const code = await runCli(context, argv);
  return { code, out: cli.out(), err: cli.err() };
}

const soulOf = (daemon: DaemonServer, name: string): string => readFileSync(join(daemon.folder, 'agents', name, 'SOUL.md'), 'utf8');
const rosterOf = (daemon: DaemonServer) => readAgentYaml(daemon.folder).config.agents?.roster;

verifies(['cli.agent.add.scaffolds', 'cli.agent.add.roster', 'agents.verify.add'], async () => {
  const daemon = await serveDaemon({ files: FILES });
  const added = await signet(daemon, ['agent', 'add', 'dot']);
  const files = ['SOUL.md', 'IDENTITY.md'].map((file) => join('agents', 'dot', file));
  expect(added).toEqual({ code: 0, out: `dot is set up: ${files.join(', ')}, agents.roster in agent.yaml\n`, err: '' });
  for (const file of files) expect(existsSync(join(daemon.folder, file))).toBe(true);
  expect(soulOf(daemon, 'dot')).toContain('Soul of dot');
  expect(rosterOf(daemon)).toEqual([{ name: 'rose' }, { name: 'dot' }]);
  expect(readFileSync(join(daemon.folder, 'agent.yaml'), 'utf8')).toContain('# the gardener');

  const more = ['--model', 'large', '--provider', 'here', '--skills', 'knots, sailing', '--policy', 'group', '--group', 'sea', '--json'];
  const answer = JSON.parse((await signet(daemon, ['agent', 'add', 'kim', ...more])).out);
  expect(answer).toMatchObject({ name: 'kim', model: 'large', skills: ['knots', 'sailing'], read_policy: 'group', policy_group: 'sea' });
  await signet(daemon, ['agent', 'add', 'bare', '--no-skills', '--no-roster']);
  expect(rosterOf(daemon)?.map(({ name }) => name)).toEqual(['rose', 'dot', 'kim']);
  await signet(daemon, ['agent', 'add', 'idle', '--no-skills']);
  expect(rosterOf(daemon)?.at(-1)).toEqual({ name: 'idle', skills: [] });
});

verifies('cli.agent.add.personality', async () => {
  const daemon = await serveDaemon({ files: FILES });
  const asked = await signet(daemon, ['agent', 'add', 'dot'], { stdin: 'Calm and exact.\n', tty: true });
  expect(asked.err).toBe('Personality of dot, in a few words (Enter for a template): ');
  expect(soulOf(daemon, 'dot')).toContain('Calm and exact.');
  await signet(daemon, ['agent', 'add', 'kim'], { stdin: '\n', tty: true });
  expect(soulOf(daemon, 'kim')).toContain('How kim speaks');
  await signet(daemon, ['agent', 'add', 'lea', '--soul', 'Fond of maps.']);
  expect(soulOf(daemon, 'lea')).toContain('Fond of maps.');
  await signet(daemon, ['agent', 'add', 'max', '--soul', '-'], { stdin: '# Max\n\nFrom a pipe.\n' });
  expect(soulOf(daemon, 'max')).toBe('# Max\n\nFrom a pipe.\n');
});

verifies(['cli.agent.list', 'agents.verify.list'], async () => {
  const yaml = 'agents: { roster: [{ name: rose, skills: [knots] }, { name: dot, model: large }] }\n';
  const daemon = await serveDaemon({
    files: { ...FILES, 'agent.yaml': yaml, 'agents/dot/SOUL.md': '', 'agents/kim/SOUL.md': '', 'agents/Bad/x': '' },
  });
  const { code, out, err } = await signet(daemon, ['agent', 'list']);
  expect(code).toBe(0);
  expect(out.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
    ['AGENT', 'FROM', 'FOLDER', 'MODEL', 'READS', 'SKILLS'],
    ['default', 'built-in', '-', '-', 'shared', 'knots, sailing'],
    ['rose', 'roster', '-', '-', 'shared', 'knots'],
    ['dot', 'roster', 'agents/dot', 'large', 'shared', 'knots, sailing'],
    ['kim', 'folder', 'agents/kim', '-', 'shared', 'knots, sailing'],
    [''],
  ]);
  expect(err).toMatch(/^agents\/Bad is no agent: .*rename it to bad\n$/);
  expect(JSON.parse((await signet(daemon, ['agent', 'list', '--json'])).out)).toMatchObject({ count: 4 });
});

verifies(['cli.agent.info.identity', 'cli.agent.info.skills', 'cli.agent.info.memories'], async () => {
  const yaml = 'agents: { roster: [{ name: dot, skills: [knots] }] }\n';
  const daemon = await serveDaemon({ files: { ...FILES, 'agent.yaml': yaml, 'agents/dot/IDENTITY.md': '- **Name:** Dot\n' } });
  await signet(daemon, ['remember', 'a secret of dot', '--agent', 'dot', '--private']);
  await signet(daemon, ['remember', 'a word of dot', '--agent', 'dot']);
  const { code, out } = await signet(daemon, ['agent', 'info', 'dot']);
  expect(code).toBe(0);
  expect(out).toMatch(/^Agent +dot \(Dot\)\n/);
  expect(out).toMatch(/\nSkills +knots\n/);
  expect(out).toMatch(/\nMemories +1 global, 1 private, 0 archived\n/);
  expect(out).toMatch(/\nSOUL\.md +inherited +SOUL\.md\n/);
  expect(out).toMatch(/\nIDENTITY\.md +overridden +agents.dot.IDENTITY\.md\n/);
  expect(out).toMatch(/\nUSER\.md +missing +-\n/);
  expect(JSON.parse((await signet(daemon, ['agent', 'info', 'dot', '--json'])).out).memories).toEqual({
    global: 1,
    private: 1,
    archived: 0,
  });
  expect(await signet(daemon, ['agent', 'info', 'nobody'])).toMatchObject({ code: 1, err: expect.stringContaining('(agent_not_found)') });
});

verifies(['cli.agent.remove.archives', 'cli.agent.remove.roster', 'cli.agent.remove.folder', 'agents.verify.remove'], async () => {
  const daemon = await serveDaemon({ files: FILES });
  for (const name of ['dot', 'kim']) await signet(daemon, ['agent', 'add', name]);
  await signet(daemon, ['remember', 'the kettle of dot', '--agent', 'dot']);
  const removed = await signet(daemon, ['agent', 'remove', 'dot']);
  expect(removed).toEqual({
    code: 0,
    out: 'dot: out of the roster, 1 memory archived, its folder agents/dot stays where it is\n',
    err: '',
  });
  expect((await signet(daemon, ['recall', 'kettle', '--agent', 'dot'])).err).toBe('Nothing was found.\n');
  expect(rosterOf(daemon)?.map(({ name }) => name)).toEqual(['rose', 'kim']);
  expect(existsSync(join(daemon.folder, 'agents', 'dot'))).toBe(true);
  const out = (await signet(daemon, ['agent', 'remove', 'kim', '--folder', '--json'])).out;
  expect(JSON.parse(out)).toMatchObject({ roster: true, folder: true });
  expect(existsSync(join(daemon.folder, 'agents', 'kim'))).toBe(false);
});

verifies(['cli.agent.purge.memories', 'cli.agent.purge.folder'], async () => {
  const daemon = await serveDaemon({ files: FILES });
  await signet(daemon, ['agent', 'add', 'dot']);
  await signet(daemon, ['remember', 'the kettle of dot', '--agent', 'dot', '--private']);
  expect(await signet(daemon, ['agent', 'purge', 'dot'])).toMatchObject({ code: 2, err: expect.stringContaining('say --yes') });
  const unsure = await signet(daemon, ['agent', 'purge', 'dot'], { stdin: 'no\n', tty: true });
  expect(unsure).toMatchObject({ code: 1, err: expect.stringMatching(/Type its name to go on: signet: nothing was deleted\n$/) });
  expect(existsSync(join(daemon.folder, 'agents', 'dot'))).toBe(true);
  const sure = await signet(daemon, ['agent', 'purge', 'dot'], { stdin: 'dot\n', tty: true });
  expect(sure).toMatchObject({ code: 0, out: 'dot: 1 memory deleted for good, with its folder\n' });
  expect(existsSync(join(daemon.folder, 'agents', 'dot'))).toBe(false);
  expect((await daemon.get('/api/memories/export?all=1')).body).not.toContain('kettle');
  expect(await signet(daemon, ['agent', 'purge', 'dot', '--yes'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('agent_not_found'),
  });
});

test.each(['../x', 'CON', 'con', '🦞', 'x'.repeat(300), 'Dot'])('the name %j is refused with what would be right', async (name) => {
  const daemon = await serveDaemon({ files: FILES });
  const { code, err } = await signet(daemon, ['agent', 'add', name]);
  expect(code).toBe(1);
  expect(err).toMatch(/must (?:be 1 to 64 characters of a-z|not be the name of a device).*\(invalid_request\)\n$/);
  expect(rosterOf(daemon)).toEqual([{ name: 'rose' }]);
});
