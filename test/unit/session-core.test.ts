import { expect, test } from 'vitest';
import type { Signal } from '../../src/contract/signal.ts';
import { createView, foldView } from '../../src/core/session-view.ts';
import { advance, foldCore } from '../../src/runtime/session-core.ts';
import { restoreSnapshot, takeSnapshot } from '../../src/runtime/session-snapshot.ts';
import type { InputDraft, SessionCore } from '../../src/runtime/session-state.ts';
import { sessionCreated } from '../helpers/session-created.ts';

const usage = { inputTokens: 10, outputTokens: 5 };

const STORY: InputDraft[] = [
  {
    name: 'session:created',
    payload: sessionCreated('ses_story', { machine: { id: 'session', version: '1', digest: 'd' }, limits: { idleTtlMs: 1_000 } }),
  },
  { name: 'hook:end', payload: { hook: 'session-start', key: 'start', bypassed: false, durationMs: 1, inject: 'You are Dot.' } },
  prompt('first', 'hello'),
  prompt('second', 'and again'),
  {
    name: 'hook:end',
    payload: { hook: 'user-prompt-submit', key: 't1.hook', bypassed: false, durationMs: 1, inject: '## Relevant Memory\n- tea' },
  },
  {
    name: 'harness:end',
    payload: {
      key: 't1.r1.a1',
      content: 'let me look',
      toolCalls: [
        { id: 'a', name: 'look', input: { at: 1 }, class: 'pure', origin: 'builtin', approval: 'allow' },
        { id: 'b', name: 'burn', input: {}, class: 'unsafe', origin: 'builtin', approval: 'deny', reason: 'no' },
      ],
      stopReason: 'tool_use',
      model: 'm',
      usage,
      costUsd: 0.1,
      durationMs: 1,
      firstTokenMs: 1,
    },
  },
  { name: 'tool:result', payload: { id: 'a', name: 'look', key: 't1.r1.c0', output: 'seen', isError: false, durationMs: 1, bytes: 4 } },
  {
    name: 'harness:error',
    payload: {
      key: 't1.r2.a1',
      error: 'busy',
      code: 'provider_overloaded',
      message: 'busy',
      recoverable: true,
      jitter: 0.5,
      durationMs: 1,
      partialChars: 0,
    },
  },
  { name: 'timer:fired', payload: { id: 'backoff' } },
  { name: 'text:complete', payload: { key: 't1.r2.a2', content: 'done' } },
  answer('t1.r2.a2', 'done'),
  { name: 'turn:cancel', payload: { by: 'test' } },
];

function prompt(promptId: string, content: string): InputDraft {
  return {
    name: 'prompt:received',
    payload: { promptId, content, attachments: [], delivery: 'queue', client: 'test', tools: [], preTools: [], bodyDigest: promptId },
  };
}

function answer(key: string, content: string): InputDraft {
  return {
    name: 'harness:end',
    payload: { key, content, toolCalls: [], stopReason: 'end_turn', model: 'm', usage, costUsd: 0.1, durationMs: 1, firstTokenMs: 1 },
  };
}

function tell(story: readonly InputDraft[]): { core: SessionCore; signals: Signal[] } {
  let core: SessionCore | null = null;
  const signals: Signal[] = [];
  story.forEach((draft, index) => {
    const step = advance(core, draft, 1_700_000_000_000 + index * 10);
    core = step.core;
    for (const signal of step.signals) signals.push({ ...signal, gseq: signals.length + 1 });
  });
  return { core: core!, signals };
}

function fold(signals: readonly Signal[]): SessionCore {
  let core: SessionCore | null = null;
  for (const signal of signals) core = foldCore(core, signal);
  return core!;
}

const comparable = ({ snapshot, causes, ...rest }: SessionCore) => ({
  ...rest,
  causes: [...causes],
  value: snapshot.value,
  context: snapshot.context,
  status: snapshot.status,
});

test('folding the log gives the very state that wrote it, at every step', () => {
  for (let length = 1; length <= STORY.length; length += 1) {
    const { core, signals } = tell(STORY.slice(0, length));
    expect(comparable(fold(signals))).toEqual(comparable(core));
  }
});

test('the same inputs at the same times give the same signals, byte for byte', () => {
  expect(JSON.stringify(tell(STORY).signals)).toBe(JSON.stringify(tell(STORY).signals));
});

test('numbers are dense, times never run back, and every parent stands before its child', () => {
  const { signals } = tell(STORY);
  const seen = new Map<string, number>();
  for (const [index, signal] of signals.entries()) {
    expect(signal.seq).toBe(index + 1);
    if (signal.source.parent) expect(seen.get(signal.source.parent)).toBeLessThan(signal.seq);
    seen.set(signal.id, signal.seq);
  }
  const roots = signals.filter((signal) => signal.source.parent === undefined).map((signal) => signal.name);
  expect(roots).toEqual(['session:created', 'prompt:received', 'prompt:received']);
});

test('what a queued turn does belongs to its own prompt, not to the one whose end made room', () => {
  const { signals } = tell(STORY);
  const second = signals.find((signal) => signal.name === 'prompt:received' && signal.payload.promptId === 'second')!;
  const start = signals.find((signal) => signal.name === 'turn:start' && signal.payload.promptId === 'second')!;
  const hook = signals.findLast((signal) => signal.name === 'hook:start')!;
  expect(start.source.parent).toBe(second.id);
  expect(hook.source.root).toBe(second.id);
});

test('a clock that runs back does not take the stream with it', () => {
  const { core } = tell(STORY.slice(0, 3));
  const { signals } = advance(core, { name: 'session:updated', payload: { title: 'later', by: 'test' } }, 1);
  expect(signals[0]!.timestamp).toBe('2023-11-14T22:13:20.020Z');
});

test('a snapshot taken at any step leads to the same state as the whole log', () => {
  const { signals } = tell(STORY);
  const whole = comparable(fold(signals));
  for (let length = 6; length < signals.length; length += 1) {
    const view = createView(signals[0]!.payload as never, signals[0]!.timestamp);
    for (const signal of signals.slice(0, length)) foldView(view, signal);
    const taken = takeSnapshot({ core: fold(signals.slice(0, length)), view });

    const restored = restoreSnapshot(taken)!;
    let core = restored.core;
    for (const signal of signals.slice(length)) {
      core = foldCore(core, signal);
      foldView(restored.view, signal);
    }

    expect(comparable(core)).toEqual(whole);
    expect(restored.view.session.seq).toBe(signals.length);
  }
});

test('a snapshot of another version is not used', () => {
  expect(restoreSnapshot({ seq: 1, version: '0', body: '{}' })).toBeNull();
  expect(restoreSnapshot(null)).toBeNull();
});
