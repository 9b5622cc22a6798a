import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import { verifies } from '../conformance/verifies.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';

/** Run one command line against a daemon. */
async function signet(daemon: DaemonServer, argv: readonly string[], stdin = '') {
  const cli = captureCli({ folder: daemon.folder, runtimeUrl: '' });
  const context = { ...cli.context, env: { HOME: daemon.folder, SIGNET_DAEMON_URL: daemon.url } };
  (context.stdin as unknown as { end(text: string): void }).end(stdin);
  const code = await runCli(context, argv);
  return { code, out: cli.out(), err: cli.err() };
}

test('remember stores and says the id; the same again is known already; recall finds it', async () => {
  const daemon = await serveDaemon();
  const first = await signet(daemon, ['remember', 'the staging server is called heron', '--tags', 'ops,names', '-i', '0.9']);
  expect(first).toMatchObject({ code: 0, err: '' });
  const id = first.out.trim();
  expect((await daemon.get(`/api/memory/${id}`)).body).toMatchObject({
    tags: 'ops,names',
    importance: 0.9,
    who: 'user',
    source_type: 'cli',
  });
  expect((await signet(daemon, ['remember', '-'], 'The staging server is called heron.')).out).toBe(`${id} (known already)\n`);

  const found = await signet(daemon, ['recall', 'staging server']);
  expect(found).toMatchObject({ code: 0, err: '' });
  expect(found.out).toMatch(
    new RegExp(`^the staging server is called heron\\n  ${id}  score \\d\\.\\d\\d  fact  2025-03-03  default  global  ops,names\\n$`),
  );
  expect(JSON.parse((await signet(daemon, ['recall', 'staging', '--json'])).out)).toMatchObject({ count: 1, results: [{ id }] });
  expect(await signet(daemon, ['recall', 'penguins'])).toEqual({ code: 0, out: '', err: 'Nothing was found.\n' });
});

