import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ToolRegistration } from '../../src/contract/tool.ts';
import { AppError } from '../../src/core/errors.ts';
import { createJsonToolStore } from '../../src/store/tool-store.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';

const lamp = ToolRegistration.parse({
  name: 'lamp',
  description: 'A lamp',
  inputSchema: { type: 'object' },
  callback: { url: 'http://127.0.0.1:9/' },
});
const files = ToolRegistration.parse({ mcpServer: 'files', command: 'npx', args: ['files'], env: { TOKEN: 't' } });

const failure = (work: Promise<unknown>): Promise<AppError> =>
  work.then(
    () => new AppError('internal', { detail: 'it worked' }),
    (error) => error,
  );

test('a workspace without registrations has none', async () => {
  expect(await createJsonToolStore(tempFolder()).load()).toEqual([]);
});

test('registrations come back as they were, in their order', async () => {
  const folder = tempFolder();
  await createJsonToolStore(folder).save([lamp]);
  await createJsonToolStore(folder).save([files, lamp]);
  expect(await createJsonToolStore(folder).load()).toEqual([files, lamp]);
});

test('the file is for its owner alone, and nothing else stays in the folder', async () => {
  const folder = tempFolder({ 'data/tools.json.part': 'left by a crash' });
  chmodSync(join(folder, 'data', 'tools.json.part'), 0o644);

  await createJsonToolStore(folder).save([files]);

  expect(statSync(join(folder, 'data', 'tools.json')).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(folder, 'data'))).toEqual(['tools.json']);
});

test.each([
  ['cut off', '{"version":1,"tools":[{"na', 'it is not JSON'],
  ['of another kind', '[]', 'it is no list of tools'],
  ['null', 'null', 'it is no list of tools'],
  ['with a tool that is none', '{"version":1,"tools":[{"name":"two words"}]}', 'tool 1 of 1 is not one'],
])('a file that is %s is named, and stays as it is even when something is saved', async (_, text, why) => {
  const folder = tempFolder({ 'data/tools.json': text });
  const store = createJsonToolStore(folder);

  for (const work of [() => store.load(), () => store.save([lamp])]) {
    const error = await failure(work());
    expect(error.code).toBe('storage_corrupt');
    expect(error.detail).toContain(join(folder, 'data', 'tools.json'));
    expect(error.detail).toContain(why);
  }
  expect(readFileSync(join(folder, 'data', 'tools.json'), 'utf8')).toBe(text);
});

test('a file of a later version is left to the later program', async () => {
  const store = createJsonToolStore(tempFolder({ 'data/tools.json': '{"version":2,"tools":{}}' }));
  expect((await failure(store.load())).code).toBe('storage_version');
});

test('a path that cannot be read or written says so', async () => {
  const folder = tempFolder();
  mkdirSync(join(folder, 'data', 'tools.json'), { recursive: true });
  expect((await failure(createJsonToolStore(folder).load())).code).toBe('storage_failed');

  const blocked = tempFolder();
  writeFileSync(join(blocked, 'data'), 'a file where a folder should be');
  onTestFinished(() => expect(readFileSync(join(blocked, 'data'), 'utf8')).toBe('a file where a folder should be'));
  expect((await failure(createJsonToolStore(blocked).save([lamp]))).code).toBe('storage_failed');
});
