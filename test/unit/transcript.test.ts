import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { normalForm } from '../../src/core/normal-form.ts';
import { knownTurns } from '../../src/core/transcript.ts';
import { turnOfLine, turnsOfText } from '../../src/core/transcript-parse.ts';
import { redactSecrets } from '../../src/core/transcript-redact.ts';
import { readTranscriptFile, TRANSCRIPT_BYTES_MAX } from '../../src/daemon/transcript-file.ts';
import { openMemoryStores } from '../../src/store/memory-store.ts';
import { memoryMigrations } from '../../src/store/memory-store-schema.ts';
import { closeDatabase, openDatabase } from '../../src/store/sqlite.ts';
import { START_MS, tempFolder } from '../helpers/daemon-fixture.ts';

describe('turns that are kept already', () => {
  test.each([
    ['nothing kept', '', 'abc', 0],
    ['the same again', 'abc', 'abc', 3],
    ['a whole session that went on', 'abc', 'abcde', 3],
    ['only what is new', 'abc', 'de', 0],
    ['an end that overlaps', 'abcd', 'cdef', 2],
    ['a part of what is there', 'abcdef', 'cd', 2],
    ['words that repeat', 'abab', 'ababc', 4],
    ['nothing new', 'abc', '', 0],
  ])('%s', (_name, kept, incoming, known) => {
    expect(knownTurns([...kept], [...incoming])).toBe(known);
  });
});

