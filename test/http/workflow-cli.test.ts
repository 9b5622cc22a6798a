import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runCli } from '../../src/cli/program.ts';
import { call } from '../conformance/calls.ts';
import { type Rig, startRig } from '../e2e/rig.ts';
import { captureCli } from '../helpers/captured-cli.ts';
import { startWorkflow, untilEnd } from '../helpers/workflow.ts';

const YAML = `
agents:
  roster:
    - name: analyzer
      reactive:
        activateOn: [workflow:start]
        prompt: "Analyse {{ input.topic }}."
        emits: [analysis:complete]
        updates: analysis
    - name: reviewer
      reactive: { activateOn: [analysis:complete], prompt: "Review {{ state.analysis }}.", updates: review }
    - name: idler
workflows:
  nightly: { agents: [analyzer, reviewer], input: { topic: tea }, state: { review: null }, endWhen: "state.review != null" }
  broken: { agents: [idler] }
`;

let rig: Rig;
beforeAll(async () => {
  rig = await startRig({ yaml: YAML.replace('\n  broken: { agents: [idler] }', '') });
  rig.model.respond(({ body }) => ({ text: JSON.stringify(body.messages).includes('Analyse') ? 'Two faults.' : 'Agreed.' }));
});
afterAll(() => rig.close());

