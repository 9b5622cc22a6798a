import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { memoryOperations } from '../../src/contract/memory.ts';
import { secretOperations } from '../../src/contract/secrets.ts';
import { tokenOperations } from '../../src/contract/tokens.ts';
import { type PackedFile, writeArchive } from '../../src/store/tar-archive.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';
import { payloads, readLog, wireEnvironment } from './rig.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));
const YAML = 'secrets: { keyring: false }\nruntime: { secretTools: { agents: [default] } }\n';

let home: string;
let base: string;
let model: ModelServer;
let running: SignetProcess[];
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), 'signet-backup-'));
  base = join(home, 'work');
  mkdirSync(base);
  model = await startModelServer();
  running = [];
});
afterEach(async () => {
  for (const signet of running) await signet.kill();
  await model.close();
  rmSync(home, { recursive: true, force: true });
});

const at = (name: string) => join(base, name);
const archive = () => at('signet.tar.gz');

async function start(folder: string): Promise<SignetProcess> {
  const signet = await startSignetProcess({ folder, env: { ...wireEnvironment('anthropic', model.url), SIGNET_LOG_LEVEL: 'warn' } });
  running.push(signet);
  return signet;
}

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function run(...args: string[]): Promise<Ran> {
  const { promise, resolve } = Promise.withResolvers<Ran>();
  execFile(process.execPath, [LAUNCHER, ...args], { env: { HOME: home, PATH: process.env.PATH } }, (error, out, err) =>
    resolve({ code: error === null ? 0 : Number(error.code), out, err }),
  );
  return promise;
}

async function succeed(...args: string[]): Promise<Record<string, unknown>> {
  const { code, out, err } = await run(...args, '--json');
  expect(err).toBe('');
  expect(code).toBe(0);
  return JSON.parse(out) as Record<string, unknown>;
}

/** Every file below a folder with its bytes. */
function contentOf(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  const files = names.filter((name) => statSync(join(folder, name)).isFile());
  return Object.fromEntries(files.map((name) => [name, readFileSync(join(folder, name), 'base64')]));
}

function writeWorkspace(folder: string): void {
  for (const name of ['agents/rose/workspace', 'skills/tea', 'memory']) mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, 'agent.yaml'), YAML);
  writeFileSync(join(folder, 'SOUL.md'), 'Calm.');
  writeFileSync(join(folder, 'agents/rose/SOUL.md'), 'Bold.');
  writeFileSync(join(folder, 'skills/tea/SKILL.md'), '---\nname: tea\ndescription: brews\n---\nBoil.');
  writeFileSync(join(folder, 'skills/tea/brew.sh'), '#!/bin/sh\n', { mode: 0o700 });
  writeFileSync(join(folder, 'memory', `${'a long note about tea '.repeat(8)}é.md`), 'Oolong.');
}

test('a backup made in the middle of a turn is restored elsewhere with all that was there, and the turn goes on once', async () => {
  const folder = at('home');
  writeWorkspace(folder);
  symlinkSync('/etc', join(folder, 'skills/outside'));
  const signet = await start(folder);
  await signet.daemon.call(memoryOperations.remember, { content: 'the cello is in the attic' });
  await signet.daemon.call(secretOperations.putSecret, { name: 'API_KEY', value: 'nachtigall' });
  const { id: tokenId } = await signet.daemon.call(tokenOperations.createToken, { name: 'reader', role: 'readonly' });
  await signet.client.tools.register({
    name: 'brew',
    description: 'Brews tea.',
    inputSchema: { type: 'object' },
    class: 'pure',
    callback: { url: 'http://127.0.0.1:9/' },
  });
  const { id } = await signet.client.session.create({});
  model.script([{ text: 'milk' }]);
  await signet.client.session.prompt(id, { content: 'Say milk.', promptId: 'p0' });
  model.gate();
  await signet.client.session.promptAsync(id, { content: 'Say tea.', promptId: 'p1' });
  await model.next();

  const made = await succeed('backup', archive(), '--path', folder);
  expect(made).toMatchObject({ leftOut: [{ path: 'skills/outside', reason: 'it is a link' }], keyInKeyring: false });
  expect(statSync(archive()).mode & 0o777).toBe(0o600);
  expect(readdirSync(base).sort()).toEqual(['home', 'signet.tar.gz']);
  await signet.kill();
  const asked = model.requests.length;

  const other = at('other');
  expect(await succeed('restore', archive(), '--path', other)).toMatchObject({ movedTo: null, files: made.files });
  const names = readdirSync(other, { recursive: true, encoding: 'utf8' });
  expect(names.filter((name) => /lock\.db|daemon\.json|local-token|\.mark$|-wal$|-shm$|outside/.test(name))).toEqual([]);
  expect(readFileSync(join(other, 'agents/rose/SOUL.md'), 'utf8')).toBe('Bold.');
  expect(statSync(join(other, 'skills/tea/brew.sh')).mode & 0o777).toBe(0o700);
  expect(readdirSync(join(other, 'memory')).some((name) => name.endsWith('é.md'))).toBe(true);

  const restored = await start(other);
  (await model.next(15_000)).reply({ text: 'tea' });
  expect(await restored.client.session.prompt(id, { content: 'Say tea.', promptId: 'p1' })).toMatchObject({ content: 'tea' });
  expect(await restored.client.session.prompt(id, { content: 'Say milk.', promptId: 'p0' })).toMatchObject({ content: 'milk' });
  expect(model.requests.length).toBe(asked + 1);
  expect(payloads(await readLog(restored.client, id), 'prompt:received').length).toBe(2);
  expect(await restored.client.session.verify(id)).toMatchObject({ verified: true, divergence: null });
  expect(await restored.client.health()).toMatchObject({ status: 'healthy', reasons: [] });
  const memories = await restored.daemon.call(memoryOperations.recall, { query: 'cello' });
  expect(JSON.stringify(memories)).toContain('attic');
  expect((await restored.client.tools.list()).tools.map(({ name }) => name)).toContain('brew');
  expect((await restored.daemon.call(tokenOperations.listTokens, {})).tokens.map((token) => token.id)).toEqual([tokenId]);
  const ran = await restored.daemon.call(secretOperations.execWithSecrets, {
    command: 'printf %s "$KEY" | wc -c',
    secrets: { KEY: 'API_KEY' },
  });
  expect(ran).toMatchObject({ stdout: expect.stringMatching(/^\s*10\s*$/) });
});

