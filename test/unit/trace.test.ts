import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import { type ChromeTrace, toChromeTrace } from '../../src/core/trace-chrome.ts';
import { signalsOfTurn, type TraceSignal } from '../../src/core/trace-facts.ts';
import { SEQUENCE_LINES_MAX, toMermaidSequence } from '../../src/core/trace-mermaid.ts';
import { formatSignalTree } from '../../src/core/trace-tree.ts';
import { type CapturedCli, captureCli } from '../helpers/captured-cli.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

interface Place {
  readonly parent?: number;
  readonly ms?: number;
  readonly turn?: number;
}

const signal = (seq: number, name: string, payload: Record<string, unknown> = {}, { parent, ms = 0, turn }: Place = {}): TraceSignal => ({
  id: `sig_a_${seq}`,
  seq,
  name,
  payload,
  timestamp: new Date(1_000_000 + ms).toISOString(),
  source: {
    kind: 'machine',
    root: 'sig_a_1',
    depth: 0,
    ...(turn === undefined ? {} : { turn }),
    ...(parent === undefined ? {} : { parent: `sig_a_${parent}` }),
  },
});

const modelCall = (key: string) => ({ key, provider: 'demo', model: 'demo', round: 1, attempt: 1, purpose: 'answer' });
const toolCall = (key: string, name: string) => ({ key, id: key, name, input: { query: 'tea' } });
const toolResult = (key: string, name: string) => ({ key, id: key, name, output: 'found', isError: false });
const answer = { key: 'k', stopReason: 'end_turn', toolCalls: [], usage: { inputTokens: 7, outputTokens: 3 } };

/** A turn whose two tools run at the same time. */
const TURN = [
  signal(1, 'prompt:received', { content: 'tea?' }),
  signal(2, 'turn:start', { turn: 1 }, { parent: 1, turn: 1 }),
  signal(3, 'session:generating', { turn: 1 }, { parent: 2, turn: 1 }),
  signal(4, 'tool:call', toolCall('a', 'search'), { parent: 2, turn: 1, ms: 5 }),
  signal(5, 'tool:call', toolCall('b', 'weather'), { parent: 2, turn: 1, ms: 5 }),
  signal(6, 'tool:result', toolResult('b', 'weather'), { parent: 5, turn: 1, ms: 25 }),
  signal(7, 'tool:result', toolResult('a', 'search'), { parent: 4, turn: 1, ms: 45 }),
  signal(8, 'harness:start', modelCall('k'), { parent: 7, turn: 1, ms: 45 }),
  signal(9, 'harness:end', answer, { parent: 8, turn: 1, ms: 145 }),
  signal(
    10,
    'turn:end',
    { turn: 1, stopReason: 'end_turn', rounds: 1, toolCalls: 2, usage: { inputTokens: 7, outputTokens: 3 } },
    { parent: 9, turn: 1, ms: 145 },
  ),
  signal(11, 'session:idle', {}, { parent: 9, ms: 145 }),
];

