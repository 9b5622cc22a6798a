import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect } from 'vitest';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { call } from './calls.ts';
import { verifies } from './verifies.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));
const PROCESS_TIMEOUT_MS = 60_000;

let model: ModelServer;
let signet: Signet;
beforeAll(async () => {
  model = await startModelServer();
  signet = await startSignet({ env: { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'test' } });
});
afterAll(async () => {
  await signet.close();
  await model.close();
});

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** The command line in a process of its own; `onOutput` sees stdout grow. */
function run(
  args: readonly string[],
  { input = '', env = {}, onOutput = () => {} }: { input?: string; env?: Record<string, string>; onOutput?: (text: string) => void } = {},
): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [LAUNCHER, ...args],
      { env: { PATH: process.env.PATH, HOME: signet.folder, SIGNET_RUNTIME_URL: signet.runtimeUrl, ...env }, timeout: PROCESS_TIMEOUT_MS },
      (error, out, err) => resolve({ code: error ? Number(error.code ?? -1) : 0, out, err }),
    );
    let text = '';
    child.stdout?.on('data', (chunk) => {
      text += chunk;
      onOutput(text);
    });
    child.stdin?.end(input);
  });
}

const newest = async () => (await signet.client.session.list()).items[0];

verifies(['cli.chat', 'runtime.channel.cli'], async () => {
  model.script([{ text: 'First answer.' }, { text: 'Second answer.' }]);
  const { code, out } = await run(['chat'], { input: 'one\ntwo\n' });
  expect({ code, out }).toEqual({ code: 0, out: 'First answer.\nSecond answer.\n' });
  expect(await newest()).toMatchObject({ harness: 'signet-cli', turns: 2 });
});

const canOpenTerminal = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0;

verifies(
  ['cli.chat', 'cli.chat.streams'],
  'on a terminal, what is typed is a prompt, its answer appears in pieces, and Ctrl-D leaves',
  async ({ skip }) => {
    if (!canOpenTerminal) return skip('script(1) of util-linux is needed to open a terminal');
    model.script([{ text: 'Aye from the terminal, in several pieces.', delayMs: 20 }]);
    const command = `${process.execPath} ${LAUNCHER} chat`;
    const env = { PATH: process.env.PATH, HOME: signet.folder, SIGNET_RUNTIME_URL: signet.runtimeUrl, TERM: 'xterm', NO_COLOR: '1' };
    const child = spawn('script', ['--quiet', '--flush', '--return', '--command', command, '/dev/null'], { env });
    let screen = '';
    const pieces: string[] = [];
    child.stdout.on('data', (chunk) => {
      screen += chunk;
      pieces.push(String(chunk));
    });
    const exited = new Promise((resolve) => child.once('exit', resolve));
    await expect.poll(() => screen, { timeout: 30_000 }).toContain('/help lists the commands');
    child.stdin.write('hello from a keyboard\r');
    await expect.poll(() => screen, { timeout: PROCESS_TIMEOUT_MS }).toContain('several pieces.');
    expect(pieces.filter((piece) => /Aye|terminal|several|pieces/.test(piece)).length).toBeGreaterThan(1);
    expect(await newest()).toMatchObject({ harness: 'signet-cli', turns: 1 });
    child.stdin.write('\u0004');
    expect(await exited).toBe(0);
  },
  PROCESS_TIMEOUT_MS,
);

verifies('cli.chat.streams', async () => {
  const seen: { text: string; ended: boolean }[] = [];
  let ended = false;
  model.respond(({ body, closed }) => {
    if (!JSON.stringify(body).includes('stream it')) return undefined;
    void closed.then(() => {
      ended = true;
    });
    return { text: 'slowly but surely it arrives in small pieces', delayMs: 200 };
  });
  const onOutput = (text: string) => void seen.push({ text, ended });
  const { out } = await run(['chat'], { input: 'stream it\n', onOutput });
  expect(out).toBe('slowly but surely it arrives in small pieces\n');
  // Something was printed before the model had said its last word.
  expect(seen.find(({ text }) => text !== '')).toMatchObject({ ended: false });
  expect(seen.length).toBeGreaterThan(1);
});

