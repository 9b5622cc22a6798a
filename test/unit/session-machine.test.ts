import { describe, expect, test } from 'vitest';
import { createPureMachine } from '../../machines/pure-step.ts';
import { type SessionMachine, sessionMachine } from '../../machines/session.machine.ts';
import type { InputEvent, OutputEvent, SessionLimits } from '../../machines/session-context.ts';
import type { PayloadOf } from '../../src/contract/catalog.ts';
import { CREATED, LIMITS, leafOf } from '../model/moves.ts';

const pure = createPureMachine<SessionMachine, InputEvent, OutputEvent>(sessionMachine);
const T0 = Date.parse('2026-01-01T00:00:00.000Z');
const USAGE = { inputTokens: 100, outputTokens: 20 };

/** A session whose inputs are given by hand, with all that it says. */
class Machine {
  #snapshot;
  #at = T0;
  readonly said: OutputEvent[] = [];

  constructor(limits: Partial<SessionLimits> = {}) {
    const begun = pure.begin({
      at: T0,
      created: { ...CREATED, limits: { ...LIMITS, mailboxTurnsMax: 16, roundsMax: 50, attemptsMax: 3, ...limits } },
    });
    this.#snapshot = begun.snapshot;
    this.said.push(...begun.said);
  }

  get state(): string {
    return leafOf(this.#snapshot.value);
  }

  get context() {
    return this.#snapshot.context;
  }

  wait(ms: number): this {
    this.#at += ms;
    return this;
  }

  send<T extends InputEvent['type']>(type: T, payload: PayloadOf<T>): this {
    const step = pure.next(this.#snapshot, { type, at: this.#at, payload } as unknown as InputEvent);
    this.#snapshot = step.snapshot;
    this.said.push(...step.said);
    return this;
  }

  hook(hook: PayloadOf<'hook:end'>['hook'], key: string): this {
    return this.send('hook:end', { hook, key, bypassed: false, durationMs: 1 });
  }

  prompt(promptId: string, more: Partial<PayloadOf<'prompt:received'>> = {}): this {
    const plain = {
      content: 'Hello.',
      attachments: [],
      delivery: 'queue',
      client: 'test',
      tools: [],
      preTools: [],
      bodyDigest: '',
    } as const;
    return this.send('prompt:received', { promptId, ...plain, ...more } as PayloadOf<'prompt:received'>);
  }

  /** Idle, then a prompt whose research is done: the model is being called. */
  calling(promptId = 'p1'): this {
    return this.hook('session-start', 'start').prompt(promptId).hook('user-prompt-submit', 't1.hook');
  }

  answer(key: string, more: Partial<PayloadOf<'harness:end'>> = {}): this {
    const plain = {
      content: 'Hi.',
      toolCalls: [],
      stopReason: 'end_turn',
      model: 'm',
      usage: USAGE,
      costUsd: 0.5,
      durationMs: 1,
      firstTokenMs: 1,
    };
    return this.send('harness:end', { key, ...plain, ...more });
  }

  fail(key: string, more: Partial<PayloadOf<'harness:error'>> = {}): this {
    const plain = { error: '', code: 'provider_overloaded', message: 'busy', recoverable: true, jitter: 1, durationMs: 1, partialChars: 0 };
    return this.send('harness:error', { key, ...plain, ...more });
  }

  saidOf<T extends OutputEvent['type']>(type: T): PayloadOf<T>[] {
    return this.said.filter((output) => output.type === type).map(({ payload }) => payload as PayloadOf<T>);
  }

  get owed(): string[] {
    return this.context.pending.map(({ key }) => key);
  }
}

const call = (id: string, name: string, approval: 'allow' | 'ask' | 'deny') =>
  ({ id, name, input: {}, class: 'pure', origin: 'custom', approval }) as const;

describe('a turn', () => {
  test('counts usage and cost, and ends every prompt that is in it with one signal', () => {
    const machine = new Machine().calling().prompt('p2', { delivery: 'steer' }).answer('t1.r1.a1').answer('t1.r2.a1');
    expect(machine.state).toBe('idle');
    expect(machine.saidOf('turn:steered')).toEqual([{ turn: 1, promptId: 'p2' }]);
    expect(machine.saidOf('turn:end')).toMatchObject([
      {
        promptId: 'p1',
        promptIds: ['p1', 'p2'],
        stopReason: 'end_turn',
        rounds: 2,
        usage: { inputTokens: 200, outputTokens: 40 },
        costUsd: 1,
      },
    ]);
  });

  test('has no cost once a call of unknown price is in it', () => {
    const machine = new Machine().calling().answer('t1.r1.a1', { costUsd: null });
    expect(machine.saidOf('turn:end')).toMatchObject([{ costUsd: null }]);
  });

  test('goes on without findings when research fails', () => {
    const machine = new Machine().hook('session-start', 'start').prompt('p1');
    machine.send('hook:error', { hook: 'user-prompt-submit', key: 't1.hook', code: 'timeout', message: 'late', durationMs: 5_000 });
    expect(machine.state).toBe('turn.generating.calling');
  });

  test('has one deadline, from its start, whatever happens inside', () => {
    const machine = new Machine({ turnTimeoutMs: 60_000 }).calling().wait(40_000).fail('t1.r1.a1').send('timer:fired', { id: 'backoff' });
    expect(machine.saidOf('turn:start')).toMatchObject([{ deadlineAt: '2026-01-01T00:01:00.000Z' }]);
    expect(machine.context.turn?.deadlineAt).toBe(T0 + 60_000);
    machine.wait(20_000).send('timer:fired', { id: 'turn' }).fail('t1.r1.a2', { code: 'aborted', recoverable: false });
    expect(machine.saidOf('turn:end')).toMatchObject([{ stopReason: 'error', error: { code: 'turn_timeout' } }]);
  });

  test('is aborted by an interrupting prompt, which goes before those that wait', () => {
    const machine = new Machine().calling().prompt('p2').prompt('p3', { delivery: 'interrupt' });
    expect(machine.state).toBe('aborting');
    machine.fail('t1.r1.a1', { code: 'aborted', recoverable: false });
    expect(machine.state).toBe('turn.researching');
    expect(machine.saidOf('turn:end')).toMatchObject([{ promptIds: ['p1'], stopReason: 'cancelled' }]);
    expect(machine.context.turn?.promptId).toBe('p3');
    expect(machine.context.mailbox.map(({ promptId }) => promptId)).toEqual(['p2']);
  });
});

describe('a failed model call', () => {
  test('is made again after waits that double, and fails the turn when the attempts are used up', () => {
    const machine = new Machine({ backoffMs: 500 }).calling();
    machine
      .fail('t1.r1.a1')
      .send('timer:fired', { id: 'backoff' })
      .fail('t1.r1.a2')
      .send('timer:fired', { id: 'backoff' })
      .fail('t1.r1.a3');
    expect(machine.saidOf('harness:retry')).toMatchObject([
      { attempt: 2, delayMs: 500 },
      { attempt: 3, delayMs: 1_000 },
    ]);
    expect(machine.saidOf('turn:end')).toMatchObject([
      { stopReason: 'error', rounds: 1, error: { code: 'provider_overloaded', message: 'busy' } },
    ]);
    expect(machine.state).toBe('idle');
  });

  test('waits as long as the provider asks for, up to the limit', () => {
    const machine = new Machine({ retryAfterMsMax: 60_000 }).calling().fail('t1.r1.a1', { retryAfterMs: 7_000 });
    expect(machine.saidOf('timer:set')).toEqual([{ id: 'backoff', ms: 7_000, dueAt: '2026-01-01T00:00:07.000Z' }]);
    machine.send('timer:fired', { id: 'backoff' }).fail('t1.r1.a2', { retryAfterMs: 900_000 });
    expect(machine.saidOf('timer:set').at(-1)).toMatchObject({ ms: 60_000 });
  });

  test('is handed to the fallback in the same round, with a key of its own', () => {
    const machine = new Machine().calling().fail('t1.r1.a1', { recoverable: false, fallback: { provider: 'backup', model: 'other' } });
    expect(machine.context.pending).toMatchObject([{ key: 't1.r1.a1.f1', provider: 'backup', model: 'other' }]);
    expect(machine.context.turn?.round).toBe(1);
  });

  test('is not taken for another one: the outcome of a call that was given up changes nothing', () => {
    const machine = new Machine().calling();
    const before = machine.context;
    machine.fail('t0.r9.a1', { recoverable: false }).answer('t0.r9.a1');
    expect(machine.context).toEqual(before);
    expect(machine.state).toBe('turn.generating.calling');
  });
});

describe('tool calls', () => {
  test('run in parallel and are done when the last one is in', () => {
    const machine = new Machine().calling().answer('t1.r1.a1', { toolCalls: [call('c1', 'a', 'allow'), call('c2', 'b', 'allow')] });
    expect(machine.owed).toEqual(['t1.r1.c0', 't1.r1.c1']);
    const result = { output: '', isError: false, durationMs: 1, bytes: 0 };
    machine.send('tool:result', { id: 'c2', name: 'b', key: 't1.r1.c1', ...result });
    expect(machine.state).toBe('turn.tool-looping.running');
    machine.send('tool:result', { id: 'c1', name: 'a', key: 't1.r1.c0', ...result });
    expect(machine.owed).toEqual(['t1.r2.a1']);
  });

  test('of a tool that is always allowed are not asked about again, in this turn and in later ones', () => {
    const asked = { toolCalls: [call('c1', 'risky', 'ask'), call('c2', 'risky', 'ask'), call('c3', 'other', 'ask')] };
    const machine = new Machine()
      .calling()
      .answer('t1.r1.a1', asked)
      .send('tool:approval:resolved', { id: 'c1', decision: 'always', by: 'me' });
    expect(machine.context.calls.map(({ state }) => state)).toEqual(['allowed', 'allowed', 'waiting']);
    expect(machine.context.allowedTools).toEqual(['risky']);
    machine.send('tool:approval:resolved', { id: 'c3', decision: 'deny', by: 'me' });
    expect(machine.owed).toEqual(['t1.r1.c0', 't1.r1.c1']);
  });

  test('that are denied go back to the model without running', () => {
    const machine = new Machine().calling().answer('t1.r1.a1', { toolCalls: [call('c1', 'forbidden', 'deny')] });
    expect(machine.saidOf('tool:call')).toEqual([]);
    expect(machine.owed).toEqual(['t1.r2.a1']);
  });

  test('wait for a person until the stored time', () => {
    const machine = new Machine({ approvalTimeoutMs: 300_000 }).calling().answer('t1.r1.a1', { toolCalls: [call('c1', 'risky', 'ask')] });
    expect(machine.saidOf('tool:approval:requested')).toMatchObject([{ id: 'c1', expiresAt: '2026-01-01T00:05:00.000Z' }]);
  });

  test('end at the limit of rounds', () => {
    const machine = new Machine({ roundsMax: 1 }).calling().answer('t1.r1.a1', { toolCalls: [call('c1', 'forbidden', 'deny')] });
    expect(machine.saidOf('turn:end')).toMatchObject([{ stopReason: 'max_rounds', rounds: 1, toolCalls: 1 }]);
  });
});

describe('prompts', () => {
  test('wait in order, up to the limit; the one beyond is refused and told so', () => {
    const machine = new Machine({ mailboxTurnsMax: 2 }).calling().prompt('p2').prompt('p3').prompt('p4');
    expect(machine.saidOf('turn:queued')).toEqual([
      { promptId: 'p2', position: 1 },
      { promptId: 'p3', position: 2 },
    ]);
    expect(machine.saidOf('turn:rejected')).toEqual([{ promptId: 'p4', reason: 'queue-full' }]);
    machine.answer('t1.r1.a1');
    expect(machine.context.turn?.promptId).toBe('p2');
  });

  test('that wait when the session ends are refused', () => {
    const machine = new Machine()
      .calling()
      .prompt('p2')
      .send('session:end', { by: 'me', reason: 'done' })
      .fail('t1.r1.a1', { code: 'aborted' });
    expect(machine.saidOf('turn:rejected')).toEqual([{ promptId: 'p2', reason: 'ended' }]);
    machine.hook('session-end', 'end');
    expect(machine.saidOf('session:ended')).toMatchObject([{ reason: 'done', turns: 1 }]);
  });

  test('to a session that is ending are refused', () => {
    const machine = new Machine().send('session:end', { by: 'me', reason: 'done' }).hook('session-start', 'start').prompt('late');
    expect(machine.state).toBe('ending');
    expect(machine.saidOf('turn:rejected')).toEqual([{ promptId: 'late', reason: 'ended' }]);
  });
});

describe('a compaction', () => {
  test('comes before the call that would be too large, and the turn goes on in the same round', () => {
    const huge = { inputTokens: 190_000, outputTokens: 10 };
    const machine = new Machine().calling().answer('t1.r1.a1', { usage: huge, toolCalls: [call('c1', 'forbidden', 'deny')] });
    expect(machine.saidOf('compaction:start')).toEqual([{ reason: 'threshold', tokens: 190_010 }]);
    machine.hook('pre-compaction', 'c1.pre').answer('c1.a1', { content: 'x'.repeat(400) });
    machine.send('hook:end', { hook: 'compaction-complete', key: 'c1.save', bypassed: false, durationMs: 1, memoryId: 'mem_1' });
    expect(machine.saidOf('compaction:complete')).toEqual([{ memoryId: 'mem_1', tokensBefore: 190_010, tokensAfter: 100 }]);
    expect(machine.owed).toEqual(['t1.r2.a1.c1']);
  });

  test('that fails twice in a row ends the turn with an error', () => {
    const machine = new Machine().calling().answer('t1.r1.a1', { toolCalls: [call('c1', 'forbidden', 'deny')] });
    machine.fail('t1.r2.a1', { code: 'context_overflow', recoverable: false });
    machine
      .hook('pre-compaction', 'c1.pre')
      .answer('c1.a1', { content: ' ' })
      .hook('pre-compaction', 'c2.pre')
      .answer('c2.a1', { content: '' });
    expect(machine.saidOf('compaction:error').map(({ failures }) => failures)).toEqual([1, 2]);
    expect(machine.saidOf('turn:end')).toMatchObject([{ stopReason: 'error', error: { code: 'compaction_failed' } }]);
  });
});