test('restored into its own folder with --force, the older state is told once and is healthy, and what was there stays aside', async () => {
  const folder = at('home');
  writeWorkspace(folder);
  const first = await start(folder);
  const { id } = await first.client.session.create({});
  await succeed('backup', archive(), '--path', folder);
  const { id: later } = await first.client.session.create({});
  await first.daemon.call(memoryOperations.remember, { content: 'the cello is in the attic' });

  const refused = await run('restore', archive(), '--path', folder, '--force');
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining(`pid ${first.process.pid}`) });
  await first.close();
  const before = contentOf(folder);
  const unforced = await run('restore', archive(), '--path', folder);
  expect(unforced).toMatchObject({ code: 1, err: expect.stringContaining('is not empty') });
  expect(contentOf(folder)).toEqual(before);

  const { movedTo } = await succeed('restore', archive(), '--path', folder, '--force');
  expect(movedTo).toMatch(/home\.before-restore-\d{8}T\d{6}Z$/);
  expect(contentOf(String(movedTo))).toEqual(before);
  const second = await start(folder);
  expect((await second.client.health()).reasons).toEqual([]);
  expect((await (await fetch(`${second.daemonUrl}/health`)).json()) as unknown).toMatchObject({ status: 'healthy', reasons: [] });
  for (const name of ['signals', 'memory']) expect(second.output()).toMatch(new RegExp(`${name}\\.db is an older copy`));
  expect(await second.client.session.get(id)).toMatchObject({ id });
  await expect(second.client.session.get(later)).rejects.toMatchObject({ code: 'session_not_found' });
  await second.close();
  const third = await start(folder);
  expect(third.output()).not.toContain('is an older copy');
});

test('a backup made while the log is written without a pause is whole', async () => {
  const folder = at('home');
  const signet = await start(folder);
  // Whatever database stands there, also one that this program does not know.
  const extra = new DatabaseSync(join(folder, 'data/extra.db'));
  extra.exec("PRAGMA journal_mode = WAL; CREATE TABLE note (text); INSERT INTO note VALUES ('only in the log')");
  let isOver = false;
  const created: string[] = [];
  const writing = (async () => {
    while (!isOver) {
      const { id } = await signet.client.session.create({});
      await signet.daemon.call(memoryOperations.remember, { content: `fact ${created.length} ${randomBytes(2_000).toString('hex')}` });
      created.push(id);
    }
  })();
  await expect.poll(() => created.length, { timeout: 20_000 }).toBeGreaterThan(20);
  const known = [...created];
  await succeed('backup', archive(), '--path', folder);
  isOver = true;
  await writing;
  await signet.kill();
  expect(created.length).toBeGreaterThan(known.length);
  await succeed('restore', archive(), '--path', at('other'));
  extra.close();
  const copy = new DatabaseSync(join(at('other'), 'data/extra.db'));
  expect(copy.prepare('SELECT text FROM note').get()).toEqual({ text: 'only in the log' });
  copy.close();
  const restored = await start(at('other'));
  for (const id of known) expect(await restored.client.session.verify(id)).toMatchObject({ verified: true, divergence: null });
});

