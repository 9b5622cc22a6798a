import { describe, expect, test } from 'vitest';
import type { AnyStateMachine } from 'xstate';
import { statechartGraph, statechartMermaid } from '../../machines/graph.ts';
import { sessionMachine } from '../../machines/session.machine.ts';
import { sessionSteps } from '../../machines/session-actions.ts';
import { sessionGuards } from '../../machines/session-guards.ts';
import { supervisorMachine } from '../../machines/supervisor.machine.ts';

const machines: [string, AnyStateMachine][] = [
  ['session', sessionMachine],
  ['supervisor', supervisorMachine as unknown as AnyStateMachine],
];
const session = statechartGraph(sessionMachine);
const edge = (id: string) => session.edges.find((candidate) => candidate.id === id);

describe('the exported graph', () => {
  test.for(machines)('of the %s machine joins existing states by edges with ids of their own', ([, machine]) => {
    const { nodes, edges } = statechartGraph(machine);
    const ids = nodes.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(new Set(edges.map(({ id }) => id)).size).toBe(edges.length);
    for (const { source, target } of edges) for (const end of [source, ...target]) expect(ids).toContain(end);
    for (const { parent, initial } of nodes) for (const id of [parent, initial]) if (id !== null) expect(ids).toContain(id);
  });

  test('holds eventless edges with guard and actions', () => {
    expect(edge('session.idle#always#0')).toMatchObject({
      kind: 'always',
      event: '',
      source: 'session.idle',
      target: ['session.turn.researching'],
      guard: 'hasPrompt',
      actions: ['openTurn'],
    });
    const eventless = session.edges.filter(({ kind }) => kind === 'always').map(({ source }) => source);
    expect([...new Set(eventless)]).toEqual([
      'session.idle',
      'session.turn.researching',
      'session.turn.generating.checking',
      'session.turn.tool-looping.planning',
      'session.turn.tool-looping.running',
      'session.turn.compacting.failed',
      'session.aborting',
    ]);
  });

  test('holds edges for events, in the order they are tried', () => {
    const tried = session.edges.filter(({ source, event }) => source === 'session.starting' && event === 'hook:end');
    expect(tried.map(({ guard, target, actions }) => [guard, target, actions])).toEqual([
      ['endWanted', ['session.ending'], ['keepStart']],
      [null, ['session.idle'], ['keepStart']],
    ]);
    expect(edge('session.idle#compaction:requested#0')).toMatchObject({ kind: 'event', target: ['session.turn.compacting'] });
  });

  test('tells entry and exit actions, kinds and descriptions of states', () => {
    const node = (id: string) => session.nodes.find((candidate) => candidate.id === id);
    expect(node('session.turn.researching')).toMatchObject({ parent: 'session.turn', type: 'atomic', exit: ['endResearch'] });
    expect(node('session.starting')).toMatchObject({ entry: ['askStart'], parent: 'session' });
    expect(node('session.turn')).toMatchObject({ type: 'compound', initial: 'session.turn.researching' });
    expect(node('session.ended')).toMatchObject({ type: 'final' });
    for (const { id, parent } of session.nodes) if (parent === 'session') expect(node(id)?.description, id).toMatch(/\.$/);
  });

  test('uses every guard and every step there is', () => {
    const guards = new Set(session.edges.map(({ guard }) => guard));
    const actions = new Set([
      ...session.edges.flatMap((one) => one.actions),
      ...session.nodes.flatMap(({ entry, exit }) => [...entry, ...exit]),
    ]);
    expect(Object.keys(sessionGuards).filter((name) => !guards.has(name))).toEqual([]);
    expect(Object.keys(sessionSteps).filter((name) => !actions.has(name))).toEqual([]);
    expect([...guards, ...actions]).not.toContain('inline');
  });
});

/** What a stateDiagram-v2 takes: ids of letters, digits and _; a label without line end, `;` and `::`. */
const ID = '[A-Za-z][A-Za-z0-9_]*';
const LINES = [
  /^stateDiagram-v2$/,
  new RegExp(`^ *state "[^"]+" as ${ID}$`),
  new RegExp(`^ *state ${ID} \\{$`),
  /^ *\}$/,
  new RegExp(`^ *(\\[\\*\\]|${ID}) --> (\\[\\*\\]|${ID})(: (?:[^:\\n;]|:[^:\\n;])+)?$`),
];

describe('the Mermaid text', () => {
  test.for(machines)('of the %s machine is made of lines a state diagram takes, with closed braces', ([, machine]) => {
    const lines = statechartMermaid(machine).trimEnd().split('\n');
    expect(lines.filter((line) => !LINES.some((form) => form.test(line)))).toEqual([]);
    let depth = 0;
    for (const line of lines) {
      depth += line.endsWith('{') ? 1 : line.trim() === '}' ? -1 : 0;
      expect(depth, line).toBeGreaterThanOrEqual(0);
    }
    expect(depth).toBe(0);
  });

  test.for(machines)('of the %s machine names each state before it is used, and draws each edge', ([, machine]) => {
    const text = statechartMermaid(machine);
    const declared = [...text.matchAll(/state "[^"]+" as (\S+)$/gm)].map(([, id]) => id);
    const used = [...text.matchAll(/^ *(\S+) --> ([^\s:]+)/gm)].flatMap(([, from, to]) => [from, to]);
    for (const id of used) if (id !== '[*]') expect(declared).toContain(id);
    const drawn = text.split('\n').filter((line) => line.includes(': ')).length;
    const { edges } = statechartGraph(machine);
    expect(drawn).toBe(edges.filter(({ source }) => source !== machine.root.id).length);
  });

  test('has no hyphen in an id although states have them in their names', () => {
    const text = statechartMermaid(sessionMachine);
    expect(text).toContain('state "tool-looping" as session_turn_tool_looping');
    expect(text).toContain('session_turn_tool_looping_running --> session_turn_generating: always [allCallsDone]');
    expect([...text.matchAll(/as (\S+)$/gm)].filter(([, id]) => id?.includes('-'))).toEqual([]);
  });
});
