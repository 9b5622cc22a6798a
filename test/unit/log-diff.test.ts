import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import type { Signal } from '../../src/contract/signal.ts';
import { type DiffSide, diffSessions } from '../../src/core/log-diff.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

type Step = readonly [name: string, payload: Record<string, unknown>, kind?: Signal['source']['kind']];

/** A session of `steps`, with ids of its own. */
function side(session: string, steps: readonly Step[], state: unknown = {}): DiffSide {
  const signals = steps.map(([name, payload, kind = 'machine'], index) => ({
    id: `sig_${session}_${index + 1}`,
    seq: index + 1,
    name,
    payload,
    source: { kind, root: `sig_${session}_1`, depth: 0, ...(index > 0 ? { parent: `sig_${session}_${index}` } : {}) },
  }));
  return { session, signals, state };
}

const prompt = (promptId: string, content: string): Step => ['prompt:received', { promptId, content }, 'input'];
const start = (promptId: string): Step => ['turn:start', { turn: 1, promptId, deadlineAt: '2026-01-01T00:00:00.000Z' }];

describe('two logs', () => {
  test('are equal when only ids, times, digests and process facts differ', () => {
    const a = side('ses_one', [
      prompt('p1', 'tea'),
      start('p1'),
      ['harness:end', { key: 't1.r1.a1', content: 'Now: Monday 2026-01-05 10:00 +00:00 in ses_one', durationMs: 5 }, 'input'],
      ['session:transition', { state: 'digest-a', dwellMs: 1, value: 'idle' }],
    ]);
    const b = side('ses_two', [
      prompt('other', 'tea'),
      ['session:owned', { epoch: 2, pid: 7 }, 'system'],
      start('other'),
      ['harness:end', { key: 't1.r1.a1', content: 'Now: Friday 2027-02-06 11:22 +00:00 in ses_one', durationMs: 900 }, 'input'],
      ['session:transition', { state: 'digest-b', dwellMs: 3, value: 'idle' }],
    ]);
    // The fact stands between two signals, so the parent of the one behind it must not be the fact.
    const signals = [...b.signals].map((signal) =>
      signal.seq === 3 ? { ...signal, source: { ...signal.source, parent: 'sig_ses_two_1' } } : signal,
    );
    expect(diffSessions(a, { ...b, signals })).toEqual({ equal: true, compared: 4, first: null, state: [] });
  });

  test('differ at the first signal that says something else, with path and both values', () => {
    const diff = diffSessions(
      side('ses_one', [prompt('p', 'a'), prompt('q', 'tea')]),
      side('ses_two', [prompt('p', 'a'), prompt('q', 'milk')]),
    );
    expect(diff).toEqual({
      equal: false,
      compared: 1,
      first: {
        a: { seq: 2, name: 'prompt:received' },
        b: { seq: 2, name: 'prompt:received' },
        differences: [{ path: 'payload.content', a: 'tea', b: 'milk' }],
      },
      state: [],
    });
  });

  test('differ when one answers another prompt, although ids do not count', () => {
    const a = side('ses_one', [prompt('p1', 'a'), prompt('p2', 'b'), start('p1')]);
    const b = side('ses_two', [prompt('x1', 'a'), prompt('x2', 'b'), start('x2')]);
    expect(diffSessions(a, b).first).toMatchObject({ a: { seq: 3 }, differences: [{ path: 'payload.promptId' }] });
  });

  test('differ where one ends earlier', () => {
    const a = side('ses_one', [prompt('p', 'a')]);
    const b = side('ses_two', [prompt('p', 'a'), start('p')]);
    expect(diffSessions(a, b).first).toEqual({ a: null, b: { seq: 2, name: 'turn:start' }, differences: [] });
  });

  test('compare what tools are asked for to the last member, whatever it is called', () => {
    const call = (ms: number): Step => ['tool:call', { id: `call_${ms}`, name: 'wait', input: { ms, id: 7 } }, 'effect'];
    expect(diffSessions(side('ses_one', [call(5)]), side('ses_two', [call(6)])).first!.differences).toEqual([
      { path: 'payload.input.ms', a: 5, b: 6 },
    ]);
  });

  test('with different states are told apart by the members of the state', () => {
    const a = side('ses_one', [], { session: { id: 'ses_one', title: 'tea', seq: 3 }, context: { turns: 1 } });
    const b = side('ses_two', [], { session: { id: 'ses_two', title: 'milk', seq: 9 }, context: { turns: 2 } });
    expect(diffSessions(a, b)).toMatchObject({
      equal: false,
      first: null,
      state: [
        { path: 'context.turns', a: 1, b: 2 },
        { path: 'session.title', a: 'tea', b: 'milk' },
      ],
    });
  });
});

describe('signet diff', () => {
  let model: ModelServer;
  let signet: Signet;
  beforeAll(async () => {
    model = await startModelServer();
    model.respond(({ body }) => ({ text: JSON.stringify(body).includes('coffee') ? 'Black.' : 'Green.' }));
    signet = await startSignet({ env: { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'test' } });
  });
  afterAll(async () => {
    await signet.close();
    await model.close();
  });

  async function talk(...contents: string[]): Promise<string> {
    const { id } = await signet.client.session.create({});
    for (const content of contents) await signet.client.session.prompt(id, { content });
    return id;
  }

  test('exits with 0 for two runs of the same conversation and with 1, at the prompt, for another one', async () => {
    const [a, b, c] = [await talk('hello', 'tea?'), await talk('hello', 'tea?'), await talk('hello', 'coffee?')];
    const cli = captureCli(signet);
    expect(await runCli(cli.context, ['diff', a, b])).toBe(0);
    expect(cli.out()).toMatch(/^\d+ signals are equal, and the states\n$/);
    expect(await runCli(cli.context, ['diff', a, c])).toBe(1);
    expect(cli.out()).toContain('payload.content\n    - "tea?"\n    + "coffee?"');
    const { equal, first, state } = await signet.client.session.diff(a, c);
    expect({ equal, name: first?.a?.name }).toEqual({ equal: false, name: 'prompt:received' });
    expect(state.map(({ path }) => path)).toContain('session.context.tokens');
  });

  test('is refused for a session that is not there', async () => {
    const id = await talk('hello');
    await expect(signet.client.session.diff(id, 'ses_absent')).rejects.toMatchObject({ code: 'session_not_found' });
  });
});
