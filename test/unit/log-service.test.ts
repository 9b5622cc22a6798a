import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import type { LogHeader } from '../../src/contract/log-operations.ts';
import type { SealedSignal } from '../../src/contract/signal.ts';
import { readLogFile } from '../../src/core/log-file.ts';
import { sealSignal } from '../../src/core/signal-seal.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { startModelServer } from '../helpers/model-server/server.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { openSse } from '../helpers/sse-client.ts';

let here: Signet;
let there: Signet;
beforeAll(async () => {
  [here, there] = await Promise.all([startSignet(), startSignet()]);
});
afterAll(async () => {
  await here.close();
  await there.close();
});

async function talk(signet: Signet): Promise<string> {
  const { id } = await signet.client.session.create({ title: 'Tea' });
  await signet.client.session.prompt(id, { content: 'remember I like tea' });
  await signet.client.session.prompt(id, { content: 'zwölf Grüße 🍵\u2028' });
  return id;
}

const parse = (text: string) => readLogFile(text) as { header: LogHeader; signals: SealedSignal[] };

test('an exported session lives on in another workspace, and its export there is the same, byte for byte', async () => {
  const id = await talk(here);
  const text = await here.client.session.exportLog(id);
  const { items } = await here.client.session.events(id, { limit: 1_000 });
  const messages = await here.client.session.messages(id);
  await here.client.session.end(id, { purge: true });

  const imported = await there.client.session.importLog(parse(text));

  expect(imported).toMatchObject({ session: { id, state: 'idle', title: 'Tea', turns: 2 }, signals: items.length });
  expect(await there.client.session.exportLog(id)).toBe(text);
  expect(await there.client.session.verify(id)).toMatchObject({ verified: true, signals: items.length, digest: imported.digest });
  expect(await there.client.session.messages(id)).toEqual(messages);
  expect((await there.client.session.list({ search: 'tea' })).items.map((card) => [card.id, card.state, card.turns])).toEqual([
    [id, 'idle', 2],
  ]);
  expect(await there.client.session.stateAt(id)).toMatchObject({ seq: items.length, state: 'idle' });

  await there.client.session.prompt(id, { content: 'recall tea' });
  expect((await there.client.session.get(id)).turns).toBe(3);
  expect(await there.client.session.verify(id)).toMatchObject({ verified: true, divergence: null });
  await there.client.session.end(id);
});

test('the export of an ended session by the command line is that of the server, and comes back with signet import', async () => {
  const id = await talk(here);
  await here.client.session.end(id);
  const [from, to] = [captureCli(here), captureCli(there)];

  expect(await runCli(from.context, ['export', id, '--output', 'talk.jsonl'])).toBe(0);
  const file = join(here.folder, 'talk.jsonl');
  expect(readFileSync(file, 'utf8')).toBe(await here.client.session.exportLog(id));
  expect(await runCli(from.context, ['export', id])).toBe(0);
  expect(from.out()).toBe(readFileSync(file, 'utf8'));

  expect(await runCli(to.context, ['import', file])).toBe(0);
  expect(to.out()).toMatch(new RegExp(`^${id}: \\d+ signals, ended\\n$`));
  expect(await there.client.session.exportLog(id)).toBe(readFileSync(file, 'utf8'));
});

test('a session that exists, or that was purged, is not imported over', async () => {
  const id = await talk(here);
  const file = parse(await here.client.session.exportLog(id));
  await expect(here.client.session.importLog(file)).rejects.toMatchObject({ code: 'id_conflict', detail: `session ${id} exists` });
  await here.client.session.end(id, { purge: true });
  await expect(here.client.session.importLog(file)).rejects.toMatchObject({
    code: 'id_conflict',
    detail: expect.stringContaining('was purged here'),
  });
});

test('a file that was tampered with is refused at its line and leaves nothing behind', async () => {
  const id = await talk(here);
  const { header, signals } = parse(await here.client.session.exportLog(id));
  const send = (changed: SealedSignal[]) => there.client.session.importLog({ header, signals: changed });
  const renamed = signals.with(9, { ...signals[9]!, payload: { ...signals[9]!.payload, promptId: 'prm_other' } });

  await expect(send(renamed)).rejects.toMatchObject({
    code: 'invalid_request',
    detail: expect.stringMatching(/^line 11: the digest must be/),
    errors: [{ pointer: '/signals/9' }],
  });
  await expect(send(signals.toSpliced(4, 1))).rejects.toMatchObject({ detail: 'line 6: signal 5 is expected here, not 6' });
  await expect(send(signals.slice(0, -1))).rejects.toMatchObject({ code: 'invalid_request', detail: expect.stringMatching(/^line 1: /) });
  await expect(there.client.session.get(id)).rejects.toMatchObject({ code: 'session_not_found' });
  expect((await send(signals)).session.id).toBe(id);
});

