import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { payloads, readLog, startRig, wireEnvironment } from '../e2e/rig.ts';
import { startModelServer } from '../helpers/model-server/server.ts';
import { startSignet, startSignetProcess } from '../helpers/signet.ts';
import { expectAllPromptsEnded, expectSoundLog } from '../model/log-check.ts';

const HOUR_MS = 3_600_000;
const SESSIONS = 40;
const SYNC_PROBE = new URL('./sync-probe.ts', import.meta.url).href;

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'signet-faults-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('a clock that jumps back an hour, in the middle of a turn and over a restart, does not make time run back in a log', async () => {
  const folder = temporaryFolder();
  const clock = vi.spyOn(Date, 'now');
  onTestFinished(() => clock.mockRestore());
  const jumpBack = () => {
    const behind = Date.now() - HOUR_MS;
    const since = performance.now();
    clock.mockImplementation(() => Math.floor(behind + performance.now() - since));
  };
  const model = await startModelServer();
  onTestFinished(() => model.close());
  const env = wireEnvironment('anthropic', model.url);
  const first = await startSignet({ folder, env });
  model.gate();
  const { id } = await first.client.session.create({});
  const prompt = first.client.session.prompt(id, { content: 'Say tea.', promptId: 'p1' });
  const held = await model.next();
  jumpBack();
  held.reply({ text: 'tea' });
  expect(await prompt).toMatchObject({ content: 'tea' });
  model.open();
  await first.close();
  jumpBack();
  const second = await startSignet({ folder, env });
  onTestFinished(() => second.close());
  expect((await second.client.session.prompt(id, { content: 'And milk.', promptId: 'p2' })).status).toBe('completed');
  // Waits still end: a provider that is busy is asked again in a moment, not in an hour.
  model.script([{ fault: { kind: 'status', status: 529 } }, { text: 'here I am' }]);
  expect(await second.client.session.prompt(id, { content: 'Hello?', promptId: 'p3' })).toMatchObject({ content: 'here I am' });
  await second.client.session.end(id);
  const log = await readLog(second.client, id);
  expectSoundLog(log);
  expectAllPromptsEnded(log);
  const times = log.map(({ timestamp }) => timestamp);
  expect(times).toEqual([...times].sort());
  expect((await second.client.session.verify(id)).verified).toBe(true);
});

test('a log with a gap is not taken in: the line is named, and nothing of it is kept', async () => {
  const rig = await startRig();
  onTestFinished(() => rig.close());
  const { id } = await rig.client.session.create({});
  await rig.client.session.prompt(id, { content: 'Hello.' });
  await rig.client.session.end(id);
  const lines = (await rig.client.session.exportLog(id)).trimEnd().split('\n');
  const other = await startSignet();
  onTestFinished(() => other.close());
  const [header, ...signals] = lines.map((line) => JSON.parse(line));
  const missing = signals.toSpliced(4, 1);
  await expect(other.client.session.importLog({ header, signals: missing })).rejects.toMatchObject({
    status: 400,
    detail: expect.stringContaining('line 6: signal 5 is expected here, not 6'),
  });
  await expect(other.client.session.get(id)).rejects.toMatchObject({ code: 'session_not_found' });
  // The whole of it is welcome.
  expect(await other.client.session.importLog({ header, signals })).toMatchObject({ signals: signals.length });
  expect(await readLog(other.client, id)).toHaveLength(signals.length);
});

test.each([
  ['full', 2],
  ['normal', 1],
] as const)(
  'signals.sync: %s writes the log with synchronous %i; what was acknowledged survives kill -9 with both',
  async (sync, pragma) => {
    const folder = temporaryFolder();
    const yaml = `signals: { sync: ${sync} }\n`;
    const options = { folder, yaml, env: { NODE_OPTIONS: `--import=${SYNC_PROBE}` } };
    const first = await startSignetProcess(options);
    const { id } = await first.client.session.create({});
    await first.client.session.prompt(id, { content: 'remember tea', promptId: 'p1' });
    await first.kill();
    expect(first.output()).toContain(`the log is written with synchronous ${pragma}`);
    const second = await startSignetProcess(options);
    onTestFinished(() => second.close());
    const log = await readLog(second.client, id);
    expect(payloads(log, 'prompt:received').map(({ promptId }) => promptId)).toEqual(['p1']);
    expect(payloads(log, 'turn:end').length).toBe(1);
    expect((await second.client.session.verify(id)).verified).toBe(true);
  },
);

test('a daemon told to stop while it brings its sessions back stops, and they go on at the start after', async () => {
  const folder = temporaryFolder();
  const model = await startModelServer();
  onTestFinished(() => model.close());
  model.gate();
  const options = {
    folder,
    yaml: 'runtime: { limits: { drainTimeoutMs: 300 } }\n',
    env: { ...wireEnvironment('anthropic', model.url), SIGNET_LOG_LEVEL: 'error' },
  };
  const first = await startSignetProcess(options);
  const ids = Array.from({ length: SESSIONS }, (_, index) => `ses_stopped_${index}`);
  await Promise.all(
    ids.map(async (id) => {
      await first.client.session.create({ id });
      await first.client.session.promptAsync(id, { content: 'Say tea.', promptId: 'p1' });
    }),
  );
  await first.kill();
  const second = await startSignetProcess(options);
  // Ends only when nothing in it works any more.
  await second.close();
  expect([second.process.exitCode, second.process.signalCode]).toEqual([0, null]);
  model.open();
  const third = await startSignetProcess(options);
  onTestFinished(() => third.close());
  for (const id of ids) {
    await third.client.session.wait(id, { timeoutMs: 20_000 });
    expect(payloads(await readLog(third.client, id), 'turn:end')).toMatchObject([{ promptId: 'p1', stopReason: 'end_turn' }]);
  }
});
