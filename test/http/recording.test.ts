import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { startEnvironment } from '../../src/cli/daemon-start.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

const CALL = { id: 'call_1', name: 'memory_search', input: { query: 'tea' } };
const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function recordingFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'signet-recording-'));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'run.jsonl');
}

async function startModel(): Promise<ModelServer> {
  const model = await startModelServer();
  closing.push(() => model.close());
  return model;
}

/** One whose model is the server, or one without any key. */
async function startWith(mode: string, file: string, model?: ModelServer, env: Record<string, string> = {}): Promise<Signet> {
  const key: Record<string, string> = model ? { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'test' } : {};
  const signet = await startSignet({ env: { SIGNALS_MODE: mode, SIGNALS_RECORDING: file, ...key, ...env } });
  closing.push(() => signet.close());
  return signet;
}

/** What was said in a new session, without the ids a client made up and without times. */
async function talk({ client }: Signet, prompts: readonly string[]) {
  const { id } = await client.session.create({});
  const answers = [];
  for (const content of prompts) answers.push((await client.session.prompt(id, { content })).content);
  const { items } = await client.session.events(id, { limit: 1_000 });
  return { id, answers, names: items.map(({ name }) => name) };
}

const textOf = (prompt: string) => JSON.stringify(prompt);

test('a recorded conversation with a tool is answered again without the model, without its key and without the tool', async () => {
  const [model, file] = [await startModel(), recordingFile()];
  model.script([{ toolCalls: [CALL] }, { text: 'No tea.', chunks: 3 }, { fault: { kind: 'status', status: 400 } }]);
  const live = await startWith('record', file, model);
  const first = await talk(live, ['Is there tea?']);
  const failed = await live.client.session.prompt(first.id, { content: 'Again' }).catch((error) => error.code);
  await live.close();
  const calls = model.requests.length;
  await model.close();

  const replayed = await startWith('replay', file);
  const second = await talk(replayed, ['Is there tea?']);
  const failedAgain = await replayed.client.session.prompt(second.id, { content: 'Again' }).catch((error) => error.code);

  expect([second.answers, second.names]).toEqual([first.answers, first.names]);
  expect([failed, failedAgain]).toEqual(['provider_refused', 'provider_refused']);
  expect(model.requests.length).toBe(calls);
  expect(await replayed.client.session.get(second.id)).toMatchObject({ provider: 'anthropic' });
});

test('a live reader of a replay gets the text in the recorded pieces', async () => {
  const [model, file] = [await startModel(), recordingFile()];
  model.script([{ text: 'one two three', chunks: 3 }]);
  await talk(await startWith('record', file, model), ['Count']);

  const chunks = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.includes('"kind":"model"'))
    .map((line) => JSON.parse(line).outcome.chunks);
  expect(chunks[0].map(([, text]: [string, string]) => text).join('')).toBe('one two three');
  expect(chunks[0].length).toBe(3);
});

test('a recording holds no times and no keys, and the same run makes the same lines', async () => {
  const record = async () => {
    const [model, file] = [await startModel(), recordingFile()];
    model.script([{ toolCalls: [CALL] }, { text: 'No tea.' }]);
    const signet = await startWith('record', file, model);
    await signet.client.session.create({ id: 'ses_same_twice' });
    await signet.client.session.prompt('ses_same_twice', { content: 'Is there tea?' });
    // The inject tells the model what time it is: that is what was said to it.
    return readFileSync(file, 'utf8')
      .replace(/^.*\n/, '')
      .replaceAll(/Now: [^\\]+/g, 'Now: <time>');
  };
  const [one, other] = [await record(), await record()];
  expect(one).toBe(other);
  expect(one).not.toMatch(/durationMs|timestamp|"test"/);
});

test('a call that was not recorded fails and says what differs', async () => {
  const [model, file] = [await startModel(), recordingFile()];
  await talk(await startWith('record', file, model), ['Is there tea?']);
  const replayed = await startWith('replay', file);
  const { id } = await replayed.client.session.create({});

  const error = await replayed.client.session.prompt(id, { content: 'Is there coffee?' }).catch((thrown) => thrown);

  expect(error.code).toBe('recording_mismatch');
  expect(error.detail).toContain('/userMessage');
  expect(error.detail).toContain(`- ${textOf('Is there tea?')}`);
  expect(error.detail).toContain(`+ ${textOf('Is there coffee?')}`);
});

