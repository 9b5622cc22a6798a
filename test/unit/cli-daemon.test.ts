import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startInBackground } from '../../src/cli/daemon-start.ts';
import { formatStatus } from '../../src/cli/daemon-status.ts';
import { createStyle, formatTurns } from '../../src/cli/terminal.ts';
import { isAlive } from '../../src/cli/workspace.ts';
import { writeDaemonInfo } from '../../src/store/workspace-lock.ts';
import { captureCli } from '../helpers/captured-cli.ts';

const MAIN = fileURLToPath(new URL('../helpers/fake-main.ts', import.meta.url));
const PROCESS_TIMEOUT_MS = 30_000;

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'signet-daemon-'));
});
afterEach(() => {
  const pid = pidOf(folder);
  if (pid !== undefined && isAlive(pid)) process.kill(pid, 'SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

function signet(args: readonly string[], env: Record<string, string> = {}): Promise<{ code: number; out: string; err: string }> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [MAIN, ...args],
      { env: { PATH: process.env.PATH, HOME: folder, SIGNET_RUNTIME_PORT: '0', ...env }, timeout: PROCESS_TIMEOUT_MS },
      (error, out, err) => resolve({ code: error ? Number(error.code ?? -1) : 0, out, err }),
    );
  });
}

function pidOf(path: string): number | undefined {
  const file = join(path, '.daemon', 'daemon.json');
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { pid: number }).pid : undefined;
}

