import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CliContext } from '../../src/cli/context.ts';
import { createProgram } from '../../src/cli/program.ts';
import { cliReference, withReference } from '../../src/cli/reference.ts';
import { type FakeRuntime, openFakeRuntime } from '../helpers/fake-runtime.ts';

const MAIN = fileURLToPath(new URL('../helpers/fake-main.ts', import.meta.url));
const DOCUMENT = new URL('../../docs/cli.md', import.meta.url);
/** A process that type-strips its sources takes about half a second here. */
const PROCESS_TIMEOUT_MS = 30_000;

let runtime: FakeRuntime;
let folder: string;

beforeAll(async () => {
  runtime = await openFakeRuntime();
  folder = mkdtempSync(join(tmpdir(), 'signet-cli-'));
});
afterAll(async () => {
  await runtime.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Run the command line in a process of its own, against the fake runtime unless `env` says otherwise. */
function signet(args: readonly string[], { input = '', env = {} }: { input?: string; env?: Record<string, string> } = {}): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [MAIN, ...args],
      { env: { PATH: process.env.PATH, HOME: folder, SIGNET_RUNTIME_URL: runtime.url, ...env }, timeout: PROCESS_TIMEOUT_MS },
      (error, out, err) => resolve({ code: error ? Number(error.code ?? -1) : 0, out, err }),
    );
    child.stdin?.end(input);
  });
}