describe('workflows of agent.yaml', () => {
  test('are started by name; what is given wins', async () => {
    const cli = captureCli(rig);
    expect(await runCli(cli.context, ['workflow', 'run', 'nightly', '--input', '{"topic": "milk"}', '--json'])).toBe(0);
    const signals = cli
      .out()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(signals[0]).toMatchObject({
      name: 'workflow:start',
      payload: { name: 'nightly', input: { topic: 'milk' }, state: { review: null } },
    });
    expect(signals.at(-1)).toMatchObject({
      name: 'workflow:end',
      payload: { reason: 'end-when', state: { analysis: 'Two faults.', review: 'Agreed.' } },
    });
    const activated = signals.find(({ name }) => name === 'agent:activated');
    expect((await rig.client.session.get(activated.payload.session)).agent).toBe('analyzer');
  });

  test('may say times in words and the schema of an output by its path, which is read for each run', async () => {
    const yaml = `
agents:
  roster:
    - name: judge
      reactive: { activateOn: [workflow:start], prompt: "Judge.", output: ./schemas/verdict.json, updates: verdict, debounce: 20ms, limits: { timeout: 1m } }
workflows:
  court: { agents: [judge], state: { verdict: null }, timeout: 2m }
`;
    const folder = mkdtempSync(join(tmpdir(), 'signet-court-'));
    const write = (field: string) =>
      writeFileSync(join(folder, 'schemas', 'verdict.json'), JSON.stringify({ type: 'object', required: [field] }));
    mkdirSync(join(folder, 'schemas'));
    write('guilty');
    const court = await startRig({ folder, yaml });
    try {
      court.model.respond(() => ({ text: '{"guilty": false}' }));
      const { id } = await startWorkflow(court.runtimeUrl, { name: 'court' });
      const log = await untilEnd(court.runtimeUrl, id);
      expect(log[0]!.payload).toMatchObject({
        agents: [{ debounceMs: 20, limits: { timeoutMs: 60_000 } }],
        limits: { timeoutMs: 120_000 },
      });
      expect(log.at(-1)!.payload).toMatchObject({ reason: 'quiescent', state: { verdict: { guilty: false } } });
      write('sentence');
      const other = await startWorkflow(court.runtimeUrl, { name: 'court' });
      expect((await untilEnd(court.runtimeUrl, other.id))[0]!.payload).toMatchObject({ agents: [{ output: { required: ['sentence'] } }] });
    } finally {
      await court.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test('that agent.yaml has, but is not taken for, are refused with its fault, which `signet status` tells and the missing file heals', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'signet-fault-'));
    const other = await startRig({ folder, yaml: 'agent: { name: Merle }\n' });
    const run = async (...args: string[]) => {
      const cli = captureCli(other);
      return { code: await runCli(cli.context, args), out: cli.out(), err: cli.err() };
    };
    try {
      other.model.respond(() => ({ text: '{"fine": true}' }));
      const reactive = '{ activateOn: [workflow:start], prompt: "Look.", output: schemas/review.json }';
      writeFileSync(
        join(folder, 'agent.yaml'),
        `agents: { roster: [{ name: reviewer, reactive: ${reactive} }] }\nworkflows: { review: { agents: [reviewer] } }\n`,
      );
      const told = async () => (await call('GET', `${other.daemonUrl}/api/workflows`)).body;
      await expect.poll(async () => (await told()).fault, { timeout: 10_000 }).toContain('schemas/review.json is no file');
      const { fault, problems } = await told();
      expect(problems).toEqual([fault]);
      const refused = await run('workflow', 'run', 'review');
      expect(refused.code).toBe(1);
      expect(refused.err).toContain(`agent.yaml as it stands is not taken: ${fault}. The last good one has no workflow "review"`);
      const status = await run('status');
      expect(status).toMatchObject({ code: 0, out: expect.stringContaining(`  config    ${fault}\n`) });
      expect(JSON.parse((await run('status', '--json')).out)).toMatchObject({ configProblems: [fault] });

      mkdirSync(join(folder, 'schemas'));
      writeFileSync(join(folder, 'schemas', 'review.json'), '{"type": "object"}');
      expect(await run('workflow', 'run', 'review', '--json')).toMatchObject({ code: 0, err: '' });
      expect(JSON.parse((await run('status', '--json')).out)).toMatchObject({ configProblems: [] });
    } finally {
      await other.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test('that name an agent which does not react are refused with the ones that do', async () => {
    const other = await startRig({ yaml: YAML });
    try {
      const answer = await call('POST', `${other.runtimeUrl}/workflows`, { name: 'broken' });
      expect(answer).toMatchObject({ status: 400, body: { code: 'config_invalid' } });
      expect(answer.body.detail).toBe(
        'agent.yaml: workflows.broken.agents names "idler"; agents of the roster with `reactive`: analyzer, reviewer. Or give "idler" a section `reactive`',
      );
    } finally {
      await other.close();
    }
  });
});

describe('signet workflow', () => {
  test('runs a file, YAML or JSON, and ends with 1 when the run did not end well', async () => {
    const agents = [{ name: 'one', activateOn: ['workflow:start', 'one:done'], prompt: 'Go {{ input }}.', emits: ['one:done'] }];
    writeFileSync(join(rig.folder, 'loop.json'), JSON.stringify({ name: 'loop', agents, limits: { activations: 2 } }));
    writeFileSync(join(rig.folder, 'once.yaml'), 'agents: [{ name: one, activateOn: [workflow:start], prompt: "Go {{ input }}." }]\n');
    const loop = captureCli(rig);
    expect(await runCli(loop.context, ['workflow', 'run', 'loop.json', '--input', 'fast'])).toBe(1);
    expect(loop.err()).toMatch(/^signet: workflow wfl_\w+ ended: budget\n$/);
    expect(loop.out()).toContain('agent:skipped');
    const once = captureCli(rig);
    expect(await runCli(once.context, ['workflow', 'run', 'once.yaml', '--input', 'fast'])).toBe(0);
    expect(JSON.stringify(rig.model.requests.at(-1)!.body.messages)).toContain('Go fast.');
  });

  test('shows, lists and aborts', async () => {
    rig.model.gate();
    writeFileSync(join(rig.folder, 'wait.yaml'), 'name: wait\nagents: [{ name: one, activateOn: [workflow:start], prompt: "Go." }]\n');
    const started = captureCli(rig);
    expect(await runCli(started.context, ['workflow', 'run', 'wait.yaml', '--detach'])).toBe(0);
    const id = started.out().trim();
    await rig.model.next();
    const [shown, aborted, listed] = [captureCli(rig), captureCli(rig), captureCli(rig)];
    expect(await runCli(shown.context, ['workflow', 'show', id])).toBe(0);
    expect(shown.out()).toMatch(/running +one in /);
    expect(await runCli(aborted.context, ['workflow', 'abort', id, '--reason', 'enough', '--json'])).toBe(0);
    expect(JSON.parse(aborted.out())).toMatchObject({ status: 'ended', reason: 'aborted' });
    expect(await runCli(listed.context, ['workflow', 'list', '--limit', '1'])).toBe(0);
    expect(listed.out()).toMatch(new RegExp(`^WORKFLOW +NAME +STATUS +STARTED\n${id} +wait +ended \\(aborted\\)`));
    rig.model.open();
  });

  test('says what is wrong with a file or an argument', async () => {
    const unknown = captureCli(rig);
    expect(await runCli(unknown.context, ['workflow', 'run', 'nightli'])).toBe(1);
    expect(unknown.err()).toContain(
      'agent.yaml has no workflow "nightli"; did you mean "nightly"? there are: nightly. Or add it to `workflows`, or give `agents` (workflow_not_found)',
    );
    const missing = captureCli(rig);
    expect(await runCli(missing.context, ['workflow', 'run', 'nowhere.yaml'])).toBe(1);
    expect(missing.err()).toContain('nowhere.yaml cannot be read');
    const state = captureCli(rig);
    expect(await runCli(state.context, ['workflow', 'run', 'nightly', '--state', '[1]'])).toBe(2);
    expect(state.err()).toContain('It must be a JSON object.');
  });
});
