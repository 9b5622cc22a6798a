import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { hookOperations } from '../../src/contract/hooks.ts';
import { memoryOperations } from '../../src/contract/memory.ts';
import { memoryLifecycleOperations } from '../../src/contract/memory-lifecycle.ts';
import { transcriptOperations } from '../../src/contract/transcript.ts';
import { verifies } from '../conformance/verifies.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));
const EVENTS = ['session-start', 'user-prompt-submit', 'session-end', 'pre-compaction', 'compaction-complete', 'synthesis'] as const;
const PROJECT = '/srv/heron';

let signet: Signet;
beforeAll(async () => {
  signet = await startSignet({ yaml: 'agent:\n  name: Merle\n  description: a careful helper\n' });
  const content = 'The staging server of the walnut project is called heron.';
  await signet.daemon.call(memoryOperations.remember, { content, importance: 0.9 });
});
afterAll(() => signet.close());

interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

interface RunOptions {
  readonly stdin?: unknown;
  readonly env?: Readonly<Record<string, string>>;
  /** Leaves stdin open, as a careless harness does. */
  readonly open?: boolean;
}

/** `signet hook …` as a harness runs it. */
async function hook(args: readonly string[], { stdin = '', env = {}, open = false }: RunOptions = {}): Promise<Ran> {
  const child = spawn(process.execPath, [LAUNCHER, 'hook', ...args], {
    env: { PATH: process.env.PATH, HOME: signet.folder, SIGNET_DAEMON_URL: signet.daemonUrl, ...env },
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk) => (out += chunk));
  child.stderr.on('data', (chunk) => (err += chunk));
  // A command that does not read its input closes it while it is written.
  child.stdin.on('error', () => {});
  const text = typeof stdin === 'string' ? stdin : JSON.stringify(stdin);
  if (open) child.stdin.write(text);
  else child.stdin.end(text);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out, err };
}

/** What Claude Code writes for every event of a session. */
function claude(event: string, sessionId: string, more: object = {}) {
  return { session_id: sessionId, transcript_path: '', cwd: PROJECT, hook_event_name: event, ...more };
}

const claims = async () => (await signet.daemon.call(daemonOperations.listClaims, {})).sessions;
const claimOf = async (key: string) => (await claims()).find((claim) => claim.key === key);

