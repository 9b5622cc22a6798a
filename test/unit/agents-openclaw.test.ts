import { parse } from 'jsonc-parser';
import { describe, expect, test } from 'vitest';
import { type OpenclawPlan, patchOpenclaw } from '../../src/daemon/agent-sync/openclaw-config.ts';

const agent = (id: string, more: object = {}) => ({ id, workspace: `/ws/agents/${id}/workspace`, displayName: id.toUpperCase(), ...more });
const plan = (more: Partial<OpenclawPlan> = {}): OpenclawPlan => ({
  folder: '/ws',
  agents: [agent('dot', { soul: 'Calm.', skills: ['sailing'] }), agent('rose')],
  isWhole: true,
  isOurs: (workspace) => workspace.startsWith('/ws/agents/'),
  ...more,
});

/** The text it becomes; a refusal fails the test. */
function patched(text: string, by: OpenclawPlan): string {
  const answer = patchOpenclaw(text, by);
  if ('problem' in answer) throw new Error(answer.problem);
  return answer.text;
}

const readBack = (text: string) => parse(text, [], { allowTrailingComma: true });

const COMMENTED = `{
  // my gateway
  "gateway": { "port": 18789 }, // a port
  "agents": {
    "defaults": { "model": "x" },
    "list": [
      { "id": "main", "default": true }, // mine
      /* the end */
    ],
  },
  "bindings": [
    { "agentId": "main", "match": { "channel": "signal" } } // Kim
  ]
}
`;

test('what is written first: workspace, entries, identity; skills only where the roster has some', () => {
  const { agents } = readBack(patched('{}', plan()));
  expect(agents).toEqual({
    defaults: { workspace: '/ws' },
    list: [
      {
        id: 'dot',
        name: 'dot',
        workspace: '/ws/agents/dot/workspace',
        skills: ['sailing'],
        identity: { name: 'DOT', theme: 'Calm.' },
      },
      { id: 'rose', name: 'rose', workspace: '/ws/agents/rose/workspace', identity: { name: 'ROSE' } },
    ],
  });
});

test('the same plan again changes nothing; without the roster all is as it was, comments included', () => {
  const once = patched(COMMENTED, plan({ bindings: [{ agent: 'dot', match: { channel: 'telegram' } }] }));
  expect(patched(once, plan({ bindings: [{ agent: 'dot', match: { channel: 'telegram' } }] }))).toBe(once);
  for (const comment of ['// my gateway', '// a port', '// mine', '/* the end */', '// Kim']) expect(once).toContain(comment);
  expect(readBack(once).gateway).toEqual({ port: 18789 });
  expect(readBack(once).agents.list.map(({ id }: { id: string }) => id)).toEqual(['main', 'dot', 'rose']);

  const empty = patched(once, plan({ agents: [] }));
  const workspace = patched(COMMENTED, plan({ agents: [] }));
  expect(workspace).toBe(COMMENTED);
  expect(readBack(empty)).toEqual({
    ...readBack(COMMENTED),
    agents: { ...readBack(COMMENTED).agents, defaults: readBack(once).agents.defaults },
  });
  for (const comment of ['// my gateway', '// a port', '// mine', '/* the end */', '// Kim']) expect(empty).toContain(comment);
});

test("somebody's own workspace, keys and agents stay", () => {
  const text = JSON.stringify({
    agents: {
      defaults: { workspace: '/elsewhere' },
      list: [
        { id: 'dot', model: 'big', identity: { emoji: '⚓', theme: 'old' } },
        { id: 'gone', workspace: '/ws/agents/gone/workspace' },
        { id: 'other', workspace: '/elsewhere/other' },
      ],
    },
    bindings: [{ agentId: 'gone', match: { channel: 'x' } }],
  });
  const { agents, bindings } = readBack(patched(text, plan()));
  expect(agents.defaults).toEqual({ workspace: '/elsewhere' });
  expect(agents.list[0]).toMatchObject({ id: 'dot', model: 'big', identity: { emoji: '⚓', theme: 'Calm.', name: 'DOT' } });
  expect(agents.list.map(({ id }: { id: string }) => id)).toEqual(['dot', 'other', 'rose']);
  expect(bindings).toEqual([]);
});

