import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import { hooksOf } from '../conformance/calls.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';

const FILES = { 'agent.yaml': 'agents: { roster: [{ name: dot }, { name: rose }] }' };

/** Run one command line against a daemon. */
async function signet(daemon: DaemonServer, argv: readonly string[], stdin = '') {
  const cli = captureCli({ folder: daemon.folder, runtimeUrl: '' });
  const context = { ...cli.context, env: { HOME: daemon.folder, SIGNET_DAEMON_URL: daemon.url } };
  (context.stdin as unknown as { end(text: string): void }).end(stdin);
  const code = await runCli(context, ['message', ...argv]);
  return { code, out: cli.out(), err: cli.err() };
}

test('peers lists who is there', async () => {
  const daemon = await serveDaemon({ files: FILES });
  expect(await signet(daemon, ['peers'])).toEqual({ code: 0, out: '', err: 'Nobody else is there.\n' });
  const hook = hooksOf(daemon.url);
  await hook('session-start', { sessionKey: 'd1', agentId: 'dot', project: '/app' });
  await hook('session-start', { sessionKey: 'r\u001b[31m1', agentId: 'rose' });
  const { out } = await signet(daemon, ['peers']);
  expect(out.split('\n')[0]).toMatch(/^SESSION +AGENT +HARNESS +PROJECT +LAST SEEN$/);
  expect(out).toMatch(/^d1 +dot +test +\/app +2025-03-03T12:00:00.000Z$/m);
  expect(out).toMatch(/^r1 +rose/m);
  expect(JSON.parse((await signet(daemon, ['peers', '--agent', 'dot', '--json'])).out)).toMatchObject({
    count: 1,
    sessions: [{ agentId: 'rose' }],
  });
});

test('send says whom it reached, inbox shows it, and can mark it as read', async () => {
  const daemon = await serveDaemon({ files: FILES });
  const waiting = await signet(daemon, ['send', 'rose', '-', '--from', 'dot', '--type', 'question'], 'is the lock\n\u001b[2Jyours?');
  expect(waiting).toMatchObject({ code: 0, err: '' });
  expect(waiting.out).toMatch(/^msg_\w+ {2}waits for the next session of the agent\n$/);
  await hooksOf(daemon.url)('session-start', { sessionKey: 'd1', agentId: 'dot' });
  expect((await signet(daemon, ['send', '@all', 'deploy at noon'])).out).toMatch(/ {2}to 1 live session\n$/);
  expect((await signet(daemon, ['send', 'session:d1', 'only you', '--json'])).out).toContain('"toSessionKey": "d1"');

  const { out } = await signet(daemon, ['inbox', '--agent', 'rose']);
  expect(out).toMatch(/^2025-03-03T12:00:00.000Z {2}default to all {2}info {2}msg_\w+\n {2}deploy at noon\n\n/);
  expect(out).toMatch(/dot to rose {2}question {2}msg_\w+\n {2}is the lock\n {2}yours\?\n$/);
  expect(JSON.parse((await signet(daemon, ['inbox', '--agent', 'rose', '--no-broadcast', '--json'])).out)).toMatchObject({ count: 1 });
  expect(JSON.parse((await signet(daemon, ['inbox', '--sent', '--json'])).out)).toMatchObject({ count: 2 });
  expect((await signet(daemon, ['inbox', '--agent', 'rose', '--mark-read'])).code).toBe(0);
  expect(await signet(daemon, ['inbox', '--agent', 'rose', '--unread'])).toEqual({ code: 0, out: '', err: 'No messages.\n' });
});

test('a relay prints what the other agent answered, and fails when it does', async () => {
  const run = { run_id: 'run_1', status: 'completed', output: [{ parts: [{ content: 'On it.\u001b[31m' }] }] };
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(request.url === '/runs' ? 200 : 404).end(JSON.stringify(run)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close().closeAllConnections());
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const daemon = await serveDaemon({ files: { 'agent.yaml': `crossAgent: { acp: { allowedOrigins: ['${origin}'] } }` } });

  expect(await signet(daemon, ['send', 'helper', 'please', '--acp', origin])).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^msg_\w+ {2}delivered\nOn it\.\n$/),
  });
  expect(await signet(daemon, ['send', 'helper', 'please', '--acp', `${origin}/other`])).toMatchObject({
    code: 1,
    err: expect.stringContaining('the relay failed: it answered 404'),
  });
  expect((await signet(daemon, ['inbox', '--sent'])).out).toContain(`default to helper at ${origin}  info`);
  expect(await signet(daemon, ['send', 'helper', 'please', '--acp', 'https://a.test'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('(relay_forbidden)'),
  });
});

test.each([
  [['send', 'ghost', 'x'], 1, 'no agent "ghost" and no live session of one; known agents: default, dot, rose (unknown_agent)'],
  [['send', 'session:ghost', 'x'], 1, '(session_not_found)'],
  [['send', 'rose', ''], 1, 'content is required'],
  [['send', 'rose', 'x', '--type', 'order'], 2, 'Allowed choices are assist_request'],
  [['inbox', '--since', 'soon'], 2, '--since is no time: soon'],
])('%j is refused', async (argv, code, words) => {
  const daemon = await serveDaemon({ files: FILES });
  expect(await signet(daemon, argv)).toMatchObject({ code, out: '', err: expect.stringContaining(words) });
});