describe('a daemon in the background', () => {
  test(
    'starts once, tells where it is, and stops when asked',
    async () => {
      const started = await signet(['start', '--path', folder, '--provider', 'ollama']);
      const pid = pidOf(folder);
      expect(started).toMatchObject({ code: 0, err: '' });
      expect(started.out).toContain(`is running, pid ${pid}\n`);
      expect(started.out).toContain(`  data      ${folder}\n`);
      expect(started.out).toMatch(/runtime {3}http:\/\/127\.0\.0\.1:\d+/);

      expect((await signet(['daemon', 'start', '--path', folder])).out).toContain(`is running already, pid ${pid}\n`);
      expect(await signet(['status', '--path', folder])).toMatchObject({ code: 0, out: expect.stringContaining(`healthy, pid ${pid}`) });
      expect((await signet(['status', '--path', folder])).out).toContain('  provider  demo (offline)\n');
      expect((await signet(['logs', '--path', folder])).out).toMatch(/INFO {2}fake daemon is up provider=ollama\n$/);

      expect((await signet(['stop', '--path', folder])).out).toMatch(new RegExp(`^Stopped pid ${pid} after \\d+ s\\.\n$`));
      expect(isAlive(pid ?? 0)).toBe(false);
      expect(await signet(['stop', '--path', folder])).toMatchObject({ code: 0, out: `No daemon runs on ${folder}.\n` });
      expect(await signet(['status', '--path', folder])).toMatchObject({ code: 1, out: expect.stringContaining('is not running') });
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'chat starts it when none runs, says so on stderr, and finds it again by its folder',
    async () => {
      const env = { SIGNET_PATH: folder };
      const first = await signet(['chat', '--print', 'hi'], env);
      const pid = pidOf(folder);
      const second = await signet(['chat', '--print', 'again'], env);

      expect([first.out, second.out]).toEqual(['You said: hi\n', 'You said: again\n']);
      expect([first.err, second.err]).toEqual([expect.stringContaining('starting it in the background'), '']);
      expect(pidOf(folder)).toBe(pid);
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'restart with a configuration that is not valid says what is wrong and leaves the daemon running',
    async () => {
      await signet(['start', '--path', folder]);
      const pid = pidOf(folder) ?? 0;
      writeFileSync(join(folder, 'agent.yaml'), 'runtime: { port: many }\n');
      const { code, out, err } = await signet(['restart', '--path', folder]);
      expect([code, out, isAlive(pid), pidOf(folder)]).toEqual([1, '', true, pid]);
      expect(err).toContain('nothing was stopped');
      expect(err).toContain('agent.yaml');
      expect(err).toContain('port');
      expect(await signet(['restart', '--path', folder], { SIGNET_LOG_LEVEL: 'loud' })).toMatchObject({ code: 1, out: '' });
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'restart ends the old process and starts a new one',
    async () => {
      await signet(['start', '--path', folder]);
      const before = pidOf(folder);
      const { out } = await signet(['restart', '--path', folder]);
      expect(out).toMatch(new RegExp(`^Stopped pid ${before} after`));
      expect(pidOf(folder)).not.toBe(before);
      expect(isAlive(before ?? 0)).toBe(false);
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'one that ends while it starts shows the end of its output',
    async () => {
      const { code, err } = await signet(['start', '--path', folder], { SIGNET_FAKE: 'crash' });
      expect(code).toBe(1);
      expect(err).toContain('the daemon ended while it started; its output ends with:');
      expect(err).toContain('the fake daemon was told to crash');
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'what earlier starts wrote is not shown as the output of this one',
    async () => {
      mkdirSync(join(folder, '.daemon', 'logs'), { recursive: true });
      appendFileSync(join(folder, '.daemon', 'logs', 'daemon.out'), 'an earlier failure\n');
      const { err } = await signet(['start', '--path', folder], { SIGNET_FAKE: 'crash' });
      expect(err).toContain('the fake daemon was told to crash');
      expect(err).not.toContain('an earlier failure');
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'one that takes connections and never answers is waited for no longer than the deadline',
    async () => {
      const env = { PATH: process.env.PATH, HOME: folder, SIGNET_FAKE: 'mute' };
      const context = { ...captureCli({ runtimeUrl: '', folder }).context, env, launcher: MAIN };
      const failure: Error = await startInBackground(context, { path: folder }, 3_000).then(
        () => expect.unreachable(),
        (error) => error,
      );
      const [, pid] = /^the daemon \(pid (\d+)\) did not answer within 3 s/.exec(failure.message) ?? [];
      expect(failure.message).toMatch(/did not answer within 3 s/);
      process.kill(Number(pid), 'SIGKILL');
    },
    PROCESS_TIMEOUT_MS,
  );

  test.runIf(process.platform === 'linux')(
    'one that is alive and does not answer is told apart from none, and is ended by force',
    async () => {
      // The name of its script is what tells it from a program that got the number of a daemon that crashed.
      const listen = "require('node:net').createServer(() => {}).listen(0, '127.0.0.1', function () { console.log(this.address().port) })";
      const script = `process.on('SIGTERM', () => {}); ${listen}`;
      const mute = spawn(process.execPath, ['-e', script, 'signet.js']);
      const [line] = (await once(mute.stdout, 'data')) as [Buffer];
      mkdirSync(join(folder, '.daemon'));
      writeDaemonInfo(folder, { pid: mute.pid!, version: '1', host: '127.0.0.1', port: 1, runtimePort: Number(line), startedAt: '' });

      const { code, out } = await signet(['status', '--json', '--path', folder]);
      expect([code, JSON.parse(out)]).toMatchObject([4, { running: false, unanswered: true, pid: mute.pid }]);
      const shown = formatStatus(JSON.parse(out), createStyle({ write: () => true }, {}));
      expect(shown).toContain(`Signet runs as pid ${mute.pid} on ${folder} but does not answer`);
      expect(shown).toContain('signet stop --force');

      const stopped = await signet(['stop', '--force', '--path', folder]);
      expect(stopped.err).toContain(`pid ${mute.pid} does not answer; waiting up to 5 s for it to end`);
      expect(stopped).toMatchObject({ code: 0, out: expect.stringContaining(`Killed pid ${mute.pid}`) });
    },
    PROCESS_TIMEOUT_MS,
  );

  test.runIf(process.platform === 'linux')(
    'a folder that cannot be made is refused at once',
    async () => {
      const { code, err } = await signet(['start', '--path', '/proc/x']);
      expect([code, err]).toEqual([1, expect.stringMatching(/^signet: cannot write \/proc\/x\/.*\(workspace_unwritable\)\n$/)]);
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'a file that a crash left behind is neither running nor stopped by its number',
    async () => {
      mkdirSync(join(folder, '.daemon'));
      const left = { pid: 999_999_999, version: '1', host: '127.0.0.1', port: 1, runtimePort: 1, startedAt: '2026-01-01T00:00:00.000Z' };
      writeFileSync(join(folder, '.daemon', 'daemon.json'), JSON.stringify(left));
      expect((await signet(['stop', '--path', folder])).out).toBe(`No daemon runs on ${folder}.\n`);

      // The number may have gone to another program.
      const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
      writeFileSync(join(folder, '.daemon', 'daemon.json'), JSON.stringify({ ...left, pid: other.pid }));
      const stop = await signet(['stop', '--path', folder, '--force']);
      rmSync(join(folder, '.daemon', 'daemon.json'));
      expect([stop.code, other.exitCode, other.signalCode]).toEqual([1, null, null]);
      other.kill('SIGKILL');
      expect(stop.err).toContain('it was left alone');
    },
    PROCESS_TIMEOUT_MS,
  );

  test(
    'commands that need it say how to start it',
    async () => {
      expect(await signet(['session', 'list', '--path', folder])).toEqual({
        code: 1,
        out: '',
        err: `signet: no daemon runs on ${folder}; start it with: signet start\n`,
      });
      expect((await signet(['logs', '--path', folder])).err).toContain('no output at');
    },
    PROCESS_TIMEOUT_MS,
  );
});

test(
  'logs shows the last lines of a weight, and what is not a log entry at every weight',
  async () => {
    const file = join(folder, '.daemon', 'logs', 'daemon.out');
    mkdirSync(join(folder, '.daemon', 'logs'), { recursive: true });
    for (const level of [30, 40, 30, 50]) appendFileSync(file, `${JSON.stringify({ level, msg: `weighs ${level}` })}\n`);
    appendFileSync(file, 'FATAL ERROR: heap\n');

    expect((await signet(['logs', '--path', folder, '--level', 'warn'])).out).toBe('WARN  weighs 40\nERROR weighs 50\nFATAL ERROR: heap\n');
    expect((await signet(['logs', '--path', folder, '-n', '2'])).out).toBe('ERROR weighs 50\nFATAL ERROR: heap\n');
    expect((await signet(['logs', '--path', folder, '-n', '2', '--json'])).out).toBe('{"level":50,"msg":"weighs 50"}\nFATAL ERROR: heap\n');
  },
  PROCESS_TIMEOUT_MS,
);

test('status keeps the sessions in memory and the stored ones apart', () => {
  const status = {
    running: true,
    unanswered: false,
    workspace: '/w',
    runtimeUrl: 'http://127.0.0.1:1',
    daemonUrl: 'http://127.0.0.1:2',
    pid: 1,
    version: '1.0.0',
    uptimeMs: 1_000,
    health: 'healthy',
    reasons: [],
    daemonReachable: true,
    provider: { id: 'anthropic', model: 'some-model', origin: 'agent.yaml', offlineDemo: false },
    sessions: { alive: 49, byState: { ended: 200, idle: 181, running: 0 } },
    configProblems: ['agent.yaml:2:3 first\nagent.yaml:3:1 second', 'third'],
    background: null,
    problem: null,
  };
  const text = formatStatus(status, createStyle({ write: () => true }, {}));
  expect(text).toContain('  sessions  49 in memory; stored: 181 idle, 200 ended\n');
  expect(text).toMatch(/ {2}config {4}agent\.yaml:2:3 first\n {2}config {4}agent\.yaml:3:1 second\n {2}config {4}third\n$/);
  expect(text).toContain('  provider  anthropic, some-model (agent.yaml)\n');
  expect([0, 1, 2].map(formatTurns)).toEqual(['0 turns', '1 turn', '2 turns']);
});
