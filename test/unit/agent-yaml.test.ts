import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { AppError } from '../../src/core/errors.ts';
import { readAgentYaml } from '../../src/daemon/agent-yaml.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';

function problemsOf(text: string): { pointer: string; detail: string }[] {
  try {
    readAgentYaml(tempFolder({ 'agent.yaml': text }));
  } catch (error) {
    if (error instanceof AppError && error.code === 'config_invalid') return [...(error.errors ?? [])];
    throw error;
  }
  return [];
}

test('without a file the defaults hold', () => {
  const { file, config, problems } = readAgentYaml(tempFolder());
  expect({ file, problems }).toEqual({ file: null, problems: [] });
  expect(config.hooks.sessionStart).toEqual({
    recallLimit: 10,
    includeIdentity: true,
    includeRecentContext: true,
    recencyBias: 0.7,
    candidatePoolLimit: 100,
  });
});

test('agent.yaml comes before config.yaml, and the other one is named', () => {
  const folder = tempFolder({ 'config.yaml': 'agent: {name: B}', 'agent.yaml': 'agent: {name: A}' });
  expect(readAgentYaml(folder)).toMatchObject({
    file: join(folder, 'agent.yaml'),
    config: { agent: { name: 'A' } },
    problems: ['config.yaml is ignored because agent.yaml is there'],
  });
  expect(readAgentYaml(tempFolder({ 'config.yaml': 'agent: {name: B}' })).config.agent?.name).toBe('B');
});

test('comments, lists, block scalars and empty sections are read as people mean them', () => {
  const text = `
hooks:
  sessionStart:
    recallLimit: 10   # how many
    recencyBias: 0.25
  userPromptSubmit:
  preCompaction:
    summaryGuidelines: |
      Focus on:
      - Decisions
agents:
  roster:
    - name: dot
      skills: []
runtime:
#  port: 1
`;
  const { config } = readAgentYaml(tempFolder({ 'agent.yaml': text }));
  expect(config.hooks.sessionStart).toMatchObject({ recallLimit: 10, recencyBias: 0.25, includeIdentity: true });
  expect(config.hooks.userPromptSubmit.injectCharsMax).toBe(1_600);
  expect(config.hooks.preCompaction.summaryGuidelines).toBe('Focus on:\n- Decisions\n');
  expect(config.agents?.roster).toEqual([{ name: 'dot', skills: [] }]);
  expect(config.runtime.limits.roundsMax).toBe(50);
});