verifies(
  [
    'cli.remember.agent',
    'cli.recall.agent',
    'agents.verify.remember',
    'agents.verify.remember-private',
    'agents.verify.recall',
    'agents.verify.recall-global',
  ],
  async () => {
    const daemon = await serveDaemon();
    const shared = (await signet(daemon, ['remember', 'the kettle is green', '--agent', 'dot'])).out.trim();
    const own = (await signet(daemon, ['remember', 'the kettle leaks', '--agent', 'dot', '--private'])).out.trim();
    expect((await daemon.get(`/api/memory/${shared}`)).body).toMatchObject({ agentId: 'dot', scope: 'global' });
    expect((await daemon.get(`/api/memory/${own}?agentId=dot`)).body).toMatchObject({ agentId: 'dot', scope: 'private' });
    const ids = async (...more: string[]): Promise<string[]> =>
      JSON.parse((await signet(daemon, ['recall', 'kettle', '--json', ...more])).out).results.map(({ id }: { id: string }) => id);
    expect((await ids('--agent', 'dot')).sort()).toEqual([shared, own].sort());
    expect(await ids()).toEqual([shared]);
    expect(await signet(daemon, ['remember', 'x', '--private'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('--private needs --agent'),
    });
  },
);

test('remember says when the agent is none that is set up, and stores all the same', async () => {
  const daemon = await serveDaemon({ files: { 'agent.yaml': 'agents: { roster: [{ name: rose }] }\n', 'agents/dot/SOUL.md': 'Calm.' } });
  const typo = await signet(daemon, ['remember', 'the kettle is blue', '--agent', 'rsoe']);
  expect(typo).toMatchObject({ code: 0, out: expect.stringMatching(/^\S+\n$/) });
  expect(typo.err).toBe(
    'signet: agentId: no agent "rsoe" is set up; the memory is kept for it. Known agents: default, rose, dot; signet agent add sets one up\n',
  );
  expect((await signet(daemon, ['recall', 'kettle', '--agent', 'rsoe', '--json'])).out).toContain('the kettle is blue');
  for (const agent of ['default', 'rose', 'dot'])
    expect(await signet(daemon, ['remember', `said by ${agent}`, '--agent', agent])).toMatchObject({ code: 0, err: '' });
  for (const path of ['/api/memory/remember', '/api/memory/save']) {
    const answer = await daemon.post(path, { content: `through ${path}`, agentId: 'rsoe' });
    expect(answer).toMatchObject({ status: 200, body: { success: true, warning: expect.stringContaining('no agent "rsoe"') } });
    expect((await daemon.post(path, { content: `nobody through ${path}` })).body).not.toHaveProperty('warning');
  }
});

test('list, history, forget and recover', async () => {
  const daemon = await serveDaemon();
  const id = (await signet(daemon, ['remember', 'never deploy on Friday', '--critical'])).out.trim();
  await signet(daemon, ['remember', 'likes tea']);
  const list = await signet(daemon, ['memory', 'list', '--type', 'rule']);
  expect(list.out).toMatch(
    /^MEMORY +DAY +TYPE +WEIGHT +AGENT +CONTENT\n\S+ +2025-03-03 +rule +1\.00 +default +\* never deploy on Friday\n$/,
  );
  expect((await signet(daemon, ['memory', 'list', '--limit', '1'])).err).toBe('1 more; see them with --offset 1\n');

  expect(await signet(daemon, ['memory', 'forget', id])).toMatchObject({ code: 2 });
  expect(await signet(daemon, ['memory', 'forget', id, '--reason', 'we do now'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('memory_pinned'),
  });
  expect((await signet(daemon, ['memory', 'forget', id, '--reason', 'we do now', '--force'])).out).toContain(`${id} forgotten`);
  expect((await daemon.get(`/api/memory/${id}`)).status).toBe(404);
  expect((await signet(daemon, ['memory', 'recover', id])).out).toBe(`${id} recovered, version 3\n`);
  const history = (await signet(daemon, ['memory', 'history', id])).out.split('\n');
  expect(history).toHaveLength(5);
  expect(history[2]).toMatch(/^2 +\S+ +deleted +signet-cli +we do now$/);
});

test('what is exported can be imported elsewhere, and is equal there', async () => {
  const daemon = await serveDaemon();
  for (let index = 0; index < 1_005; index += 1) await daemon.post('/api/memory/remember', { content: `Sighting number ${index}` });
  await daemon.post('/api/memory/remember', { content: 'private', agentId: 'dot', scope: 'private' });
  const written = await signet(daemon, ['memory', 'export', '--output', 'all.jsonl']);
  expect(written).toEqual({ code: 0, out: '', err: '1006 memories written to all.jsonl\n' });
  const text = readFileSync(join(daemon.folder, 'all.jsonl'), 'utf8');
  expect((await signet(daemon, ['memory', 'export', '--agent', 'rose'])).out).not.toContain('"private"');

  const other = await serveDaemon();
  writeFileSync(join(other.folder, 'all.jsonl'), text);
  expect((await signet(other, ['memory', 'import', 'all.jsonl'])).out).toBe(
    '1006 taken in, 0 replaced, 0 there already, 0 known under another id\n',
  );
  expect((await signet(other, ['memory', 'import', 'all.jsonl'])).out).toBe(
    '0 taken in, 0 replaced, 1006 there already, 0 known under another id\n',
  );
  expect((await signet(other, ['memory', 'export'])).out).toBe(text);
});

test('rate moves what recall finds for its agent; an id that is not there is told, and nonsense refused', async () => {
  const daemon = await serveDaemon();
  const keep = async (content: string) => (await signet(daemon, ['remember', content])).out.trim();
  const blue = await keep('the quokka build uses the blue pipeline');
  const green = await keep('the quokka build uses the green pipeline');
  const first = async () => JSON.parse((await signet(daemon, ['recall', 'quokka build', '--json'])).out).results[0].id;
  const [best, other] = (await first()) === blue ? [blue, green] : [green, blue];

  expect(await signet(daemon, ['memory', 'rate', 'good', other])).toEqual({ code: 0, out: '1 rated\n', err: '' });
  expect(await signet(daemon, ['memory', 'rate', 'bad', best])).toEqual({ code: 0, out: '1 rated\n', err: '' });
  expect(await first()).toBe(other);

  const partly = await signet(daemon, ['memory', 'rate', '0.5', best, 'absent']);
  expect(partly).toMatchObject({ code: 1, out: '1 rated\n', err: expect.stringContaining('1 of these ids') });
  expect(await signet(daemon, ['memory', 'rate', 'excellent', best])).toMatchObject({
    code: 2,
    err: expect.stringContaining('good, useless, bad'),
  });
});

test('a file that is cut off, broken or none of ours is refused before anything is taken in', async () => {
  const daemon = await serveDaemon();
  const header = '{"format":"signet-memories","version":1}\n';
  const memory = '{"id":"a","content":"tea","created_at":"2025-01-01T00:00:00.000Z"}\n';
  const files: [string, RegExp][] = [
    [`${header}${memory}`, /ends too early/],
    [`${header}${memory}{"id":"b"}\n{"end":true}\n`, /line 3 is no memory: content/],
    [`${header}${memory}not json\n{"end":true}\n`, /line 3 is no memory/],
    ['{"format":"other"}\n', /is no file that signet memory export wrote/],
  ];
  for (const [text, message] of files) {
    writeFileSync(join(daemon.folder, 'in.jsonl'), text);
    expect(await signet(daemon, ['memory', 'import', 'in.jsonl'])).toMatchObject({ code: 1, out: '', err: expect.stringMatching(message) });
  }
  expect(await signet(daemon, ['memory', 'import', 'absent.jsonl'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('cannot be read'),
  });
  expect((await daemon.get('/api/memories')).body.total).toBe(0);
});

test('a daemon that does not answer is named with its address', async () => {
  const daemon = await serveDaemon();
  const answer = await signet(daemon, ['recall', 'x', '--url', 'http://127.0.0.1:9']);
  expect(answer).toMatchObject({ code: 1, err: expect.stringMatching(/http:\/\/127\.0\.0\.1:9 does not answer.*daemon_unreachable/) });
});