test("an agent that is removed leaves the entry that holds somebody's own keys, without ours, and its bindings", () => {
  const own = `{
  "agents": { "list": [
    { "id": "dot", "model": "big", /* mine */ "identity": { "emoji": "⚓" } },
    { "id": "rose", "tools": { "profile": "coding" } }
  ] },
  "bindings": [{ "agentId": "dot", "match": { "channel": "signal" } }]
}`;
  const once = patched(own, plan());
  expect(readBack(once).agents.list[0]).toMatchObject({ workspace: '/ws/agents/dot/workspace', identity: { name: 'DOT' } });
  const after = patched(once, plan({ agents: [] }));
  expect(after).toContain('/* mine */');
  expect(readBack(after)).toMatchObject({ agents: { list: readBack(own).agents.list }, bindings: readBack(own).bindings });
  expect(readBack(after).agents.list).toEqual(readBack(own).agents.list);
  expect(patched(after, plan({ agents: [] }))).toBe(after);
});

test('a list of skills that the roster has no more goes', () => {
  const before = patched('{}', plan());
  const after = patched(before, plan({ agents: [agent('dot'), agent('rose')] }));
  expect(readBack(after).agents.list[0]).not.toHaveProperty('skills');
});

test('bindings of our agents are what agent.yaml says; without any there, they are left alone', () => {
  const own = { agentId: 'dot', match: { channel: 'telegram', accountId: 'a' } };
  const text = JSON.stringify({ bindings: [own, { agentId: 'main', match: { channel: 'signal' } }] });
  expect(readBack(patched(text, plan())).bindings).toHaveLength(2);
  const bound = patched(text, plan({ bindings: [{ agent: 'rose', match: { channel: 'discord' } }] }));
  expect(readBack(bound).bindings).toEqual([
    { agentId: 'main', match: { channel: 'signal' } },
    { agentId: 'rose', match: { channel: 'discord' } },
  ]);
  const kept = patched(text, plan({ bindings: [{ agent: 'dot', match: own.match }] }));
  expect(readBack(kept).bindings).toEqual(JSON.parse(text).bindings);
});

test('a sync of one agent touches its entry alone', () => {
  const before = patched('{}', plan());
  const after = patched(before, plan({ agents: [agent('rose', { soul: 'New.' })], isWhole: false }));
  expect(readBack(after).agents.list[0]).toEqual(readBack(before).agents.list[0]);
  expect(readBack(after).agents.list[1].identity).toEqual({ name: 'ROSE', theme: 'New.' });
});

describe('is left alone', () => {
  test.each([
    ['a file that does not parse', '{ "agents": '],
    ['JSON5', "{ agents: { list: [] }, 'x': 1 }"],
    ['an empty file', ''],
    ['a list', '[]'],
    ['other agents', '{"agents": []}'],
    ['another list', '{"agents": {"list": {"dot": {}}}}'],
    ['entries that are no objects', '{"agents": {"list": ["dot"]}}'],
    ['other bindings', '{"bindings": {}}'],
  ])('%s', (_name, text) => {
    expect(patchOpenclaw(text, plan())).toEqual({ problem: expect.any(String) });
  });
});

test('lists of every form stay valid, with and without comments and commas', () => {
  const lists = [
    '[]',
    '[ ]',
    '[{"id":"a"}]',
    '[{"id":"a"},]',
    '[\n{"id":"a"} // x\n]',
    '[\n  {"id":"a"}, // x\n  // y\n]',
    '[{"id":"a"}/* , */]',
  ];
  for (const list of lists) {
    const text = `{"agents": {"list": ${list}}}`;
    const once = patched(text, plan());
    const ids = readBack(once).agents.list.map(({ id }: { id: string }) => id);
    expect(ids, once).toEqual([...(list.includes('"a"') ? ['a'] : []), 'dot', 'rose']);
    expect(patched(once, plan()), once).toBe(once);
    const back = patched(once, plan({ agents: [] }));
    expect(readBack(back).agents.list, back).toEqual(readBack(text).agents.list);
  }
});
