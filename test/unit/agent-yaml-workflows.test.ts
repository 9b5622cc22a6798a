import { describe, expect, test } from 'vitest';
import { AppError } from '../../src/core/errors.ts';
import { readAgentYaml } from '../../src/daemon/agent-yaml.ts';
import { workflowsOf } from '../../src/daemon/workflow-config.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';

const SCHEMA = { type: 'object', properties: { approved: { type: 'boolean' } }, required: ['approved'] };

/** The example of the design, besides the schedule; `start` stands there as well. */
const EXAMPLE = `agents:
  roster:
    - name: analyzer
      reactive: { activateOn: ["workflow:start"], prompt: "Go.", emits: ["analysis:complete"], debounce: 250 }
    - name: reviewer
      model: claude-sonnet
      reactive:
        activateOn: ["analysis:complete", "session:ended"]
        from: { agents: [analyzer], scope: project }
        when: "signal.payload.confidence >= 0.8 && state.review == null"
        prompt: "Review {{ signal.payload.summary }}"
        emits: ["review:complete"]
        emitWhen: { "review:rejected": "output.approved == false", "review:complete": "output.approved" }
        updates: review
        output: ./schemas/review.json
        session: new
        concurrency: 1
        debounce: 2s
        limits: { depth: 8, activations: 20, tokens: 50000, usd: 0.50, timeout: 5m, retries: 1 }
workflows:
  nightly: { agents: [analyzer, reviewer], state: { review: null }, endWhen: "state.review != null", timeout: 30m }
`;

const workspace = (text: string): string =>
  tempFolder({
    'agent.yaml': text,
    'schemas/review.json': JSON.stringify(SCHEMA),
    'schemas/list.json': '[]',
    'schemas/torn.json': '{"type": "obj',
    'data/keys.json': '{"type": "object"}',
  });

function faultsOf(text: string): string[] {
  try {
    readAgentYaml(workspace(text));
  } catch (error) {
    if (error instanceof AppError && error.code === 'config_invalid') return (error.errors ?? []).map(({ detail }) => detail);
    throw error;
  }
  return [];
}

const reviewer = (rules: string) => `agents:
  roster:
    - name: reviewer
      reactive:
        activateOn: ["a:b"]
        prompt: x
        ${rules}
`;

test('the example is taken as people write it', () => {
  const folder = workspace(EXAMPLE);
  const { config, problems } = readAgentYaml(folder);
  expect(problems).toEqual([]);
  expect(workflowsOf(folder, config)).toMatchObject([
    {
      name: 'nightly',
      timeoutMs: 1_800_000,
      agents: [
        { name: 'analyzer', debounceMs: 250 },
        { name: 'reviewer', debounceMs: 2_000, limits: { timeoutMs: 300_000, usd: 0.5, retries: 1 }, output: SCHEMA },
      ],
    },
  ]);
});

test.each([
  ['500ms', 500],
  ['1.5s', 1_500],
  ['2h', 7_200_000],
  ['1d', 86_400_000],
  ['0', 0],
])('%s is %i ms', (text, debounceMs) => {
  const folder = workspace(`${reviewer(`debounce: ${text}`)}workflows: { one: { agents: [reviewer] } }\n`);
  expect(workflowsOf(folder, readAgentYaml(folder).config)[0]!.agents[0]).toMatchObject({ debounceMs });
});

describe('refused with its place and what to do', () => {
  const within = (from: number) =>
    `must be a duration such as 500ms, 2s, 5m or 1h, or a whole number of milliseconds, from ${from} to 86400000 ms`;

  test.each([
    ['debounce: soon', `agent.yaml:7:9 agents.roster.0.reactive.debounce: ${within(0)}`],
    ['debounce: 2 s', `agent.yaml:7:9 agents.roster.0.reactive.debounce: ${within(0)}`],
    ['debounce: 25h', `agent.yaml:7:9 agents.roster.0.reactive.debounce: ${within(0)}`],
    ['debounce: -1', `agent.yaml:7:9 agents.roster.0.reactive.debounce: ${within(0)}`],
    ['limits: { timeout: 0s }', `agent.yaml:7:19 agents.roster.0.reactive.limits.timeout: ${within(1)}`],
    [
      'debounce: 2s\n        debounceMs: 2000',
      'agent.yaml:7:9 agents.roster.0.reactive.debounce: debounceMs says the same; give one of them',
    ],
    [
      'output: ./schemas/missing.json',
      'agent.yaml:7:9 agents.roster.0.reactive.output: ./schemas/missing.json is no file with text in the workspace; write the schema there',
    ],
    [
      'output: ../elsewhere.json',
      'agent.yaml:7:9 agents.roster.0.reactive.output: ../elsewhere.json leads out of the workspace: it is not read',
    ],
    [
      'output: data/keys.json',
      'agent.yaml:7:9 agents.roster.0.reactive.output: data/keys.json leads into one of .daemon, .secrets, data: it is not read',
    ],
    [
      'output: schemas/list.json',
      'agent.yaml:7:9 agents.roster.0.reactive.output: schemas/list.json must hold a JSON Schema with "type": "object"',
    ],
    ['output: schemas/torn.json', 'agent.yaml:7:9 agents.roster.0.reactive.output: schemas/torn.json is not JSON: '],
    ['output: 7', 'agent.yaml:7:9 agents.roster.0.reactive.output: must be a JSON Schema, or the path of a file with one'],
  ])('%s', (rules, detail) => {
    expect(faultsOf(reviewer(rules))).toEqual([expect.stringContaining(detail)]);
  });

  test('a schedule', () => {
    expect(faultsOf('workflows:\n  nightly:\n    agents: [one]\n    start: "0 3 * * *"\n')).toEqual([
      'agent.yaml:4:5 workflows.nightly.start: there are no schedules; remove it, and let cron, a systemd timer or the like run `signet workflow run <name> --detach` on time',
    ]);
  });

  test('a time that is said twice, of a workflow', () => {
    expect(faultsOf(`${EXAMPLE.replace('timeout: 30m', 'timeout: 30m, timeoutMs: 5')}`)).toEqual([
      expect.stringMatching(/^agent\.yaml:21:\d+ workflows\.nightly\.timeout: timeoutMs says the same; give one of them$/),
    ]);
  });
});

test('a workflow that names an agent which does not react is told with its place, the names like it and the fix', () => {
  const { problems, config } = readAgentYaml(workspace(EXAMPLE.replace('agents: [analyzer, reviewer]', 'agents: [analyser, reviewer]')));
  const fault =
    'did you mean "analyzer"? agents of the roster with `reactive`: analyzer, reviewer. Or add "analyser" with a section `reactive` to agents.roster';
  expect(problems).toEqual([`agent.yaml:21:23 workflows.nightly.agents.0: no reactive agent "analyser"; ${fault}`]);
  expect(() => workflowsOf('.', config)).toThrow(`agent.yaml: workflows.nightly.agents names "analyser"; ${fault}`);
});

test('a schema that is gone when the workflow is to run is named', () => {
  const folder = workspace(EXAMPLE);
  const { config } = readAgentYaml(folder);
  expect(() => workflowsOf(tempFolder(), config)).toThrow(
    'agent.yaml: `output` of the agent "reviewer": ./schemas/review.json is no file with text in the workspace',
  );
});
