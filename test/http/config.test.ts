import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { serveDaemon } from '../helpers/daemon-server.ts';

const YAML = `# mine
agent: { name: Merle }
hooks: { sessionStart: { recallLimit: 1 } }
runtime:
  providers:
    local: { kind: openai-compatible, baseUrl: 'http://127.0.0.1:9/v1?key=pw1', apiKey: key-1, headers: { x-team: key-2 } }
  mcpServers:
    notes: { command: notes, env: { NOTES_TOKEN: key-3 } }
embedding: { provider: none, api_key: key-4 }
telemetry: { otlpEndpoint: 'http://me:pw1@127.0.0.1:9/v1' }
`;

async function serve(yaml = YAML) {
  const daemon = await serveDaemon({ files: { 'agent.yaml': yaml }, background: true });
  const config = async () => (await daemon.get('/api/config')).body;
  const write = (text: string) => writeFileSync(join(daemon.folder, 'agent.yaml'), text);
  return { daemon, config, write };
}

test('the configuration in force is shown with its defaults, without any secret', async () => {
  const { daemon, config } = await serve();
  const shown = await config();
  expect(shown).toMatchObject({
    ...{ file: join(daemon.folder, 'agent.yaml'), fault: null, waiting: [], problems: [] },
    config: { agent: { name: 'Merle' }, hooks: { sessionStart: { recallLimit: 1, recencyBias: 0.7 } } },
    files: [{ name: 'agent.yaml', size: YAML.length }],
  });
  expect(JSON.stringify(shown)).not.toMatch(/key-\d|pw1/);
  expect(shown.config.runtime.providers.local).toMatchObject({ kind: 'openai-compatible', apiKey: '[redacted]' });
});

test('files come with their content, comments included, without any secret; a broken one without content', async () => {
  const shared = 'agent: { name: &key key-6 }\nruntime: { providers: { other: { kind: openai, apiKey: *key } } }\n';
  for (const [yaml, told] of [
    [YAML, '# mine'],
    [`# api_key: sk-ant-REDACTED\n${shared}`, 'kind: openai'],
  ] as const) {
    const { daemon, config } = await serve(yaml);
    writeFileSync(join(daemon.folder, 'SOUL.md'), 'Speak in short sentences.\n');
    const shown = await config();
    expect(shown.files.map(({ name }: { name: string }) => name)).toEqual(['agent.yaml', 'SOUL.md']);
    expect(shown.files[1]).toMatchObject({ content: 'Speak in short sentences.\n' });
    expect(shown.files[0].content).toContain(told);
    expect(JSON.stringify(shown.files)).not.toMatch(/key-\d|pw1|sk-ant/);
    writeFileSync(join(daemon.folder, 'agent.yaml'), 'runtime: { apiKey: key-7\n');
    expect((await config()).files[0]).toMatchObject({ name: 'agent.yaml', content: null });
  }
});

test('a change of hooks takes effect without a restart, and the file stays as its owner wrote it', async () => {
  const { daemon, config, write } = await serve();
  for (const content of ['one thing', 'another thing', 'a third thing']) await daemon.post('/api/memory/remember', { content });
  const shown = async () => (await daemon.post('/api/hooks/session-start', {})).body;
  expect((await shown()).memories).toHaveLength(1);
  const changed = YAML.replace('recallLimit: 1', 'recallLimit: 3').replace('Merle', 'Amsel');
  write(changed);
  await expect.poll(async () => (await config()).config.hooks.sessionStart.recallLimit, { timeout: 10_000 }).toBe(3);
  expect(await shown()).toMatchObject({ identity: { name: 'Amsel' }, memories: [{}, {}, {}] });
  expect(readFileSync(join(daemon.folder, 'agent.yaml'), 'utf8')).toBe(changed);
  const { logs } = (await daemon.get('/api/logs?category=config')).body;
  expect(logs).toMatchObject([{ level: 'info', data: { keys: ['agent.name', 'hooks.sessionStart.recallLimit'] } }]);
});

test('a change that needs a restart is said in the log and in the answer, and does not take effect', async () => {
  const { daemon, config, write } = await serve();
  write(`${YAML}daemon: { port: 4000 }\nsignals: { sync: normal }\n`);
  await expect.poll(async () => (await config()).waiting, { timeout: 10_000 }).toEqual(['daemon.port', 'signals.sync']);
  expect((await config()).config.signals.sync).toBe('full');
  expect((await daemon.get('/api/logs?category=config&level=warn')).body.logs).toMatchObject([
    { message: 'changes of the configuration wait for a restart', data: { keys: ['daemon.port', 'signals.sync'] } },
  ]);
  write(YAML);
  await expect.poll(async () => (await config()).waiting, { timeout: 10_000 }).toEqual([]);
});

test('a file that is not valid is reported with its place and leaves in force what was', async () => {
  const { daemon, config, write } = await serve();
  write('hooks:\n  sessionStart: { recallLimt: 3 }\n');
  await expect.poll(async () => (await config()).fault, { timeout: 10_000 }).toMatch(/^agent\.yaml:2:\d+ .*did you mean "recallLimit"/);
  const { fault, problems } = await config();
  expect(problems).toEqual([fault]);
  expect((await daemon.get('/api/status')).body.config.problems).toEqual([fault]);
  expect((await config()).config.hooks.sessionStart.recallLimit).toBe(1);
  write(YAML.replace('recallLimit: 1', 'recallLimit: 2'));
  await expect.poll(async () => (await config()).config.hooks.sessionStart.recallLimit, { timeout: 10_000 }).toBe(2);
  expect((await config()).fault).toBeNull();
});