test('a log that is well sealed but no session of this machine is refused', async () => {
  const id = await talk(here);
  const { header, signals } = parse(await here.client.session.exportLog(id));
  const { digest: _old, ...first } = signals[0]!;
  const sealed = sealSignal({ ...first, payload: { ...first.payload, session: 'ses_somebody_else' } }, '');
  const forged = { header: { ...header, signals: 1, digest: sealed.digest! }, signals: [sealed] };
  await expect(there.client.session.importLog(forged)).rejects.toMatchObject({
    code: 'invalid_request',
    detail: expect.stringMatching(/^line 2: /),
  });
});

test('a session is not imported while a turn is open in its log', async () => {
  const model = await startModelServer();
  model.gate();
  const busy = await startSignet({ env: { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'test' } });
  onTestFinished(async () => {
    model.open();
    await busy.close();
    await model.close();
  });
  const { id } = await busy.client.session.create({});
  const answered = busy.client.session.prompt(id, { content: 'hello' });
  const held = await model.next(30_000);
  const text = await busy.client.session.exportLog(id);
  await expect(there.client.session.importLog(parse(text))).rejects.toMatchObject({
    code: 'turn_open',
    detail: expect.stringContaining('the exported session is generating, with t1.r1.a1 under way'),
  });
  held.reply({ text: 'Hi.' });
  await answered;
  expect((await there.client.session.importLog(parse(await busy.client.session.exportLog(id)))).session.state).toBe('idle');
});

test('signet import says which line of a file is broken, and that a file is not there', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-import-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const id = await talk(here);
  const file = join(folder, 'cut.jsonl');
  writeFileSync(file, (await here.client.session.exportLog(id)).slice(0, -20));
  const cli = captureCli(there);
  expect(await runCli(cli.context, ['import', file])).toBe(1);
  expect(cli.err()).toMatch(/line \d+: it is not JSON/);
  expect(await runCli(cli.context, ['import', join(folder, 'absent.jsonl')])).toBe(1);
  expect(cli.err()).toContain('cannot be read');
});

test('readers of the whole log get imported signals at once, each once, with the numbers of this workspace', async () => {
  const id = await talk(here);
  const file = parse(await here.client.session.exportLog(id));
  const { id: earlier } = await there.client.session.create({});
  const { head } = await there.client.session.events(earlier);
  const { gseq } = (await there.client.session.events(earlier, { after: head - 1 })).items[0]!;
  const reader = await openSse(`${there.runtimeUrl}/events?after=${gseq}&session=${id}`);
  onTestFinished(() => reader.close());

  await there.client.session.importLog(file);

  const last = `${file.signals.at(-1)!.id}`;
  await reader.until(({ data }) => data.id === last);
  const seen = reader.frames.flatMap(({ data }) => (data.stream === `session:${id}` ? [data] : []));
  expect(seen.map(({ seq }) => seq)).toEqual(file.signals.map(({ seq }) => seq));
  const first = Number(seen[0]!.gseq);
  expect(first).toBeGreaterThan(gseq);
  expect(seen.map((signal) => signal.gseq)).toEqual(seen.map((_, index) => first + index));
});

test('a long log is imported with its cache, and folds to the same state with and without it', async () => {
  const id = await talk(here);
  for (let index = 0; index < 250; index += 1) await here.client.session.update(id, { title: `title ${index}` });
  const file = parse(await here.client.session.exportLog(id));
  const state = await here.client.session.stateAt(id);

  await there.client.session.importLog(file);

  expect(await there.client.session.stateAt(id)).toEqual(state);
  expect(await there.client.session.stateAt(id, 40)).toEqual(await here.client.session.stateAt(id, 40));
  expect(await there.client.session.verify(id)).toMatchObject({ verified: true, signals: file.signals.length });
});