/** A server in the daemon's place; `requests` counts what reached it. */
async function listen(answer: 'nothing' | 'a web page'): Promise<{ url: string; requests(): number }> {
  let requests = 0;
  const server = createServer((_request, response) => {
    requests += 1;
    if (answer === 'a web page') response.end('<html>hello</html>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests: () => requests };
}

describe('a session of Claude Code', () => {
  verifies(['cli.hook.session-start', 'cli.hook.harness-flag', 'cli.hook.project-flag'], async () => {
    const stdin = claude('SessionStart', 'claude-1', { source: 'startup' });
    const ran = await hook(['session-start', '-H', 'claude-code', '--project', '/srv/walnut'], { stdin });
    expect(ran).toMatchObject({ code: 0, err: '' });
    expect(ran.out).toMatch(/^You are Merle, a careful helper\.\n/);
    expect(ran.out).toContain('staging server of the walnut project is called heron');
    expect(await claimOf('claude-1')).toMatchObject({ harness: 'claude-code', project: '/srv/walnut', runtimePath: 'legacy' });
  });

  verifies('cli.hook.user-prompt-submit', async () => {
    const stdin = claude('UserPromptSubmit', 'claude-2', { prompt: 'what is the staging server of walnut called?', prompt_id: 'p1' });
    const ran = await hook(['user-prompt-submit', '-H', 'claude-code'], { stdin });
    expect(ran).toMatchObject({ code: 0, err: '' });
    expect(ran.out).toMatch(/## Relevant Memory[\s\S]*called heron/);
    expect(await claimOf('claude-2')).toMatchObject({ project: PROJECT });
  });

  verifies('cli.hook.session-end', async () => {
    await hook(['session-start', '-H', 'claude-code'], { stdin: claude('SessionStart', 'claude-3', { source: 'startup' }) });
    expect(await claimOf('claude-3')).toBeDefined();
    const line = {
      type: 'user',
      message: { role: 'user', content: 'Please paint the shed green.' },
      timestamp: '2025-03-03T12:00:00.000Z',
    };
    writeFileSync(join(signet.folder, 'claude-3.jsonl'), `${JSON.stringify(line)}\n`);
    const stdin = { ...claude('SessionEnd', 'claude-3', { reason: 'other' }), transcript_path: join(signet.folder, 'claude-3.jsonl') };
    expect(await hook(['session-end', '-H', 'claude-code'], { stdin })).toEqual({ code: 0, out: '', err: '' });
    expect(await claimOf('claude-3')).toBeUndefined();
    const { turns } = await signet.daemon.call(transcriptOperations.getTranscript, { key: 'claude-3' });
    expect(turns).toMatchObject([{ role: 'user', content: 'Please paint the shed green.' }]);
  });

  test('is compacted: the instruction is printed, the summary kept', async () => {
    const before = claude('PreCompact', 'claude-4', { trigger: 'manual', custom_instructions: null });
    const asked = await hook(['pre-compaction', '-H', 'claude-code', '--message-count', '41'], { stdin: before });
    expect(asked).toMatchObject({ code: 0, err: '' });
    expect(asked.out).toContain('The session holds 41 messages.');
    const after = claude('PostCompact', 'claude-4', { trigger: 'manual', compact_summary: 'We agreed that the shed is painted green.' });
    const kept = await hook(['compaction-complete', '-H', 'claude-code', '--json'], { stdin: after });
    expect(kept).toMatchObject({ code: 0, err: '' });
    const { memoryId } = JSON.parse(kept.out);
    const memory = await signet.daemon.call(memoryOperations.getMemory, { id: memoryId });
    expect(memory).toMatchObject({ type: 'session_summary', content: 'We agreed that the shed is painted green.', project: PROJECT });
    const resumed = await hook(['session-start', '-H', 'claude-code'], {
      stdin: claude('SessionStart', 'claude-4', { source: 'compact' }),
    });
    expect(resumed.out).toMatch(/## Checkpoint[\s\S]*painted green/);
  });
});

describe('what a harness says', () => {
  test('is understood in the other spelling; its own name of a sub-agent is no agent of ours', async () => {
    await hook(['session-start', '-H', 'codex'], { stdin: { sessionId: 'outer', cwd: PROJECT } });
    const told = { sessionKey: 'told', parentSessionKey: 'outer', agent_id: 'a1b2' };
    await hook(['session-start', '-H', 'codex'], { stdin: told });
    expect(await claimOf('told')).toMatchObject({ parentKey: 'outer', agentId: 'default' });
    await hook(['session-start', '-H', 'codex'], { stdin: { session_id: 'inferred', cwd: PROJECT, harness_agent_id: 'a1b3' } });
    expect(await claimOf('inferred')).toMatchObject({ parentKey: 'outer', agentId: 'default' });
    await hook(['session-start', '-H', 'codex', '--agent', 'scout'], { stdin: { session_id: 'scouting' } });
    await hook(['session-start', '-H', 'codex', '--agent-id', 'rose'], { stdin: { session_id: 'growing' } });
    const env = { SIGNET_AGENT_ID: 'finch' };
    await hook(['session-start', '-H', 'codex'], { stdin: { session_id: 'singing' }, env });
    const agents = (await claims()).map(({ key, agentId }) => [key, agentId]);
    expect(agents).toEqual(
      expect.arrayContaining([
        ...[
          ['scouting', 'scout'],
          ['growing', 'rose'],
          ['singing', 'finch'],
        ],
      ]),
    );
  });

  test('may be nothing, no JSON, no object, behind a byte order mark, or without an end', async () => {
    const start = ['session-start', '-H', 'codex'];
    for (const stdin of ['', ' \n', '{"session_id":"half', 'hello', '[1]', 'null', '{"session_id":7,"cwd":null}']) {
      const ran = await hook(start, { stdin });
      expect([stdin, ran.code, ran.out.startsWith('You are Merle')]).toEqual([stdin, 0, true]);
    }
    expect((await hook(start, { stdin: 'hello' })).err).toBe('signet: hook session-start: stdin is no JSON object; it goes on without\n');
    for (const event of EVENTS.filter((name) => name !== 'synthesis')) {
      const flags = event === 'compaction-complete' ? ['--summary', 'We spoke of tea.'] : [];
      const told = async (stdin: unknown) => (await hook([event, '-H', 'codex', ...flags], { stdin })).err;
      expect(await told('')).toMatch(new RegExp(`^signet: hook ${event}: stdin is empty; (it goes on without|stdin has no prompt.*)\n$`));
      const said = { prompt: 'where is staging?', cwd: PROJECT };
      expect(await told(said)).toBe(`signet: hook ${event}: stdin has no session_id; it goes on without\n`);
    }
    await hook(start, { stdin: '\uFEFF{"session_id":"marked"}' });
    expect(await claimOf('marked')).toBeDefined();
    expect(await hook(start, { stdin: { session_id: 'endless' }, open: true })).toMatchObject({ code: 0, err: '' });
    expect(await claimOf('endless')).toBeDefined();
  });

  test('without a prompt or a summary is nothing to ask about', async () => {
    for (const event of ['user-prompt-submit', 'compaction-complete']) {
      const ran = await hook([event, '-H', 'codex'], { stdin: { session_id: 'mute', prompt: '  ' } });
      expect([event, ran.code, ran.out, ran.err.split('\n').length]).toEqual([event, 0, '', 2]);
    }
    expect(await claimOf('mute')).toBeUndefined();
  });

  test('may hold a prompt or a last answer far longer than a request', async () => {
    const prompt = `what is the staging server of walnut called? ${'\u0001🪵'.repeat(1_000_000)}`;
    const stdin = { session_id: 'huge', prompt, last_assistant_message: prompt };
    const ran = await hook(['user-prompt-submit', '-H', 'codex'], { stdin });
    expect(ran).toMatchObject({ code: 0, err: '' });
    expect(ran.out).toContain('## Relevant Memory');
    for (const event of ['session-start', 'pre-compaction'])
      expect(await hook([event, '-H', 'codex'], { stdin: { session_id: 'huge', context: prompt, session_context: prompt } })).toMatchObject(
        {
          code: 0,
          err: '',
        },
      );
    const summary = await hook(['compaction-complete', '-H', 'codex'], {
      stdin: { session_id: 'huge', summary: 'We spoke at length. '.repeat(100_000) },
    });
    expect(summary).toEqual({ code: 0, out: '', err: '' });
    const more = await hook(['user-prompt-submit', '-H', 'codex'], { stdin: 'x'.repeat(17_000_000) });
    expect(more).toMatchObject({ code: 0, out: '', err: expect.stringContaining('stdin has more than 16777216 characters') });
  });
});

test('MEMORY.md is written by a harness: the prompt is printed, the text taken from stdin, the JSON or the flag', async () => {
  const asked = await hook(['synthesis', '-H', 'codex'], { stdin: { trigger: 'manual' } });
  expect(asked).toMatchObject({ code: 0, err: '' });
  expect(asked.out).toContain('heron');
  const written = () => readFileSync(join(signet.folder, 'MEMORY.md'), 'utf8');
  const complete = ['synthesis-complete', '-H', 'codex'];
  expect(await hook(['synthesis', '-H', 'codex'])).toMatchObject({ code: 0, err: '' });
  expect(await hook([...complete, '-c', '-'], { stdin: '# From stdin\n' })).toEqual({ code: 0, out: '', err: '' });
  expect(written()).toContain('# From stdin');
  await hook(complete, { stdin: { content: '# From JSON' } });
  expect(written()).toContain('# From JSON');
  await hook([...complete, '--content', '# From a flag']);
  expect(written()).toContain('# From a flag');
  expect(await hook(complete)).toMatchObject({ code: 1, err: expect.stringContaining('--content') });
  // Of an older MEMORY.md: the writer must know that nothing was written.
  const stale = await hook(complete, { stdin: { content: '# Late', generation: 0 } });
  expect(stale).toMatchObject({ code: 1, err: expect.stringContaining('version_conflict') });
});

verifies(['hooks.bypass.env.exit', 'hooks.bypass.env.no-request'], async () => {
  const { url, requests } = await listen('nothing');
  for (const name of ['SIGNET_BYPASS', 'SIGNET_NO_HOOKS']) {
    for (const event of [...EVENTS, 'synthesis-complete', 'no-such-event']) {
      const env = { SIGNET_DAEMON_URL: url, [name]: '1' };
      const ran = await hook([event, '-H', 'claude-code'], { stdin: claude('Any', 'silent', { prompt: 'hello there' }), env, open: true });
      expect([name, event, ran]).toEqual([name, event, { code: 0, out: '', err: '' }]);
    }
  }
  expect(requests()).toBe(0);
});

describe('a harness goes on', () => {
  const said = { session_id: 'alone', prompt: 'hello there', compact_summary: 'We spoke.' };

  test('without a daemon: exit code 0, nothing on stdout, a line on stderr', async () => {
    const gone = tempFolder();
    for (const event of EVENTS) {
      const [named, here] = await Promise.all([
        hook([event, '-H', 'codex'], { stdin: said, env: { SIGNET_DAEMON_URL: 'http://127.0.0.1:9' } }),
        hook([event, '-H', 'codex', '--path', gone], { stdin: said, env: { SIGNET_DAEMON_URL: '' } }),
      ]);
      expect([event, named.code, named.out, named.err.split('\n').length]).toEqual([event, 0, '', 2]);
      expect(named.err).toMatch(`signet: hook ${event}: http://127.0.0.1:9 does not answer`);
      expect([event, here.code, here.out]).toEqual([event, 0, '']);
      expect(here.err).toBe(`signet: hook ${event}: no daemon runs on ${gone}; start it with: signet start\n`);
    }
  });

  verifies('cli.hook.prompt-timeout', async () => {
    const { url, requests } = await listen('nothing');
    const env = { SIGNET_DAEMON_URL: url };
    const prompt = ['user-prompt-submit', '-H', 'codex'];
    const short = await hook(prompt, { stdin: said, env: { ...env, SIGNET_PROMPT_SUBMIT_TIMEOUT: '150' } });
    expect(short).toMatchObject({ code: 0, out: '', err: expect.stringContaining('was not answered within 150 ms') });
    const [usual, odd] = await Promise.all([
      hook(prompt, { stdin: said, env }),
      hook(prompt, { stdin: said, env: { ...env, SIGNET_PROMPT_SUBMIT_TIMEOUT: 'soon' } }),
    ]);
    expect(usual).toMatchObject({ code: 0, out: '', err: expect.stringContaining('was not answered within 5000 ms') });
    expect(odd.err).toMatch(/SIGNET_PROMPT_SUBMIT_TIMEOUT must be .* from 100 to 120000; 5000 is used[\s\S]*within 5000 ms/);
    expect(requests()).toBe(3);
  });

  test('when something else answers in the place of the daemon', async () => {
    const { url } = await listen('a web page');
    const ran = await hook(['session-start', '-H', 'codex'], { stdin: said, env: { SIGNET_DAEMON_URL: url } });
    expect(ran).toMatchObject({ code: 0, out: '', err: expect.stringContaining('not JSON') });
  });

  test('when a plugin has the session; a hook that names the same path, or none, has its answer', async () => {
    await signet.daemon.call(hookOperations.hookSessionStart, { harness: 'opencode', sessionKey: 'owned', runtimePath: 'plugin' });
    const asked = (env: { SIGNET_RUNTIME_PATH: string }) =>
      hook(['session-start', '-H', 'opencode'], { stdin: { session_id: 'owned' }, env });
    const refused = await asked({ SIGNET_RUNTIME_PATH: 'legacy' });
    expect(refused).toMatchObject({ code: 0, out: '', err: expect.stringContaining('session_claimed') });
    for (const path of ['plugin', 'unknown', ''])
      expect(await asked({ SIGNET_RUNTIME_PATH: path })).toMatchObject({ code: 0, out: expect.stringContaining('Merle'), err: '' });
    expect(await claimOf('owned')).toMatchObject({ runtimePath: 'plugin' });
  });

  test('when the session is bypassed: nothing is said and nothing kept', async () => {
    await hook(['session-start', '-H', 'codex'], { stdin: { session_id: 'hushed' } });
    await signet.daemon.call(daemonOperations.setBypass, { key: 'hushed', enabled: true });
    const stdin = { session_id: 'hushed', prompt: 'the staging server of walnut?', compact_summary: 'Not to be kept.' };
    // The end of a session is the end of its bypass as well.
    for (const event of [...EVENTS.filter((name) => !['session-end', 'synthesis'].includes(name)), 'session-end'])
      expect([event, await hook([event, '-H', 'codex'], { stdin })]).toEqual([event, { code: 0, out: '', err: '' }]);
    const { memories } = await signet.daemon.call(memoryLifecycleOperations.listMemories, {});
    expect(memories.map(({ content }) => content)).not.toContain('Not to be kept.');
  });

  test('when the command line or what it says is wrong: never with 2, which would stop the prompt', async () => {
    const prompt = { stdin: said };
    for (const args of [['no-such-event'], ['session-start'], ['user-prompt-submit', '-H', 'codex', '--no-such-flag']])
      expect([args, (await hook(args, prompt)).code]).toEqual([args, 1]);
    const badUrl = await hook(['session-end', '-H', 'codex', '--url', 'ftp://here'], prompt);
    expect(badUrl).toMatchObject({ code: 1, out: '', err: expect.stringContaining('http://') });
    const badAgent = await hook(['session-end', '-H', 'codex', '--agent', 'No Agent'], prompt);
    expect(badAgent).toMatchObject({ code: 1, out: '', err: expect.stringContaining('agentId') });
    expect((await hook(['--help'])).code).toBe(0);
  });
});

test('where tokens are in use a hook takes that of its data folder, and a wrong one is told', async () => {
  const guarded = await startSignet({ yaml: 'auth: { mode: team }\nsecrets: { keyring: false }\n' });
  onTestFinished(() => guarded.close());
  const args = ['session-start', '-H', 'codex', '--path', guarded.folder];
  const asked = (env: Record<string, string>) => hook(args, { stdin: { session_id: 'guarded' }, env: { SIGNET_DAEMON_URL: '', ...env } });
  expect(await asked({})).toMatchObject({ code: 0, out: expect.stringContaining('Memory Check Loop'), err: '' });
  expect(await asked({ SIGNET_TOKEN: 'signet_wrong' })).toMatchObject({ code: 1, out: '', err: expect.stringContaining('unauthorized') });
});
