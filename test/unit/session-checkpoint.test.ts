import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Checkpoint } from '../../src/core/signal-log.ts';
import { checkpointDigest, restoreCheckpoint, takeCheckpoint } from '../../src/runtime/session-checkpoint.ts';
import { advance } from '../../src/runtime/session-core.ts';

/** A session between two turns, as the first version of the form kept it. It is never written anew: logs out there hold such texts. */
const STORED = JSON.parse(readFileSync(new URL('../fixtures/checkpoint-1.json', import.meta.url), 'utf8')) as {
  seq: number;
  format: number;
  body: object;
};
const CHECKPOINT: Checkpoint = { ...STORED, body: JSON.stringify(STORED.body) };

test('a checkpoint of the first form is read, loses nothing, and the session goes on from it', () => {
  const folded = restoreCheckpoint(CHECKPOINT);

  expect(takeCheckpoint(folded, folded.boundary)).toEqual(CHECKPOINT);
  expect(folded.core.conversation.entries.map((entry) => (entry.role === 'tool' ? '' : entry.text))).toEqual(['Hello?', 'Hello!']);
  expect(folded.view.session).toMatchObject({ state: 'idle', turns: 1, title: 'Hello?', seq: 25 });
  const prompt = {
    promptId: 'prm_2',
    content: 'And?',
    attachments: [],
    delivery: 'queue',
    client: 'test',
    tools: [],
    preTools: [],
    bodyDigest: 'b2',
  } as const;
  const { core, signals } = advance(
    folded.core,
    { name: 'prompt:received', payload: { ...prompt, attachments: [], tools: [], preTools: [] } },
    folded.core.at,
  );
  expect(signals.map(({ seq, name }) => `${seq} ${name}`).slice(0, 3)).toEqual([
    '26 prompt:received',
    '27 turn:start',
    '28 session:transition',
  ]);
  expect(core.snapshot.context.turns).toBe(2);
});

test('a checkpoint that another version of the machine wrote is left at its turn boundary, with the queue', () => {
  const body = structuredClone(STORED.body) as { boundary: { machine: { version: string } }; value: unknown };
  body.boundary.machine.version = '0';
  body.value = { unknown: 'state' };

  const { core } = restoreCheckpoint({ ...CHECKPOINT, body: JSON.stringify(body) });

  expect(core.foreign?.machine.version).toBe('0');
  expect(core.snapshot.value).toBe('idle');
});

test('a form of a newer program is refused by name, and a changed text has another digest', () => {
  expect(() => restoreCheckpoint({ ...CHECKPOINT, format: 2 })).toThrow(expect.objectContaining({ code: 'storage_version' }));
  expect(checkpointDigest({ ...CHECKPOINT, body: CHECKPOINT.body.replace('Hello!', 'Hallo!') })).not.toBe(checkpointDigest(CHECKPOINT));
});
