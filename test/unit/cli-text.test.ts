import { describe, expect, test } from 'vitest';
import { createChatView, describeEvent } from '../../src/cli/chat-view.ts';
import { formatLogLine } from '../../src/cli/daemon-logs.ts';
import { formatEvent } from '../../src/cli/session-display.ts';
import { createStyle, formatDuration, formatTable } from '../../src/cli/terminal.ts';
import { createTextFilter, plainLine, plainText, safeJson } from '../../src/cli/terminal-text.ts';
import type { SessionEvent } from '../../src/client/session-stream.ts';

const plain = createStyle({ write: () => {} }, {});
const event = (name: string, payload: Record<string, unknown>): SessionEvent => ({ name, event: name, payload });

describe('foreign text', () => {
  test('loses every sequence a terminal would obey and keeps the rest', () => {
    expect(plainText('a\u001b[31mred\u001b[0m b')).toBe('ared b');
    expect(plainText('title\u001b]0;owned\u0007 link\u001b]8;;http://x\u001b\\here')).toBe('title linkhere');
    expect(plainText('c1 \u009b2Jgone \u009d0;x\u009cend')).toBe('c1 gone end');
    expect(plainText('back\b\rbeep\u0007 tab\tline\nnext')).toBe('backbeep tab\tline\nnext');
    expect(plainText('abc\u202edef\u2066')).toBe('abcdef');
    expect(plainText('Grüße 日本 🎉')).toBe('Grüße 日本 🎉');
  });

  test('is safe also when a sequence is cut by a chunk border', () => {
    const filter = createTextFilter();
    expect(['one\u001b', '[3', '1mtwo\u001b]0;ti', 'tle\u001b', '\\three'].map(filter)).toEqual(['one', '', 'two', '', 'three']);
  });

  test('an unfinished sequence hides no more than its line and 256 characters', () => {
    expect(plainText(`\u001b]0;never ends\nvisible`)).toBe('\nvisible');
    expect(plainText(`\u001b]0;${'x'.repeat(300)}tail`)).toMatch(/x+tail$/);
  });

  test('JSON escapes what JSON.stringify leaves to the terminal', () => {
    expect(safeJson({ a: '\u009b2J\u202e\u001b' })).toBe('{"a":"\\u009b2J\\u202e\\u001b"}');
  });

  test('a line stays one line of bounded length', () => {
    expect(plainLine('one\n  two\tthree', 20)).toBe('one two three');
    expect(plainLine('abcdefghij', 5)).toBe('abcd…');
  });
});

test('colours only on a terminal, never with NO_COLOR', () => {
  const terminal = { write: () => {}, isTTY: true };
  expect(createStyle(terminal, {}).red('x')).toBe('\u001b[31mx\u001b[39m');
  expect(createStyle(terminal, { NO_COLOR: '1' }).red('x')).toBe('x');
  expect(createStyle(terminal, { NO_COLOR: '' }).red('x')).not.toBe('x');
  expect(plain.red('x')).toBe('x');
});

test('tables align and durations use the largest fitting unit', () => {
  expect(formatTable(['A', 'LONG'], [['value', 'b']])).toBe('A      LONG\nvalue  b\n');
  expect([400, 59_000, 61_000, 7_300_000, 200_000_000].map(formatDuration)).toEqual(['0 s', '59 s', '1 min', '2 h', '2 d']);
});

test('log entries become readable lines, anything else stays as it is', () => {
  expect(formatLogLine('{"level":40,"time":1767323045678,"pid":1,"msg":"slow","ms":12,"who":{"a":1}}')).toBe(
    '2026-01-02 03:04:05.678 WARN  slow ms=12 who={"a":1}',
  );
  expect(formatLogLine('{"level":"error","msg":"two\\nlines"}')).toBe('ERROR two\\nlines');
  expect(formatLogLine('Error: at \u001b[31mnode')).toBe('Error: at node');
  expect(formatLogLine('{broken')).toBe('{broken');
});

test('a signal is one line', () => {
  const line = formatEvent({ seq: 12, name: 'tool:call', timestamp: '2026-01-02T03:04:05.678Z', payload: { name: 'x\n' } }, plain);
  expect(line).toBe('    12  03:04:05.678  tool:call                 {"name":"x\\n"}');
});

describe('the view of a conversation', () => {
  test('prints the answer as it comes and never twice', () => {
    const { out, view } = collect();
    view.show(event('harness:start', { purpose: 'answer' }));
    view.show(event('text:delta', { content: 'Hel', offset: 3 }));
    view.show(event('text:delta', { content: 'Hello', offset: 5 }));
    view.show(event('text:complete', { content: 'Hello' }));
    expect(out()).toBe('Hello\n');
  });

  test('fills in text whose delta was dropped', () => {
    const { out, view } = collect();
    view.show(event('harness:start', { purpose: 'answer' }));
    view.show(event('text:delta', { content: 'one ', offset: 4 }));
    view.show(event('text:delta', { content: 'three', offset: 13 }));
    view.show(event('text:complete', { content: 'one two three' }));
    expect(out()).toBe('one two three\n');
  });

  test('keeps thinking and answer apart, which share one count of characters', () => {
    const { out, view } = collect();
    view.show(event('harness:start', { purpose: 'answer' }));
    view.show(event('thinking:delta', { content: 'hm, ', offset: 4 }));
    view.show(event('text:delta', { content: 'yes', offset: 7 }));
    view.show(event('text:delta', { content: 'hm, yes!', offset: 8 }));
    view.show(event('text:complete', { content: 'yes!' }));
    expect(out()).toBe('hm, \nyes!\n');
  });

  test('begins the text again after a retry and keeps summaries to itself', () => {
    const { out, view } = collect();
    view.show(event('harness:start', { purpose: 'answer' }));
    view.show(event('text:delta', { content: 'bro', offset: 3 }));
    view.show(event('harness:retry', { attempt: 2, delayMs: 500, code: 'provider_failed', message: 'cut' }));
    view.show(event('text:complete', { content: 'whole' }));
    view.show(event('harness:start', { purpose: 'summary' }));
    view.show(event('text:complete', { content: 'secret summary' }));
    expect(out()).toBe('bro\nthe model failed: cut; once more in 0.5 s\nwhole\n');
  });

  test('tools, states and ends are lines of their own, foreign parts made safe', () => {
    const line = (name: string, payload: Record<string, unknown>) => describeEvent(event(name, payload), plain);
    expect(line('tool:call', { name: 'shell', input: { command: 'ls\u001b[2J' } })).toBe('→ shell {"command":"ls\\u001b[2J"}');
    expect(line('tool:result', { name: 'shell', isError: true, error: { code: 'x', message: 'no\u001b[2J' }, durationMs: 3.4 })).toBe(
      '← shell failed after 3 ms: no\\u001b[2J',
    );
    expect(line('session:researching', {})).toBe('· researching');
    expect(line('session:transition', {})).toBeUndefined();
    expect(line('research:end', { memories: 1 })).toBe('· 1 memory found');
    expect(line('turn:end', { stopReason: 'error', error: { code: 'turn_timeout', message: 'too long' } })).toBe(
      '✗ too long (turn_timeout)',
    );
    const usage = { inputTokens: 5, outputTokens: 6 };
    expect(line('turn:end', { stopReason: 'end_turn', usage, costUsd: 0.01, durationMs: 950 })).toBe(
      '· 0.9 s, 5 tokens in, 6 out, $0.0100',
    );
  });
});

function collect() {
  let text = '';
  const output = { write: (chunk: string) => (text += chunk) };
  return { out: () => text, view: createChatView({ answer: output, notes: output, style: plain }) };
}