describe('mistakes', () => {
  test('all at once, in order, with line, column and the nearest key', () => {
    const text = `agent:
  nmae: x
runtime:
  modle: y
  limits:
    rounds_max: 3
    turnTimeoutMs: soon
  providers:
    a:
      kind: openai
      apikey: q
hoks: {}
agents:
  roster:
    - name: Dot
      colour: red
`;
    expect(problemsOf(text)).toEqual([
      { pointer: '/agent/nmae', detail: 'agent.yaml:2:3 unknown key "nmae" in agent; did you mean "name"?' },
      { pointer: '/runtime/modle', detail: 'agent.yaml:4:3 unknown key "modle" in runtime; did you mean "model"?' },
      {
        pointer: '/runtime/limits/rounds_max',
        detail: 'agent.yaml:6:5 unknown key "rounds_max" in runtime.limits; did you mean "roundsMax"?',
      },
      {
        pointer: '/runtime/limits/turnTimeoutMs',
        detail: 'agent.yaml:7:5 runtime.limits.turnTimeoutMs: invalid input: expected number, received string',
      },
      {
        pointer: '/runtime/providers/a/apikey',
        detail: 'agent.yaml:11:7 unknown key "apikey" in runtime.providers.a; did you mean "apiKey"?',
      },
      { pointer: '/hoks', detail: 'agent.yaml:12:1 unknown key "hoks" in the file; did you mean "hooks"?' },
      {
        pointer: '/agents/roster/0/name',
        detail:
          'agent.yaml:15:7 agents.roster.0.name: must be 1 to 64 characters of a-z, 0-9, _ and -, starting with a letter or digit; did you mean "dot"?',
      },
      {
        pointer: '/agents/roster/0/colour',
        detail:
          'agent.yaml:16:7 unknown key "colour" in agents.roster.0; valid keys: name, model, provider, temperature, topP, maxTokens, stopSequences, thinkingTokens, skills, personality, read_policy, policy_group, limits, memory, reactive',
      },
    ]);
  });

  test('syntax errors name their place', () => {
    expect(problemsOf('agent:\n  name: [1\nhooks: {}')[0]!.detail).toMatch(/^agent\.yaml:3:1 /);
    expect(problemsOf('agent: {}\nagent: {}')).toEqual([{ pointer: '', detail: 'agent.yaml:2:1 map keys must be unique' }]);
  });

  test('a list where a mapping belongs', () => {
    expect(problemsOf('- a')).toEqual([{ pointer: '', detail: 'agent.yaml:1:1 the file: invalid input: expected object, received array' }]);
  });

  test('two agents of one name', () => {
    expect(problemsOf('agents:\n  roster:\n    - name: dot\n    - name: dot\n')).toEqual([
      { pointer: '/agents/roster/1/name', detail: 'agent.yaml:4:7 agents.roster.1.name: the name "dot" is taken already' },
    ]);
  });

  test('names of providers that lead nowhere, with the nearest one', () => {
    const text = `runtime:
  default: cloude
  providers:
    cloud: { kind: openai }
  routing:
    compaction: { provider: ghost, model: small }
    extraction: { provider: cloud }
    synthesis: { model: small }
  fallback:
    - provider: anthropic
    - provider: demmo
`;
    const known = 'known providers: cloud, anthropic, openai, openai-compatible, demo';
    expect(problemsOf(text)).toEqual([
      { pointer: '/runtime/default', detail: `agent.yaml:2:3 runtime.default: no provider "cloude"; did you mean "cloud"? ${known}` },
      {
        pointer: '/runtime/routing/compaction/provider',
        detail: `agent.yaml:6:19 runtime.routing.compaction.provider: no provider "ghost"; ${known}`,
      },
      {
        pointer: '/runtime/fallback/1/provider',
        detail: `agent.yaml:11:7 runtime.fallback.1.provider: no provider "demmo"; did you mean "demo"? ${known}`,
      },
    ]);
  });

  test('a value that is wrong is not repeated: it may be a key', () => {
    const [problem] = problemsOf('runtime:\n  providers:\n    a:\n      kind: sk-secret-1\n      apiKey: [sk-secret-2]\n');
    expect(problem!.detail).not.toContain('sk-secret');
  });

  test('prototype keys are unknown keys', () => {
    expect(problemsOf('__proto__: {runtime: {}}')).toMatchObject([{ pointer: '/__proto__' }]);
  });

  test('an alias inside what it names is refused at its place; one beside it is not', () => {
    const detail = 'the alias *a stands inside what it names';
    expect(problemsOf('runtime: &a\n  x: *a\n')).toEqual([{ pointer: '', detail: `agent.yaml:2:6 ${detail}` }]);
    expect(problemsOf('agents: &a\n  roster: [&b [*b, *a]]\n')).toEqual([
      { pointer: '', detail: 'agent.yaml:2:16 the alias *b stands inside what it names' },
      { pointer: '', detail: `agent.yaml:2:20 ${detail}` },
    ]);
    expect(problemsOf('agents:\n  roster:\n    - {name: x, skills: &a [s]}\n    - {name: y, skills: *a}\n')).toEqual([]);
  });

  test('aliases do not unfold without end', () => {
    const bomb = ['a: &a0 [x,x,x,x,x,x,x,x,x]', ...Array.from({ length: 9 }, (_, n) => `b${n}: &a${n + 1} [${Array(9).fill(`*a${n}`)}]`)];
    expect(problemsOf(bomb.join('\n'))).toMatchObject([{ pointer: '' }]);
  });
});

test('a policy of groups without a group is told of, and stays valid', () => {
  const roster = 'agents: { roster: [{ name: dot, read_policy: group }, { name: rose, read_policy: group, policy_group: crew }] }';
  expect(readAgentYaml(tempFolder({ 'agent.yaml': roster })).problems).toEqual([
    'agent.yaml: agent "dot": read_policy "group" without policy_group: it sees its own memories alone; name a group, or say isolated',
  ]);
});