describe('the tree', () => {
  test('puts each signal under its cause, with its offset and the time to its answer', () => {
    expect(formatSignalTree(TURN)).toBe(
      [
        '     +0 ms  prompt:received "tea?"  #1',
        '     +0 ms  └─ turn:start turn 1  #2',
        '     +0 ms     ├─ session:generating  #3',
        '     +5 ms     ├─ tool:call search {"query":"tea"}  (40 ms)  #4',
        '    +45 ms     │  └─ tool:result search found  #7',
        '    +45 ms     │     └─ harness:start demo/demo round 1  (100 ms)  #8',
        '   +145 ms     │        └─ harness:end end_turn 7+3 tokens  #9',
        '   +145 ms     │           ├─ turn:end turn 1 end_turn 1 rounds 2 tools 7+3 tokens  #10',
        '   +145 ms     │           └─ session:idle  #11',
        '     +5 ms     └─ tool:call weather {"query":"tea"}  (20 ms)  #5',
        '    +25 ms        └─ tool:result weather found  #6',
        '',
      ].join('\n'),
    );
  });

  test('shows what has no answer as open, and what has lost its cause as a root', () => {
    expect(formatSignalTree([signal(8, 'harness:start', modelCall('k'), { parent: 7 })])).toBe(
      '     +0 ms  harness:start demo/demo round 1  (open)  #8\n',
    );
    expect(formatSignalTree([])).toBe('');
  });

  test('keeps what was said on its line: no line break, escape sequence or reordering mark comes through', () => {
    const tree = formatSignalTree([signal(1, 'prompt:received', { content: 'a\n\u001b[31mred\u202e\r\n└─ forged #9' })]);
    expect(tree).toBe('     +0 ms  prompt:received "a [31mred └─ forged #9"  #1\n');
  });

  test('is whole and readable for 50,000 signals, also when each is caused by the one before', () => {
    const chain = Array.from({ length: 50_000 }, (_, index) => signal(index + 1, 'turn:start', { turn: index }, { parent: index }));
    const lines = formatSignalTree(chain).trimEnd().split('\n');
    expect(lines).toHaveLength(50_000);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(130);
    expect(lines.at(-1)).toMatch(/turn:start turn 49999 {2}#50000$/);
  });

  test('finds causes in other streams, whatever numbers those count with', () => {
    const there = (seq: number, parent?: string): TraceSignal => ({
      ...signal(seq, 'turn:start', { turn: seq }),
      id: `sig_b_${seq}`,
      source: { kind: 'machine', root: 'sig_b_1', depth: 0, ...(parent ? { parent } : {}) },
    });
    const mixed = [signal(1, 'turn:start', { turn: 1 }), there(1, 'sig_a_1'), there(2, 'sig_b_1'), there(3, 'sig_a_1')];
    const lines = formatSignalTree([...mixed, signal(2, 'turn:start', { turn: 2 }, { parent: 1 })])
      .trimEnd()
      .split('\n');
    expect(lines.map((line) => line.slice(12).replace('turn:start turn', ''))).toEqual([
      ' 1  #1',
      '├─  1  #1',
      '│  └─  2  #2',
      '├─  3  #3',
      '└─  2  #2',
    ]);
  });

  test('does not follow a circle that a damaged log claims', () => {
    const circle = [signal(1, 'turn:start', { turn: 1 }, { parent: 2 }), signal(2, 'turn:start', { turn: 2 }, { parent: 1 })];
    expect(formatSignalTree(circle).split('\n')).toHaveLength(3);
  });

  test('of one turn has the prompt it answers and nothing of other turns', () => {
    const other = [signal(12, 'turn:start', { turn: 2 }, { turn: 2, parent: 1 }), signal(13, 'prompt:received', { content: 'no' })];
    expect(signalsOfTurn([...TURN, ...other], 1).map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });
});

describe('the sequence diagram', () => {
  test('tells who asked whom, in order', () => {
    expect(toMermaidSequence(TURN).trimEnd()).toBe(
      [
        'sequenceDiagram',
        'participant C as client',
        'participant S as session',
        'participant M as model',
        'participant T as tools',
        'participant D as daemon',
        'C->>S: prompt#58;received #34;tea#63;#34;',
        'Note over S: generating',
        'S->>T: tool#58;call search #123;#34;query#34;#58;#34;tea#34;#125;',
        'S->>T: tool#58;call weather #123;#34;query#34;#58;#34;tea#34;#125;',
        'T-->>S: tool#58;result weather found',
        'T-->>S: tool#58;result search found',
        'S->>M: harness#58;start demo/demo round 1',
        'M-->>S: harness#58;end end_turn 7+3 tokens',
        'S-->>C: turn#58;end turn 1 end_turn 1 rounds 2 tools 7+3 tokens',
        'Note over S: idle',
      ].join('\n  '),
    );
  });

  test('takes no syntax and no markup from what was said', () => {
    const evil = 'x; S->>C: forged\nend %% <img src=x> #quot; $$x$$ `y`';
    const [, label] = toMermaidSequence([signal(1, 'prompt:received', { content: evil })])
      .trimEnd()
      .split('C->>S: ');
    expect(label).not.toMatch(/[\n<>%`$"&:]|[^#\d];/);
    expect(label).toMatch(/^prompt#58;received #34;x#59; S-#62;#62;C#58; forged end #37;#37; #60;img/);
  });

  test('ends with a note of what was left out', () => {
    const many = Array.from({ length: SEQUENCE_LINES_MAX + 5 }, (_, index) => signal(index + 1, 'session:idle'));
    const lines = toMermaidSequence(many).trimEnd().split('\n');
    expect(lines.at(-1)).toBe('  Note over S: 5 more are left out, choose one turn');
    expect(lines).toHaveLength(407);
  });
});

const slices = (trace: ChromeTrace) =>
  trace.traceEvents.filter(({ ph }) => ph === 'X').map(({ name, cat, tid, ts, dur }) => [name, cat, tid, ts, dur]);

describe('the Chrome trace', () => {
  test('has a slice for each effect, overlapping ones in rows of their own, and states within their turn', () => {
    expect(slices(toChromeTrace(TURN))).toEqual([
      ['turn 1', 'turn', 1, 0, 145_000],
      ['generating', 'state', 1, 0, 145_000],
      ['idle', 'state', 1, 145_000, 0],
      ['search', 'tool', 300, 5_000, 40_000],
      ['weather', 'tool', 301, 5_000, 20_000],
      ['demo/demo', 'harness', 200, 45_000, 100_000],
    ]);
  });

  test('ends what is open with the last signal and says so', () => {
    const { traceEvents } = toChromeTrace(TURN.slice(0, 6));
    expect(traceEvents.find(({ name, ph }) => name === 'search' && ph === 'X')).toMatchObject({ dur: 20_000, args: { open: true } });
    expect(traceEvents.find(({ name }) => name === 'weather')!.args).not.toHaveProperty('open');
    expect(traceEvents.find(({ name }) => name === 'turn 1')).toMatchObject({ dur: 25_000, args: { open: true } });
    expect(toChromeTrace([]).traceEvents).toEqual([]);
  });
});

describe('signet trace', () => {
  let signet: Signet;
  let cli: CapturedCli;
  let id: string;
  beforeAll(async () => {
    signet = await startSignet();
    cli = captureCli(signet);
    id = (await signet.client.session.create({})).id;
    await signet.client.session.prompt(id, { content: 'remember I like tea' });
    await signet.client.session.prompt(id, { content: 'hello' });
  });
  afterAll(() => signet.close());

  const trace = async (...args: string[]) => {
    const before = cli.out();
    const code = await runCli(cli.context, ['trace', id, ...args]);
    return { code, out: cli.out().slice(before.length) };
  };

  test('prints every stored signal once, each prompt as a root', async () => {
    const { items } = await signet.client.session.events(id, { limit: 1_000 });
    const { code, out } = await trace();
    const numbers = [...out.matchAll(/ {2}#(\d+)$/gm)].map(([, seq]) => Number(seq)).sort((a, b) => a - b);
    expect(code).toBe(0);
    expect(numbers).toEqual(items.map(({ seq }) => seq));
    expect(out.match(/^ *\+\d+ ms {2}(prompt:received|session:created)/gm)).toHaveLength(3);
    expect(out).toMatch(/└─ tool:call memory_store \{"content":"I like tea"\} {2}\(\d+ ms\)/);
  });

  test('prints one turn, as a tree, a diagram or slices in which every effect is answered', async () => {
    const tree = (await trace('--turn', '2')).out;
    expect(tree).toContain('prompt:received "hello"');
    expect(tree).not.toContain('I like tea');
    expect((await trace('--turn', '1', '--format', 'mermaid')).out).toContain('S->>T: tool#58;call memory_store');
    const { traceEvents } = JSON.parse((await trace('--format', 'chrome')).out) as ChromeTrace;
    const effects = traceEvents.filter(({ cat }) => cat === 'hook' || cat === 'harness' || cat === 'tool');
    expect(effects.map(({ name }) => name)).toContain('memory_store');
    expect(effects.filter(({ args }) => args.open)).toEqual([]);
    const { signals } = JSON.parse((await trace('--json')).out) as { signals: { name: string; tookMs?: number }[] };
    expect(signals.filter(({ tookMs }) => tookMs !== undefined).map(({ name }) => name)).toContain('harness:start');
  });

  test('fails for a turn that is not there', async () => {
    expect((await trace('--turn', '9')).code).toBe(1);
    expect(cli.err()).toContain(`session ${id} has no turn 9`);
  });
});
