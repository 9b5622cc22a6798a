import { expect, test } from 'vitest';
import type { Signal } from '../../src/contract/signal.ts';
import { createView } from '../../src/core/session-view.ts';
import { advance, foldCore } from '../../src/runtime/session-core.ts';
import { takeSeed } from '../../src/runtime/session-seed.ts';
import type { InputDraft, SessionCore } from '../../src/runtime/session-state.ts';
import { sessionCreated } from '../helpers/session-created.ts';

const CREATED = sessionCreated('ses_m', { machine: { id: 'session', version: '1', digest: 'd' } });
/** Ids a session keeps of messages that wait. */
const KEPT = 200;

const message = (messageId: string) => ({ messageId, type: 'info', from: 'dot', broadcast: false });
const arrived = (id: string): InputDraft => ({ name: 'message:arrived', payload: message(id) });
const started: InputDraft = { name: 'hook:end', payload: { hook: 'session-start', key: 'start', bypassed: false, durationMs: 1 } };
const prompt: InputDraft = {
  name: 'prompt:received',
  payload: { promptId: 'p', content: 'hi', attachments: [], delivery: 'queue', client: 'test', tools: [], preTools: [], bodyDigest: 'p' },
};
const shown = (...ids: string[]): InputDraft => ({
  name: 'hook:end',
  payload: { hook: 'user-prompt-submit', key: 't1.hook', bypassed: false, durationMs: 1, inject: 'x', messages: ids.map(message) },
});

/** What the log says of messages, and the session behind it. */
function tell(...drafts: InputDraft[]) {
  let core: SessionCore | null = null;
  const signals: Signal[] = [];
  for (const draft of [{ name: 'session:created', payload: CREATED } as InputDraft, ...drafts]) {
    const step = advance(core, draft, 1_000 + signals.length);
    core = step.core;
    signals.push(...(step.signals as Signal[]));
  }
  const received = signals.filter(({ name }) => name === 'message:received').map(({ payload }) => payload);
  return { core: core!, signals, received, waiting: core!.snapshot.context.arrived };
}

test('a message is named when it arrives, in any state but the last, and not again by the hook that shows it', () => {
  const { received, waiting, signals, core } = tell(
    arrived('a'),
    started,
    arrived('b'),
    prompt,
    arrived('c'),
    shown('a', 'b', 'd'),
    arrived('e'),
  );
  expect(received).toEqual([message('a'), message('b'), message('c'), { turn: 1, ...message('d') }, message('e')]);
  expect(waiting).toEqual(['c', 'e']);
  expect(signals.map(({ name }) => name)).not.toContain('session:ignored');
  expect(signals.reduce<SessionCore | null>(foldCore, null)!.snapshot.context).toEqual(core.snapshot.context);
  expect(core.snapshot.value).toEqual({ turn: { generating: 'calling' } });
});

test('while a session is aborted or ends, a message is still named; the hook that comes too late names none', () => {
  const end: InputDraft = { name: 'session:end', payload: { by: 'test', reason: 'client' } };
  const late = tell(started, arrived('a'), prompt, { name: 'turn:cancel', payload: { by: 'test' } }, arrived('b'), shown('a'));
  expect([late.received, late.waiting]).toEqual([[message('a'), message('b')], ['b']]);
  const ending = tell(started, end, arrived('c'));
  expect([ending.core.snapshot.value, ending.received]).toEqual(['ending', [message('c')]]);
});

test('a session without messages is what it was before there were any', () => {
  const { core, waiting } = tell(started, prompt);
  expect([waiting, Object.keys(core.snapshot.context).includes('arrived')]).toEqual([undefined, false]);
});

test('of many that wait the oldest are forgotten, and a fork begins with none', () => {
  const { core, waiting } = tell(started, ...Array.from({ length: KEPT + 5 }, (_, index) => arrived(`m${index}`)));
  expect([waiting!.length, waiting![0]]).toEqual([KEPT, 'm5']);
  const view = createView(CREATED, '2026-01-01T00:00:00.000Z');
  expect(takeSeed({ core, view }, { session: 'ses_f' }).context).not.toHaveProperty('arrived');
});
