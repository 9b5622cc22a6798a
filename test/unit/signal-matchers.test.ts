import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { SealedSignal } from '../../src/contract/signal.ts';
import { sealSignal, signalId } from '../../src/core/signal-seal.ts';
import { signalMatchers } from '../../src/vitest.ts';

expect.extend(signalMatchers);

const STREAM = 'workflow:wfl_matchers';

/** Signals of one stream; each names the one that caused it by its number. */
function trace(...signals: readonly (readonly [name: string, parent: number, payload?: Record<string, unknown>])[]): SealedSignal[] {
  return signals.map(([name, parent, payload = {}], index) =>
    sealSignal(
      {
        v: 1,
        id: signalId(STREAM, index + 1),
        seq: index + 1,
        stream: STREAM,
        name,
        payload,
        timestamp: '2026-03-01T00:00:00.000Z',
        source: { kind: 'machine', root: signalId(STREAM, 1), depth: 0, ...(parent > 0 ? { parent: signalId(STREAM, parent) } : {}) },
      },
      '',
    ),
  );
}

const TRACE = trace(
  ['workflow:start', 0],
  ['agent:activated', 1, { agent: 'one', nested: { deep: [1, 2], other: true } }],
  ['agent:activated', 1, { agent: 'two' }],
  ['one:done', 2, { score: 3 }],
  ['agent:completed', 3, { agent: 'two' }],
  ['workflow:end', 1],
);

async function failureOf(assertion: () => unknown): Promise<string> {
  try {
    await assertion();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('the assertion holds');
}

describe('toContainSignal', () => {
  test('holds for a name, a pattern, a RegExp, and a part of a payload', () => {
    expect(TRACE).toContainSignal('one:done');
    expect({ signals: TRACE }).toContainSignal('*:done');
    expect(TRACE).toContainSignal(/^one:/);
    expect(TRACE).toContainSignal({ name: 'agent:*', payload: { nested: { deep: [1, 2] } } });
    expect(TRACE).toContainSignal({ name: 'one:done', payload: { score: expect.any(Number) } });
    expect(TRACE).not.toContainSignal({ name: 'agent:activated', payload: { agent: 'three' } });
  });

  test('says which payloads there are, or which names, and with not which signal matches', async () => {
    expect(await failureOf(() => expect(TRACE).toContainSignal({ name: 'one:done', payload: { score: 4 } }))).toBe(
      'no signal matches `one:done` with {"score":4}\nof that name there are:\n  one:done {"score":3}',
    );
    expect(await failureOf(() => expect(TRACE).toContainSignal('two:done'))).toBe(
      'no signal matches `two:done`\nthe names of the 6 signals are: workflow:start, agent:activated, one:done, agent:completed, workflow:end',
    );
    expect(await failureOf(() => expect(TRACE).not.toContainSignal('one:done'))).toContain(`and ${signalId(STREAM, 4)} does: {"score":3}`);
  });

  test('refuses what has no signals, and patterns that are none', async () => {
    expect(await failureOf(() => expect('text').toContainSignal('one:done'))).toContain('expect() takes a list of signals');
    expect(await failureOf(() => expect(TRACE).toContainSignal('*'))).toContain('did you mean `**`');
  });
});

describe('toHaveSignalCount', () => {
  test('counts what matches', () => {
    expect(TRACE).toHaveSignalCount('agent:*', 3);
    expect(TRACE).toHaveSignalCount({ name: 'agent:*', payload: { agent: 'two' } }, 2);
    expect(TRACE).toHaveSignalCount('nobody:done', 0);
    expect(TRACE).not.toHaveSignalCount('agent:*', 2);
  });

  test('says how many there are', async () => {
    expect(await failureOf(() => expect(TRACE).toHaveSignalCount('agent:*', 2))).toContain('2 signals should match `agent:*`; 3 do');
    expect(await failureOf(() => expect(TRACE).not.toHaveSignalCount('agent:*', 3))).toBe('not 3 signals should match `agent:*`; 3 do');
  });
});

describe('toHaveSignalsInOrder', () => {
  test('holds with others in between, each signal counting once', () => {
    expect(TRACE).toHaveSignalsInOrder(['workflow:start', 'agent:activated', 'agent:activated', 'workflow:end']);
    expect(TRACE).not.toHaveSignalsInOrder(['agent:activated', 'agent:activated', 'agent:activated']);
    expect(TRACE).not.toHaveSignalsInOrder(['workflow:end', 'workflow:start']);
  });

  test('says which one is missing, and after which', async () => {
    expect(await failureOf(() => expect(TRACE).toHaveSignalsInOrder(['workflow:start', 'one:done', 'agent:activated']))).toContain(
      `no signal after \`one:done\` (${signalId(STREAM, 4)}) matches \`agent:activated\`, number 3 of 3`,
    );
    expect(await failureOf(() => expect(TRACE).not.toHaveSignalsInOrder(['workflow:start']))).toContain('should not stand in this order');
  });
});

describe('toHaveCausalChain', () => {
  test('follows causes, with others in between', () => {
    expect(TRACE).toHaveCausalChain(['workflow:start', 'agent:activated', 'one:done']);
    expect(TRACE).toHaveCausalChain(['workflow:start', 'one:done']);
    expect(TRACE).toHaveCausalChain([{ name: 'agent:activated', payload: { agent: 'two' } }, 'agent:completed']);
    expect(TRACE).not.toHaveCausalChain([{ name: 'agent:activated', payload: { agent: 'one' } }, 'agent:completed']);
  });

  test('says which link is missing and what the causes are', async () => {
    expect(await failureOf(() => expect(TRACE).toHaveCausalChain(['one:done', 'agent:completed']))).toBe(
      'nothing that matches `one:done` is among the causes: workflow:start → agent:activated → agent:completed',
    );
    expect(await failureOf(() => expect(TRACE).toHaveCausalChain(['workflow:start', 'two:done']))).toContain('the end of the chain');
    expect(await failureOf(() => expect(TRACE).not.toHaveCausalChain(['workflow:start', 'one:done']))).toBe(
      'there should be no such chain: workflow:start → agent:activated → one:done',
    );
  });
});

test('toReplay refuses signals that nothing asked for, and files that are no log', async () => {
  expect(await failureOf(() => expect(TRACE.slice(1)).toReplay())).toContain('a signal nothing asked for');
  const file = join(tmpdir(), `signet-no-log-${process.pid}.jsonl`);
  writeFileSync(file, 'no log\n');
  expect(await failureOf(() => expect(file).toReplay())).toContain('line 1');
});