verifies(['cli.chat.memory', 'cli.chat.tools'], async () => {
  await call('POST', `${signet.daemonUrl}/api/memory/remember`, { content: 'The ferry leaves from pier nine.' });
  model.script([
    { toolCalls: [{ id: 'c1', name: 'memory_store', input: { content: 'Kim takes the ferry.' } }] },
    { text: 'From pier nine.' },
  ]);
  const before = model.requests.length;
  const { out } = await run(['chat', '--print', 'Where does the ferry leave?']);
  expect(out).toBe('From pier nine.\n');
  const first = JSON.stringify(model.requests[before]?.body);
  expect(first).toContain('The ferry leaves from pier nine.');
  for (const tool of ['memory_search', 'memory_store', 'memory_get', 'memory_modify', 'memory_forget'])
    expect(first).toContain(`"${tool}"`);
  const { results } = (await call('POST', `${signet.daemonUrl}/api/memory/recall`, { query: 'Kim ferry' })).body;
  expect(results.map(({ content }: { content: string }) => content)).toContain('Kim takes the ferry.');
});

verifies('cli.chat.continuity', async () => {
  model.script([{ text: 'Noted: teal.' }, { text: 'It was teal.' }]);
  await run(['chat', '--print', 'My colour is teal.']);
  const id = (await newest())?.id ?? '';
  const { out } = await run(['chat', '--session', id, '--print', 'Which colour?']);
  expect(out).toBe('It was teal.\n');
  expect(JSON.stringify(model.requests.at(-1)?.body)).toContain('My colour is teal.');
  expect((await signet.client.session.get(id)).turns).toBe(2);
});

verifies('cli.chat.ended', async () => {
  model.script([{ text: 'Noted: ochre.' }, { text: 'It was ochre.' }]);
  await run(['chat', '--print', 'My colour is ochre.']);
  const ended = (await newest())?.id ?? '';
  await signet.client.session.end(ended);
  const { out, err, code } = await run(['chat', '--session', ended, '--print', 'Which colour?']);
  expect([code, out]).toEqual([0, 'It was ochre.\n']);
  expect(JSON.stringify(model.requests.at(-1)?.body)).toContain('My colour is ochre.');
  const next = await newest();
  expect(next).toMatchObject({ sessionKey: ended, agent: 'default' });
  expect(next?.id).not.toBe(ended);
  expect(err).toContain(`session ${ended} had ended; it goes on as ${next?.id}`);
});

verifies(
  ['cli.chat.client', 'cli.daemon.start'],
  'chat starts the runtime when none runs and is a client of it; daemon start finds it running or starts it',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'signet-cli-'));
    const env = { SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_RUNTIME_PORT: '0', SIGNET_RUNTIME_URL: '' };
    const info = () =>
      JSON.parse(readFileSync(join(folder, '.daemon', 'daemon.json'), 'utf8')) as { pid: number; port: number; runtimePort: number };
    try {
      const chat = await run(['chat', '--print', 'hello'], { env });
      expect([chat.code, chat.err]).toEqual([0, expect.stringContaining('starting it in the background')]);
      const { runtimePort, pid } = info();
      const { items } = (await call('GET', `http://127.0.0.1:${runtimePort}/session`)).body;
      expect(items).toMatchObject([{ harness: 'signet-cli', turns: 1 }]);
      expect((await run(['daemon', 'start'], { env })).out).toContain(`is running already, pid ${pid}`);

      await run(['stop'], { env });
      expect((await run(['daemon', 'start'], { env })).code).toBe(0);
      expect((await call('GET', `http://127.0.0.1:${info().port}/health`)).body).toMatchObject({ status: 'healthy', pid: info().pid });
    } finally {
      if (existsSync(join(folder, '.daemon', 'daemon.json'))) await run(['stop'], { env });
      rmSync(folder, { recursive: true, force: true });
    }
  },
  PROCESS_TIMEOUT_MS,
);
