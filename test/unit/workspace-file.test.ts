import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { addToRoster } from '../../src/daemon/agent-roster.ts';
import { readSkill, skillPool } from '../../src/daemon/agent-skills.ts';
import { readAgentYaml } from '../../src/daemon/agent-yaml.ts';
import { fileFault } from '../../src/daemon/file-fault.ts';
import { loadIdentity } from '../../src/daemon/identity.ts';
import { makeFolderInside, openInside, readInside } from '../../src/daemon/workspace-file.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';

const { O_CREAT, O_TRUNC, O_WRONLY } = constants;
const CANARY = 'zqcanary';
const ROUNDS = 3_000;
const LONG = 60_000;

/** Another process that puts a link in the place of a folder, and a folder back, as fast as it can. */
async function swap(folder: string, target: string): Promise<() => Promise<unknown>> {
  const code = `
    const { rmSync, symlinkSync, unlinkSync, mkdirSync, writeFileSync } = require('node:fs');
    const [folder, target] = process.argv.slice(1);
    process.stdout.write('on');
    for (;;) {
      try {
        rmSync(folder, { recursive: true, force: true });
        symlinkSync(target, folder);
        unlinkSync(folder);
        mkdirSync(folder);
        writeFileSync(folder + '/MEMORY.md', 'mine');
      } catch { /* The other side swaps the folder at this moment. */ }
    }`;
  const child = spawn(process.execPath, ['-e', code, folder, target], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  await new Promise((resolve) => child.stdout.once('data', resolve));
  return async () => {
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  };
}

test.runIf(existsSync('/proc/self/fd'))(
  'a folder that is swapped for a link between the look and the opening leads nowhere',
  async () => {
    const outside = tempFolder({ 'MEMORY.md': CANARY });
    const folder = tempFolder({ 'agents/dot/MEMORY.md': 'mine' });
    const end = await swap(join(folder, 'agents', 'dot'), outside);
    for (let round = 0; round < ROUNDS; round += 1) {
      const path = 'agents/dot/MEMORY.md';
      try {
        expect(readInside(folder, path, 100)).not.toContain(CANARY);
        const handle = await openInside(folder, path, O_WRONLY | O_CREAT | O_TRUNC);
        await handle.writeFile('mine');
        await handle.close();
        await makeFolderInside(folder, 'agents/dot/memory');
      } catch (error) {
        // It was a link, or away, at that moment.
        expect(String(error)).toMatch(/by a link|ENOENT|EINVAL/);
      }
    }
    expect(readdirSync(outside)).toEqual(['MEMORY.md']);
    expect(readFileSync(join(outside, 'MEMORY.md'), 'utf8')).toBe(CANARY);
    await end();
    rmSync(join(folder, 'agents', 'dot'), { recursive: true, force: true });
    await makeFolderInside(folder, 'agents/dot/memory');
    const handle = await openInside(folder, 'agents/dot/MEMORY.md', O_WRONLY | O_CREAT | O_TRUNC);
    await handle.writeFile('mine');
    await handle.close();
    expect(readInside(folder, 'agents/dot/MEMORY.md', 100)).toBe('mine');
  },
  LONG,
);

test('a skill behind a link out of the workspace is not read to anybody, and that is said; one within it is', () => {
  const outside = tempFolder({ 'SKILL.md': CANARY });
  const folder = tempFolder({ 'shared/knots/SKILL.md': 'Knots.', 'skills/sailing/SKILL.md': 'Sailing.', 'skills/half/x': '' });
  symlinkSync(outside, join(folder, 'skills', 'away'));
  symlinkSync(join(outside, 'SKILL.md'), join(folder, 'skills', 'half', 'SKILL.md'));
  symlinkSync(join(folder, 'shared', 'knots'), join(folder, 'skills', 'knots'));
  const { config, problems } = readAgentYaml(folder);
  expect(skillPool(folder)).toEqual(['knots', 'sailing']);
  expect(readSkill(folder, config, 'default', { name: 'knots', offset: 0 }).content).toBe('Knots.');
  for (const name of ['away', 'half']) expect(() => readSkill(folder, config, 'default', { name, offset: 0 })).toThrow('no skill');
  expect(problems).toEqual([]);
  writeFileSync(join(folder, 'agent.yaml'), 'agents: { roster: [{ name: dot }] }\n');
  const away = (name: string) => `skills/${name} is a link that leads out of the workspace; put the folder itself into skills/`;
  expect(readAgentYaml(folder).problems).toEqual([away('away'), away('half')]);
  writeFileSync(join(folder, 'agent.yaml'), 'agents: { roster: [{ name: dot, skills: [away] }] }\n');
  expect(() => readAgentYaml(folder)).toThrow(/skill "away" is a link that leads out of the workspace/);
});

test('an identity file that is a link is read where it leads to, once, and never outside', () => {
  const outside = tempFolder({ 'SOUL.md': CANARY });
  const folder = tempFolder({ 'souls/dot.md': 'Soul of dot.', 'agents/dot/x': '' });
  const config = readAgentYaml(folder).config;
  symlinkSync(join(folder, 'souls', 'dot.md'), join(folder, 'agents', 'dot', 'SOUL.md'));
  expect(loadIdentity({ folder, config }, 'dot').files).toEqual({ 'SOUL.md': 'Soul of dot.' });
  rmSync(join(folder, 'souls', 'dot.md'));
  symlinkSync(join(outside, 'SOUL.md'), join(folder, 'souls', 'dot.md'));
  expect(loadIdentity({ folder, config }, 'dot')).toMatchObject({
    files: {},
    warnings: [`${join('agents', 'dot', 'SOUL.md')} leads out of the workspace: it is not read`],
  });
});

test('agent.yaml may be a link of its user, and stays one; what is written beside it goes through no link', async () => {
  const elsewhere = tempFolder({ 'mine.yaml': 'agents: { roster: [{ name: dot }] }\n', victim: CANARY });
  const folder = tempFolder({});
  symlinkSync(join(elsewhere, 'mine.yaml'), join(folder, 'agent.yaml'));
  symlinkSync(join(elsewhere, 'victim'), join(elsewhere, 'mine.yaml.part'));
  await addToRoster(folder, { name: 'kim' });
  expect(readFileSync(join(elsewhere, 'mine.yaml'), 'utf8')).toContain('kim');
  expect(readFileSync(join(elsewhere, 'victim'), 'utf8')).toBe(CANARY);
  expect(readAgentYaml(folder).config.agents?.roster.map(({ name }) => name)).toEqual(['dot', 'kim']);
  rmSync(join(folder, 'agent.yaml'));
  mkdirSync(join(folder, 'agent.yaml'));
  expect(() => readAgentYaml(folder)).toThrow('agent.yaml is no ordinary file');
  renameSync(join(folder, 'agent.yaml'), join(folder, 'away'));
});

test.runIf(process.getuid?.() === 0)('agent.yaml that leads to a file of another user is refused', async () => {
  const { chownSync } = await import('node:fs');
  const elsewhere = tempFolder({ 'theirs.yaml': 'agents: { roster: [{ name: eve }] }\n' });
  chownSync(join(elsewhere, 'theirs.yaml'), 65_534, 65_534);
  const folder = tempFolder({});
  symlinkSync(join(elsewhere, 'theirs.yaml'), join(folder, 'agent.yaml'));
  expect(() => readAgentYaml(folder)).toThrow('agent.yaml is a link to a file of another user (uid 65534)');
});

test.runIf(existsSync('/dev/full'))('a full disk is told as such, anything else as a fault of the workspace', async () => {
  const faultOf = (path: string) =>
    writeFile(path, 'x').then(
      () => expect.unreachable(),
      (error: unknown) => fileFault('agent.yaml', error, 'it stands as it was'),
    );
  const full = await faultOf('/dev/full');
  expect([full.code, full.detail]).toEqual(['storage_failed', expect.stringMatching(/ENOSPC.*it stands as it was; make room on the disk/)]);
  expect((await faultOf(tempFolder({}))).code).toBe('workspace_unwritable');
});
