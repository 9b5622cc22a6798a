import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';

const KILL_WRITE = new URL('./kill-write.ts', import.meta.url).href;
/** More than fit into one commit of single writes. */
const PARTS = 150;
const SOURCE = 'guide';
const textOf = (bird: string) =>
  Array.from({ length: PARTS }, (_, part) => `# Part p${part}\nThe ${bird} of part p${part} sings.\n`).join('\n');

/** Memories of the document that anybody finds, by what they speak of. */
async function piecesOf({ daemon }: SignetProcess, bird: string): Promise<number> {
  const { memories } = await daemon.call(ops.listMemories, { limit: 1_000 });
  const { results } = await daemon.call(ops.recall, { query: `${bird} sings`, limit: 100 });
  const pieces = memories.filter(({ content }) => content.includes(`The ${bird}`)).length;
  expect(results.filter(({ content }) => content.includes(`The ${bird}`))).toHaveLength(Math.min(pieces, 100));
  return pieces;
}

function workspace() {
  const folder = tempFolder();
  let signet: SignetProcess | undefined;
  onTestFinished(async () => signet?.kill());
  const live = async (env: Record<string, string> = {}): Promise<SignetProcess> => {
    signet = await startSignetProcess({ folder, env: { SIGNET_LOG_LEVEL: 'warn', ...env } });
    return signet;
  };
  const dieAt = async (env: Record<string, string>, act: (daemon: SignetProcess['daemon']) => Promise<unknown>): Promise<void> => {
    const dying = await live({ NODE_OPTIONS: `--import=${KILL_WRITE}`, ...env });
    const exited = once(dying.process, 'exit');
    act(dying.daemon).catch(() => undefined);
    expect(await exited).toEqual([null, 'SIGKILL']);
  };
  return { live, dieAt };
}

const take = (bird: string) => (daemon: SignetProcess['daemon']) =>
  daemon.call(ops.ingestDocument, { source: SOURCE, content: textOf(bird) });

test('kill -9 after some pages of a document leaves the text of before, whole; forgetting it by its source leaves nothing', async () => {
  const { live, dieAt } = workspace();
  await dieAt({ KILL_AT_TEXT: `The falcon of part p${PARTS - 10} ` }, take('falcon'));
  let after = await live();
  expect((await after.daemon.call(ops.listDocuments, {})).documents).toEqual([]);
  expect(await piecesOf(after, 'falcon')).toBe(0);
  const kept = await take('falcon')(after.daemon);
  expect(kept).toMatchObject({ status: 'ingested', chunks: PARTS });
  await after.kill();

  await dieAt({ KILL_AT_TEXT: `The heron of part p${PARTS - 10} ` }, take('heron'));
  after = await live();
  expect([await piecesOf(after, 'falcon'), await piecesOf(after, 'heron')]).toEqual([PARTS, 0]);
  const { documents } = await after.daemon.call(ops.listDocuments, {});
  expect(documents).toMatchObject([{ source: SOURCE, state: 'whole', hash: kept.hash, chunks: PARTS }]);
  expect(await after.daemon.call(ops.forgetDocument, { source: SOURCE })).toMatchObject({ forgotten: PARTS, kept: 0 });
  expect(await piecesOf(after, 'falcon')).toBe(0);
});

test.each([
  ['publishing the new pieces', 'DELETE FROM document_work WHERE document_id = ? AND memory_id', 100],
  ['forgetting the old pieces', 'DELETE FROM document_chunks WHERE document_id = ? AND memory_id', 100],
])('kill -9 while %s: the next start has the new text, whole, and nothing of the old one', async (_, sql, number) => {
  const { live, dieAt } = workspace();
  const first = await live();
  await take('falcon')(first.daemon);
  await first.kill();
  await dieAt({ KILL_AT_SQL: sql, KILL_AT_NUMBER: String(number) }, take('heron'));
  const after = await live();
  expect([await piecesOf(after, 'falcon'), await piecesOf(after, 'heron')]).toEqual([0, PARTS]);
  expect(await take('heron')(after.daemon)).toMatchObject({ status: 'unchanged', chunks: PARTS });
});

test('kill -9 while a document is forgotten: the next start has nothing of it', async () => {
  const { live, dieAt } = workspace();
  const first = await live();
  await take('falcon')(first.daemon);
  await first.kill();
  const env = { KILL_AT_SQL: 'DELETE FROM document_chunks WHERE document_id = ? AND memory_id', KILL_AT_NUMBER: '100' };
  await dieAt(env, (daemon) => daemon.call(ops.forgetDocument, { source: SOURCE }));
  const after = await live();
  expect(await piecesOf(after, 'falcon')).toBe(0);
  expect((await after.daemon.call(ops.listDocuments, {})).documents).toEqual([]);
});