describe('an archive is refused, and nothing is touched, when', () => {
  const files = (list: readonly [path: string, text: string][]) => list;
  const about = JSON.stringify({ format: 'signet-backup', version: 1, program: '9.9.9', createdAt: '2026-01-01T00:00:00.000Z' });

  async function writeFiles(list: readonly [path: string, text: string][]): Promise<void> {
    async function* entries(): AsyncGenerator<PackedFile> {
      for (const [path, text] of list) {
        const bytes = Buffer.from(text);
        const content = (async function* () {
          yield bytes;
        })();
        yield { path, mode: 0o600, mtimeMs: 0, size: bytes.length, content };
      }
    }
    await writeArchive(archive(), entries(), new AbortController().signal);
  }

  async function expectRefused(why: RegExp): Promise<void> {
    mkdirSync(at('target'));
    writeFileSync(join(at('target'), 'SOUL.md'), 'Calm.');
    const { code, err } = await run('restore', archive(), '--path', at('target'), '--force');
    expect(err).toMatch(why);
    expect(code).toBe(1);
    expect(contentOf(at('target'))).toEqual({ 'SOUL.md': Buffer.from('Calm.').toString('base64') });
    expect(readdirSync(base).sort()).toEqual(['signet.tar.gz', 'target']);
  }

  const EVIL = ['../x', 'a/../../x', '/x', 'a//b', './x', '', '.daemon/daemon.json', '.daemon/lock.db', 'data/signals.mark', 'a\0b'];
  test.each(EVIL)('it holds the path %j', async (path) => {
    await writeFiles(
      files([
        ['about.json', about],
        [`files/${path}`, 'x'],
        ['sums.json', '{"files":[]}'],
      ]),
    );
    await expectRefused(/is no file of a workspace|no whole backup/);
    expect(existsSync(at('x'))).toBe(false);
  });

  test('it is of a newer format', async () => {
    await writeFiles(files([['about.json', about.replace('"version":1', '"version":2')]]));
    await expectRefused(/has format 2 \(made by Signet 9\.9\.9\).*storage_version/);
  });

  test('a sum is wrong, or a file is not named, or one is missing', async () => {
    const sum = { path: 'SOUL.md', size: 1, sha256: '0'.repeat(64) };
    for (const [list, why] of [
      [
        files([
          ['about.json', about],
          ['files/SOUL.md', 'x'],
          ['sums.json', JSON.stringify({ files: [sum] })],
        ]),
        /the sum of "SOUL.md"/,
      ],
      [
        files([
          ['about.json', about],
          ['files/SOUL.md', 'x'],
          ['sums.json', '{"files":[]}'],
        ]),
        /does not name/,
      ],
      [
        files([
          ['about.json', about],
          ['sums.json', JSON.stringify({ files: [sum] })],
        ]),
        /the sum of "SOUL.md"/,
      ],
      [
        files([
          ['about.json', about],
          ['files/SOUL.md', 'x'],
        ]),
        /not complete/,
      ],
    ] as const) {
      await writeFiles(list);
      await expectRefused(why);
      rmSync(at('target'), { recursive: true });
      rmSync(archive());
    }
  });

  test('it is cut off, has a flipped byte, holds a link, or is none', async () => {
    const folder = at('home');
    mkdirSync(join(folder, 'memory'), { recursive: true });
    writeFileSync(join(folder, 'memory/noise.md'), randomBytes(200_000));
    await (await start(folder)).close();
    await succeed('backup', archive(), '--path', folder);
    rmSync(folder, { recursive: true });
    const whole = readFileSync(archive());
    const flipped = Buffer.from(whole);
    flipped[whole.length >> 1]! ^= 0x10;
    await makeTarWithLink(at('link.tar'));
    const linked = gzipSync(readFileSync(at('link.tar')));
    rmSync(at('link.tar'));
    for (const bytes of [whole.subarray(0, -5), whole.subarray(0, 90_000), flipped, linked, Buffer.from('no archive'), Buffer.alloc(0)]) {
      writeFileSync(archive(), bytes);
      await expectRefused(/no whole backup of Signet.*storage_corrupt/s);
      rmSync(at('target'), { recursive: true });
    }
  });

  /** By the tar of the system: a link as somebody would plant it. */
  async function makeTarWithLink(path: string): Promise<void> {
    const folder = at('planted');
    mkdirSync(join(folder, 'files'), { recursive: true });
    writeFileSync(join(folder, 'about.json'), about);
    symlinkSync('/etc', join(folder, 'files/etc'));
    const tar = spawn('tar', ['--format=ustar', '-cf', path, '-C', folder, 'about.json', 'files/etc']);
    expect((await once(tar, 'exit'))[0]).toBe(0);
    rmSync(folder, { recursive: true });
  }
});

test('what cannot be backed up is refused, and leaves no archive behind', async () => {
  const folder = at('home');
  mkdirSync(folder);
  expect(await run('backup', archive(), '--path', at('absent'))).toMatchObject({ code: 1, err: expect.stringContaining('is not there') });
  expect(await run('backup', archive(), '--path', folder)).toMatchObject({ code: 1, err: expect.stringContaining('is no workspace') });
  await (await start(folder)).close();
  expect(await run('backup', join(folder, 'x.tar.gz'), '--path', folder)).toMatchObject({
    code: 1,
    err: expect.stringContaining('outside'),
  });
  const log = join(folder, 'data/signals.db');
  truncateSync(log, statSync(log).size - 4_096);
  expect(await run('backup', archive(), '--path', folder)).toMatchObject({ code: 1, err: expect.stringContaining('storage_corrupt') });
  expect(readdirSync(base)).toEqual(['home']);
});