test('by ordinal another question gets the next recorded answer, and passed through it is asked', async () => {
  const [model, file] = [await startModel(), recordingFile()];
  model.script([{ text: 'recorded' }, { text: 'asked' }]);
  await talk(await startWith('record', file, model), ['Is there tea?']);
  const config = (mismatch: string) => `signals:\n  recording: { mode: replay, path: ${file}, mismatch: ${mismatch} }\n`;

  const ordinal = await startSignet({ yaml: config('ordinal') });
  closing.push(() => ordinal.close());
  const passing = await startSignet({
    yaml: config('passthrough'),
    env: { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'test' },
  });
  closing.push(() => passing.close());

  expect((await talk(ordinal, ['Is there coffee?'])).answers).toEqual(['recorded']);
  expect((await talk(passing, ['Is there coffee?'])).answers).toEqual(['asked']);
});

test('auto asks what was not recorded, and keeps it for the next time', async () => {
  const [model, file] = [await startModel(), recordingFile()];
  model.script([{ text: 'first' }, { text: 'second' }]);
  expect((await talk(await startWith('auto', file, model), ['One'])).answers).toEqual(['first']);
  expect((await talk(await startWith('auto', file, model), ['One', 'Two'])).answers).toEqual(['first', 'second']);
  expect((await talk(await startWith('replay', file), ['One', 'Two'])).answers).toEqual(['first', 'second']);
  expect(model.requests.length).toBe(2);
});

test('equal questions of two sessions get their own answers, whatever their order', async () => {
  const [model, file] = [await startModel(), recordingFile()];
  model.respond((request) => ({ text: JSON.stringify(request.body).includes('pear') ? 'a pear' : 'an apple' }));
  const live = await startWith('record', file, model);
  const ask = ({ client }: Signet, id: string, fruit: string) =>
    client.session
      .create({ id })
      .then(() => client.session.prompt(id, { content: fruit }))
      .then(() => client.session.prompt(id, { content: 'What was it?' }));
  await Promise.all([ask(live, 'ses_first', 'pear'), ask(live, 'ses_second', 'apple')]);

  const replayed = await startWith('replay', file);
  const answers = await Promise.all([ask(replayed, 'ses_second', 'apple'), ask(replayed, 'ses_first', 'pear')]);

  expect(answers.map(({ content }) => content)).toEqual(['an apple', 'a pear']);
});

test('a recording whose last line was cut off is usable, and one that was changed is refused with its line', async () => {
  const [model, file] = [await startModel(), recordingFile()];
  await talk(await startWith('record', file, model), ['One', 'Two']);
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, `${text}{"kind":"mod`);
  expect((await talk(await startWith('replay', file), ['One'])).answers).toHaveLength(1);

  writeFileSync(file, text.replace('"One"', '"Eins"'));
  const refusal = await startSignet({ env: { SIGNALS_MODE: 'replay', SIGNALS_RECORDING: file } }).catch((error) => error);
  expect(refusal.code).toBe('recording_invalid');
  expect(refusal.detail).toMatch(/line \d+: the key of its request/);
});

test.each([
  [{ SIGNALS_MODE: 'replay' }, 'config_invalid', 'SIGNALS_RECORDING'],
  [{ SIGNALS_MODE: 'tape', SIGNALS_RECORDING: 'x' }, 'config_invalid', 'live, record, replay, auto'],
  [{ SIGNALS_MODE: 'replay', SIGNALS_RECORDING: 'nowhere.jsonl' }, 'recording_invalid', 'make it with the mode record'],
])('settings that cannot work are refused at the start: %o', async (env, code, words) => {
  const error = await startSignet({ env }).catch((thrown) => thrown);
  expect([error.code, error.detail.includes(words)]).toEqual([code, true]);
});

test('signet start --record and --replay are the mode and the file, seen from where they are typed', () => {
  const variables = (flags: object) => startEnvironment({ env: {} } as never, { path: tmpdir(), ...flags });
  const file = join(process.cwd(), 'run.jsonl');
  expect(variables({ record: 'run.jsonl' })).toMatchObject({ SIGNALS_MODE: 'record', SIGNALS_RECORDING: file });
  expect(variables({ replay: 'run.jsonl' })).toMatchObject({ SIGNALS_MODE: 'replay', SIGNALS_RECORDING: file });
  expect(variables({})).not.toHaveProperty('SIGNALS_MODE');
});
