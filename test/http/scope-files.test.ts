import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { Answer } from '../conformance/calls.ts';
import { type AuthRig, startGuarded } from '../helpers/auth-rig.ts';

const CANARY = 'zqcanary';

let rig: AuthRig;
/** Below no root of transcripts, and outside of the workspace. */
let outside: string;
let roots: string;
let token: string;
beforeEach(async () => {
  outside = folder();
  roots = folder();
  rig = await startGuarded(
    `auth: { mode: team }\nagents: { roster: [{ name: dot }, { name: rose }, { name: evil }] }\nmemory: { transcripts: { roots: [${JSON.stringify(roots)}] } }\n`,
  );
  token = (await rig.makeToken({ role: 'agent', agent: 'dot' })).token;
});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'signet-outside-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

const daemon = (method: string, path: string, bearer: string, body?: unknown): Promise<Answer> =>
  rig.ask(method, rig.daemonUrl + path, bearer, body);

test('a narrow token reads transcripts below the configured roots alone', async () => {
  const files: Record<string, string> = {
    soul: join(rig.folder, 'agents', 'rose', 'SOUL.md'),
    memory: join(rig.folder, 'MEMORY.md'),
    notes: join(rig.folder, 'notes.md'),
    daily: join(rig.folder, 'memory', 'today.md'),
    linked: join(roots, 'linked.md'),
    given: join(roots, 'given.md'),
  };
  mkdirSync(join(rig.folder, 'agents', 'rose'), { recursive: true });
  mkdirSync(join(rig.folder, 'memory'), { recursive: true });
  for (const [name, path] of Object.entries(files)) {
    if (name === 'linked') symlinkSync(files.soul!, path);
    else writeFileSync(path, `User: ${CANARY} ${name}\n\nAssistant: yes\n`);
  }
  const stored = async (bearer: string, name: string): Promise<number> => {
    const body = { harness: 'test', sessionKey: `${name}-${bearer.slice(-6)}`, transcriptPath: files[name] };
    const answer = await daemon('POST', '/api/hooks/session-end', bearer, body);
    expect([name, answer.status]).toEqual([name, 200]);
    return answer.body.transcript.stored;
  };
  for (const name of Object.keys(files)) expect([name, (await stored(token, name)) > 0]).toEqual([name, name === 'given']);
  // The user of the machine reads its own notes, and who agents are is no transcript of anybody's.
  for (const name of Object.keys(files))
    expect([name, (await stored(rig.localToken, name)) > 0]).toEqual([name, ['notes', 'given'].includes(name)]);
});

test('MEMORY.md is neither read nor written by way of a link', async () => {
  mkdirSync(join(rig.folder, 'agents', 'dot'), { recursive: true });
  writeFileSync(join(outside, 'MEMORY.md'), CANARY);
  symlinkSync(outside, join(rig.folder, 'agents', 'evil'));
  symlinkSync(join(outside, 'MEMORY.md'), join(rig.folder, 'agents', 'dot', 'MEMORY.md'));
  for (const agentId of ['evil', 'dot']) {
    const asked = await daemon('POST', '/api/hooks/synthesis', rig.localToken, { agentId });
    expect([agentId, asked.body.code, JSON.stringify(asked.body).includes(CANARY)]).toEqual([agentId, 'workspace_unwritable', false]);
    const written = await daemon('POST', '/api/hooks/synthesis/complete', rig.localToken, { agentId, content: '# mine' });
    expect([agentId, written.body.code]).toEqual([agentId, 'workspace_unwritable']);
  }
  expect(readdirSync(outside)).toEqual(['MEMORY.md']);
  expect(readFileSync(join(outside, 'MEMORY.md'), 'utf8')).toBe(CANARY);
});

test('the folder of backups, and the file that is written first, may be no links either', async () => {
  const home = join(rig.folder, 'agents', 'dot');
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'MEMORY.md'), 'of before');
  const complete = () => daemon('POST', '/api/hooks/synthesis/complete', token, { content: '# now' });
  symlinkSync(outside, join(home, 'memory'));
  expect((await complete()).body.code).toBe('workspace_unwritable');
  rmSync(join(home, 'memory'));
  symlinkSync(join(outside, 'part'), join(home, 'MEMORY.md.part'));
  expect((await complete()).body.code).toBe('workspace_unwritable');
  expect(readdirSync(outside)).toEqual([]);
  rmSync(join(home, 'MEMORY.md.part'), { force: true });
  expect((await complete()).status).toBe(200);
  expect(readFileSync(join(home, 'MEMORY.md'), 'utf8')).toContain('# now');
});

test('synthesis makes no agents', async () => {
  const { token: any } = await rig.makeToken({ role: 'agent' });
  const made = await daemon('POST', '/api/hooks/synthesis/complete', any, { agentId: 'newcomer', content: '# mine' });
  expect([made.status, made.body.code]).toEqual([404, 'agent_not_found']);
  expect(existsSync(join(rig.folder, 'agents', 'newcomer'))).toBe(false);
});

test('the configuration shows no file that a link leads to', async () => {
  writeFileSync(join(outside, 'key'), CANARY);
  symlinkSync(join(outside, 'key'), join(rig.folder, 'USER.md'));
  const shown = await daemon('GET', '/api/config', rig.localToken);
  expect([shown.status, JSON.stringify(shown.body).includes(CANARY)]).toEqual([200, false]);
});