describe('lines of transcript files', () => {
  const line = (record: unknown) => turnOfLine(JSON.stringify(record));

  test('Claude Code', () => {
    const timestamp = '2025-03-03T10:00:00.000Z';
    expect(line({ type: 'user', timestamp, message: { role: 'user', content: 'Hello' } })).toEqual({
      role: 'user',
      content: 'Hello',
      at: timestamp,
    });
    const content = [
      { type: 'thinking', thinking: 'secret', text: 'hidden' },
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', name: 'Read', input: { path: 'x' } },
    ];
    expect(line({ type: 'assistant', message: { role: 'assistant', content } })).toEqual({
      role: 'assistant',
      content: 'I look.\n[tool Read]',
    });
    const result = [{ type: 'tool_result', content: [{ type: 'text', text: 'file text' }] }];
    expect(line({ type: 'user', message: { role: 'user', content: result } })).toEqual({ role: 'tool', content: 'file text' });
  });

  test('our own injects and the notes of a harness are no turns', () => {
    expect(line({ type: 'attachment', attachment: { hook_success: 'Relevant Memory' } })).toBeUndefined();
    expect(line({ type: 'user', isMeta: true, message: { role: 'user', content: 'caveat' } })).toBeUndefined();
    expect(line({ type: 'user', isSidechain: true, message: { role: 'user', content: 'sub-agent' } })).toBeUndefined();
    expect(line({ type: 'response_item', payload: { type: 'message', role: 'developer', content: [{ text: 'inject' }] } })).toBeUndefined();
    expect(line({ payload: { role: 'user', content: [{ text: '<environment_context>cwd</environment_context>' }] } })).toBeUndefined();
    expect(line({ type: 'queue-operation' })).toBeUndefined();
    expect(turnOfLine('not json')).toBeUndefined();
    expect(turnOfLine('')).toBeUndefined();
  });

  test('Codex, pi and plain turns', () => {
    const payload = { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Done.' }] };
    expect(line({ timestamp: '2025-03-03T10:00:00Z', type: 'response_item', payload })).toEqual({
      role: 'assistant',
      content: 'Done.',
      at: '2025-03-03T10:00:00.000Z',
    });
    expect(line({ type: 'response_item', payload: { type: 'function_call_output', output: 'ok' } })).toEqual({
      role: 'tool',
      content: 'ok',
    });
    expect(line({ type: 'message', message: { role: 'toolResult', content: [{ type: 'text', text: 'ok' }] } })).toEqual({
      role: 'tool',
      content: 'ok',
    });
    expect(line({ role: 'Human', content: 'Hi', at: '2025-03-03T10:00:00Z' })).toMatchObject({ role: 'user', content: 'Hi' });
  });

  test('whole files: JSON lists and spoken text', () => {
    expect(turnsOfText('[{"role":"user","content":"a"},{"role":"assistant","content":"b"},5]')).toHaveLength(2);
    expect(turnsOfText('{"messages":[{"role":"user","content":"a"}]}')).toEqual([{ role: 'user', content: 'a' }]);
    expect(turnsOfText('User: one\nstill one\nAssistant: two\n')).toEqual([
      { role: 'user', content: 'one\nstill one' },
      { role: 'assistant', content: 'two' },
    ]);
    expect(turnsOfText('just notes')).toEqual([{ role: 'transcript', content: 'just notes' }]);
  });
});

describe('a transcript file', () => {
  const LINE = '{"role":"user","content":"inside"}\n';
  const files = ['ws/logs/a.jsonl', 'ws/agent.yaml', 'ws/.secrets/b.jsonl', 'ws/data/c.jsonl', 'outside.jsonl'];
  const folder = () => join(tempFolder(Object.fromEntries(files.map((file) => [file, LINE]))), 'ws');
  const read = (path: string, workspace: string, roots: string[] = []) => readTranscriptFile(path, { folder: workspace, roots });

  test('in the workspace is read, by relative path too', async () => {
    const workspace = folder();
    const turns = [{ role: 'user', content: 'inside' }];
    expect(await read(join(workspace, 'logs/a.jsonl'), workspace)).toEqual({ turns });
    expect(await read('logs/a.jsonl', workspace)).toEqual({ turns });
  });

  test.each([
    '../outside.jsonl',
    '/etc/passwd',
    '.secrets/b.jsonl',
    'data/c.jsonl',
    'agent.yaml',
    'logs',
    'nowhere.jsonl',
    'sqlite:dot:1:/x',
    'logs/a.jsonl\0',
  ])('%j is not read, and the answer says why', async (path) => {
    const workspace = folder();
    const { turns, problem } = await read(path, workspace);
    expect(turns).toEqual([]);
    expect(problem).toMatch(/outside the folders|no transcript|cannot be read|no ordinary file/);
  });

  test('is not reached through a symbolic link, unless its own folder is allowed', async () => {
    const workspace = folder();
    const elsewhere = tempFolder({ 'b.jsonl': LINE });
    symlinkSync(join(elsewhere, 'b.jsonl'), join(workspace, 'link.jsonl'));
    symlinkSync(elsewhere, join(workspace, 'linked'));
    for (const path of ['link.jsonl', 'linked/b.jsonl']) {
      expect((await read(path, workspace)).problem).toContain('outside the folders');
      expect((await read(path, workspace, [elsewhere])).turns).toHaveLength(1);
    }
  });

  test('beyond the limit is read from its end', async () => {
    const workspace = folder();
    mkdirSync(join(workspace, 'big'));
    const file = join(workspace, 'big', 'a.txt');
    writeFileSync(file, 'User: the first word\n');
    truncateSync(file, TRANSCRIPT_BYTES_MAX + 100);
    writeFileSync(file, '\nUser: the last word\n', { flag: 'a' });
    const { turns, problem } = await read(file, workspace);
    expect(turns.at(-1)).toEqual({ role: 'user', content: 'the last word' });
    expect(problem).toContain(`its last ${TRANSCRIPT_BYTES_MAX} were read`);
  });
});

test('transcripts of an older file, kept in one piece, are turns afterwards', async () => {
  const path = join(tempFolder(), 'memory.db');
  const before = openDatabase(path, { synchronous: 'FULL', migrations: memoryMigrations.slice(0, 2) });
  const transcript = JSON.stringify([
    { role: 'user', content: 'old words', at: '2025-03-03T10:00:00Z' },
    { role: 'assistant', content: 'yes' },
  ]);
  const sql = `INSERT INTO session_lines (agent_id, session_key, harness, project, transcript, updated_at) VALUES ('dot', 'k', 'h', '/p', ?, 1)`;
  before.prepare(sql).run(transcript);
  before.exec(`INSERT INTO session_lines (agent_id, session_key, updated_at) VALUES ('dot', 'empty', 1)`);
  closeDatabase(before);

  const stores = openMemoryStores(path, { now: () => START_MS });
  onTestFinished(() => stores.close());
  const line = { agentId: 'dot', sessionKey: 'k' };
  expect(await stores.transcripts.line(line)).toEqual({ harness: 'h', project: '/p', turns: 2 });
  expect(await stores.transcripts.turns(line, { after: 0, limit: 9 })).toEqual([
    { number: 1, role: 'user', content: 'old words', at: '2025-03-03T10:00:00.000Z' },
    { number: 2, role: 'assistant', content: 'yes' },
  ]);
  expect(await stores.transcripts.search('dot', { text: 'old words', limit: 9 })).toHaveLength(1);
  expect(await stores.transcripts.line({ ...line, sessionKey: 'empty' })).toBeUndefined();
});

test('names of secrets are found with anything before and behind their keyword', () => {
  for (const text of [
    'my-api-key-2: hunter2hunter2',
    'MY_SECRET = "hunter2hunter2"',
    'token-token-token=hunter2hunter2',
    'x_password_old :\n  hunter2hunter2',
  ])
    expect(redactSecrets(text)).toBe(text.replace('hunter2hunter2', '[redacted]'));
  expect(redactSecrets('a token of trust, a secret: shh')).toBe('a token of trust, a secret: shh');
});

test('ligatures of whole sentences are written out as long as that at most doubles a text, and everything else is normalized', () => {
  expect(normalForm('\ufdfb Ａﬁ', 'NFKC')).toBe(`${'\ufdfb'.normalize('NFKC')} Afi`);
  const long = normalForm('\ufdfaＡ'.repeat(50_000), 'NFKC');
  expect(long.length).toBeLessThan(200_000);
  expect(long).toMatch(/\ufdfaA$/);
  expect(normalForm('e\u0301', 'NFC')).toBe('\u00e9');
});