describe('signet chat --print', () => {
  test(
    'prints only the answer on stdout, tools on stderr, and exits with 0',
    async () => {
      const { code, out, err } = await signet(['chat', '--print', 'use a tool']);
      expect({ code, out }).toEqual({ code: 0, out: 'You said: use a tool\n' });
      expect(err).toContain('→ memory_search {"query":"tea"}');
      expect(err).not.toContain('\u001b');
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'reads the prompt from stdin and strips escape sequences from the answer',
    async () => {
      expect((await signet(['chat', '--print', '-'], { input: 'evil words' })).out).toBe('safe red\n');
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'shows the whole answer with --json',
    async () => {
      const answer = JSON.parse((await signet(['chat', '--print', 'hi', '--json', '--end'])).out);
      expect(answer).toMatchObject({ status: 'completed', content: 'You said: hi', stopReason: 'end_turn' });
      expect(runtime.requests.at(-1)).toMatchObject({ method: 'DELETE' });
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'a failed turn is exit code 1 with the reason on stderr and nothing on stdout',
    async () => {
      expect(await signet(['chat', '--print', 'please fail'])).toEqual({
        code: 1,
        out: '',
        err: expect.stringContaining('signet: the model is on fire (provider_failed)'),
      });
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'creates the session as asked, bypassed by SIGNET_BYPASS',
    async () => {
      const args = ['chat', '--print', 'hi', '--agent', 'scout', '--model', 'm', '--provider', 'p', '--project', '/'];
      await signet(args, { env: { SIGNET_BYPASS: '1' } });
      const created = runtime.requests.filter(({ method, path }) => method === 'POST' && path === '/session').at(-1);
      expect(created?.body).toEqual({ harness: 'signet-cli', agent: 'scout', model: 'm', provider: 'p', project: '/', bypass: true });
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'an address that was given and does not answer is not started',
    async () => {
      const { code, err } = await signet(['chat', '--print', 'hi', '--url', 'http://127.0.0.1:9']);
      expect(code).toBe(1);
      expect(err).toContain('no runtime answers at http://127.0.0.1:9');
    },
    PROCESS_TIMEOUT_MS,
  );
});

describe('signet chat', () => {
  test(
    'takes prompts and commands line by line, goes on after a failure, and says how to come back',
    async () => {
      const { code, out, err } = await signet(['chat'], { input: 'hello\n\n/help\n/nope\nplease fail\nlast\n' });
      expect(out).toBe('You said: hello\nYou said: last\n');
      expect(err).toMatch(/✗ the model is on fire[\s\S]*Come back with: signet chat --session ses_[a-z0-9]{20}\n/);
      expect(err).toContain('there is no /nope');
      expect(code).toBe(1);
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'goes on with an earlier session',
    async () => {
      const first = await signet(['chat'], { input: 'one\n' });
      const id = /ses_[a-z0-9]{20}/.exec(first.err)?.[0] ?? '';
      const second = await signet(['chat', '--session', id], { input: 'two\n' });
      expect([first.code, second.code, second.out]).toEqual([0, 0, 'You said: two\n']);
      expect(runtime.sessions.get(id)?.prompts.size).toBe(2);
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'Ctrl-C aborts the running turn, twice it leaves with 130',
    async () => {
      const child = spawn(process.execPath, [MAIN, 'chat', '--print', 'slow'], {
        env: { PATH: process.env.PATH, HOME: folder, SIGNET_RUNTIME_URL: runtime.url },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      const sessions = runtime.sessions.size;
      const ended = new Promise((resolve) => child.on('exit', resolve));
      const id = await new Promise<string>((resolve) => {
        const look = setInterval(() => {
          const session = [...runtime.sessions.values()][sessions];
          if (!session?.running || session.readers.size === 0) return;
          clearInterval(look);
          resolve(session.id);
        }, 5);
      });
      child.kill('SIGINT');
      expect(await ended).toBe(130);
      expect([...(runtime.sessions.get(id)?.prompts.values() ?? [])][0]?.status).toBe('aborted');
    },
    PROCESS_TIMEOUT_MS,
  );
});

describe('signet session', () => {
  test(
    'lists, shows, follows, aborts and ends',
    async () => {
      const { err } = await signet(['chat'], { input: 'use a tool\n' });
      const id = /ses_[a-z0-9]{20}/.exec(err)?.[0] ?? '';

      expect((await signet(['session', 'list'])).out).toMatch(new RegExp(`^SESSION +STATE[^\n]*\n[\\s\\S]*${id}  idle`));
      expect(JSON.parse((await signet(['session', 'list', '--json'])).out).next).toBeNull();
      expect((await signet(['session', 'show', id])).out).toContain('model    demo, demo-1\n');
      expect((await signet(['session', 'events', id])).out).toContain('tool:call');
      expect((await signet(['session', 'abort', id])).out).toBe(`nothing was running; ${id} is idle\n`);
      const following = signet(['session', 'events', id, '--follow', '--json']);
      expect((await signet(['session', 'end', id])).out).toBe(`${id} is ended\n`);
      expect((await following).out.trim().split('\n').at(-1)).toContain('"end"');
      expect(await signet(['session', 'show', 'ses_absent'])).toMatchObject({
        code: 1,
        err: 'signet: no session ses_absent (session_not_found)\n',
      });
    },
    PROCESS_TIMEOUT_MS,
  );
});

describe('usage', () => {
  test(
    'an unknown command suggests the nearest and exits with 2',
    async () => {
      const { code, out, err } = await signet(['strat']);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(err).toContain('(Did you mean start?)');
    },
    PROCESS_TIMEOUT_MS,
  );

  test.each([
    { args: ['start', '--port', '99999'], says: 'It must be a whole number from 0 to 65535' },
    { args: ['logs', '--level', 'loud'], says: 'Allowed choices are' },
    { args: ['chat', '--json'], says: '--json needs --print' },
    { args: ['completion', 'tcsh'], says: 'Allowed choices are bash, zsh, fish' },
    { args: ['memory', 'forget', 'mem_1'], says: '(signet memory forget --help tells what it takes)' },
    { args: ['workflow', 'rnu'], says: '(signet workflow --help lists the commands)' },
    { args: ['help', 'strat'], says: "unknown command 'strat'\n(Did you mean start" },
    { args: ['help', 'workflow', 'runn'], says: "unknown command 'runn'\n(Did you mean run" },
    { args: ['status', '--url', 'localhost:7700'], says: 'must begin with http://' },
  ])(
    '$args is wrong usage',
    async ({ args, says }) => {
      const { code, err } = await signet(args);
      expect(code).toBe(2);
      expect(err).toContain(says);
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'help and version are answers, not failures',
    async () => {
      expect((await signet(['--version'])).out).toBe('9.9.9\n');
      expect(await signet([])).toMatchObject({ code: 0, out: expect.stringContaining('Usage: signet') });
      expect(await signet(['daemon', 'start', '--help'])).toMatchObject({ code: 0, out: expect.stringContaining('--runtime-port') });
      for (const args of [
        ['help', 'workflow', 'run'],
        ['workflow', 'help', 'run'],
      ])
        expect(await signet(args)).toMatchObject({ code: 0, out: expect.stringContaining('Usage: signet workflow run '), err: '' });
      expect(await signet(['help'])).toMatchObject({ code: 0, out: expect.stringContaining('help [command...]') });
    },
    PROCESS_TIMEOUT_MS,
  );
});

test('docs/cli.md tells of every command and flag the program has', () => {
  const program = createProgram({ version: '9.9.9' } as CliContext);
  const document = readFileSync(DOCUMENT, 'utf8');
  const fresh = withReference(document, program);
  expect(document, 'npm run docs writes it anew').toBe(fresh);
  expect(cliReference(program)).toContain('| `--runtime-port <number>` |');
  for (const usage of [
    'signet memory forget --reason <text> [options] <id...>',
    'signet hook session-start --harness <name> [options]',
    'signet secret exec --secret <name> [options] <command...>',
  ])
    expect(fresh).toContain(`\n${usage}\n`);
  for (const command of ['start', 'stop', 'restart', 'status', 'logs', 'chat', 'session events', 'completion']) {
    expect(fresh).toContain(`### \`signet ${command}\``);
  }
});
