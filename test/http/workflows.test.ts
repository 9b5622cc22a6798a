import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WORKFLOW_SIGNALS } from '../../src/contract/workflow-signals.ts';
import { readLogFile } from '../../src/core/log-file.ts';
import { call } from '../conformance/calls.ts';
import { verifies } from '../conformance/verifies.ts';
import { named, payloads, type Rig, readLog, startRig } from '../e2e/rig.ts';
import { schemaFaults } from '../helpers/signal-schema.ts';
import { answersPerMatch, refusals, startWorkflow, untilEnd, untilSignal, workflowLog, workflowView } from '../helpers/workflow.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await startRig({ yaml: 'agents: { roster: [{ name: dot }] }\n' });
});
afterEach(() => rig.close());

/** The model answers by the first word of the newest prompt. */
function answer(answers: Readonly<Record<string, string>>): void {
  rig.model.respond(({ body }) => {
    const messages = JSON.stringify((body.messages as unknown[]).at(-1));
    const word = Object.keys(answers).find((key) => messages.includes(key));
    return word === undefined ? undefined : { text: answers[word]! };
  });
}

const analyzer = {
  name: 'analyzer',
  activateOn: ['workflow:start'],
  prompt: 'Analyse {{ input.topic }}.',
  emits: ['analysis:complete'],
  updates: 'analysis',
};
const reviewer = {
  name: 'reviewer',
  activateOn: ['analysis:complete', 'analysis:redone'],
  prompt: 'Review: {{ signal.payload.output }} / {{ state.analysis }}',
  when: 'state.analysis != null',
  emits: ['review:complete'],
  updates: 'review',
};

describe('a workflow of reactive agents', () => {
  verifies(
    [
      'signals.workflow.start',
      'signals.workflow.end',
      'signals.agent.activated',
      'signals.agent.completed',
      'signals.state.changed',
      'signals.custom.emits',
      'signals.activate-on.workflow',
      'signals.activate-on.custom',
      'signals.activate-on.several',
      'signals.causality.activation',
      'signals.decoupling',
    ],
    'runs from one agent to the next by signals alone',
    async () => {
      answer({ Analyse: 'Two faults.', Review: 'Agreed.' });
      const { id } = await startWorkflow(rig.runtimeUrl, { agents: [analyzer, reviewer], input: { topic: 'tea' }, state: { kept: 1 } });
      const log = await untilEnd(rig.runtimeUrl, id);

      expect(log.flatMap(schemaFaults)).toEqual([]);
      expect(log[0]).toMatchObject({ name: 'workflow:start', payload: { state: { kept: 1 } }, source: { depth: 0, workflow: id } });
      expect(payloads(log, 'agent:activated')).toMatchObject([{ agent: 'analyzer' }, { agent: 'reviewer' }]);
      expect(payloads(log, 'agent:completed')).toMatchObject([
        { agent: 'analyzer', output: 'Two faults.' },
        { agent: 'reviewer', output: 'Agreed.' },
      ]);
      expect(payloads(log, 'state:analysis:changed')).toMatchObject([{ value: 'Two faults.', oldValue: null, agent: 'analyzer' }]);
      expect(payloads(log, 'analysis:complete')).toEqual([{ output: 'Two faults.', agent: 'analyzer' }]);
      const activated = named(log, 'agent:activated')[1]!;
      expect(activated.source.parent).toBe(named(log, 'analysis:complete')[0]!.id);
      expect(log.at(-1)).toMatchObject({
        name: 'workflow:end',
        payload: {
          reason: 'quiescent',
          state: { kept: 1, analysis: 'Two faults.', review: 'Agreed.' },
          metrics: { activations: 2, skipped: 0 },
        },
      });
      expect(JSON.stringify(rig.model.requests[1]!.body.messages)).toContain('Review: Two faults. / Two faults.');
      expect([...answersPerMatch(log).values()]).toEqual([1, 1]);
    },
  );

  test('gives each activation a normal session whose signals have the run as their root, and ends it', async () => {
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [{ ...analyzer, agent: 'dot' }], input: {} });
    const log = await untilEnd(rig.runtimeUrl, id);
    const [activated] = named(log, 'agent:activated');
    const session = String(activated!.payload.session);
    const signals = await readLog(rig.client, session);
    expect(await rig.client.session.get(session)).toMatchObject({ state: 'ended', agent: 'dot', metadata: { workflow: id } });
    expect(named(signals, 'session:created')[0]!.source.parent).toBe(activated!.id);
    expect(named(signals, 'prompt:received')[0]!.source.parent).toBe(activated!.id);
    const turn = named(signals, 'turn:end')[0]!;
    expect(turn.source.root).toBe(log[0]!.id);
    expect(named(log, 'workflow:result')[0]!.source.parent).toBe(turn.id);
    expect(await rig.client.session.verify(session)).toMatchObject({ verified: true });
    const { header, signals: lines } = readLogFile(await rig.client.session.exportLog(session));
    const elsewhere = await startRig({ yaml: 'agents: { roster: [{ name: dot }] }\n' });
    try {
      await elsewhere.client.session.importLog({ header, signals: lines } as Parameters<typeof elsewhere.client.session.importLog>[0]);
      expect(await elsewhere.client.session.verify(session)).toMatchObject({ verified: true });
    } finally {
      await elsewhere.close();
    }
  });

  verifies(['signals.agent.skipped', 'signals.agent.skipped.guard'], async () => {
    const never = { ...reviewer, name: 'never', when: 'signal.payload.output == "something else"' };
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [analyzer, never], input: {} });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(payloads(log, 'agent:skipped')).toMatchObject([{ agent: 'never', reason: 'when', trigger: 'analysis:complete' }]);
    expect(payloads(log, 'agent:activated')).toHaveLength(1);
  });

  verifies(['signals.activate-on.harness', 'signals.activate-on.state'], async () => {
    const counter = { name: 'counter', activateOn: ['harness:end'], from: { agents: ['analyzer'] }, prompt: 'Count.', updates: 'tokens' };
    const witness = { name: 'witness', activateOn: ['state:analysis:changed'], prompt: 'Saw {{ signal.payload.newValue }}.' };
    answer({ Analyse: 'done', Count: 'ten', Saw: 'seen' });
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [analyzer, counter, witness], input: { topic: 'tea' } });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(
      payloads(log, 'agent:completed')
        .map(({ agent }) => agent)
        .sort(),
    ).toEqual(['analyzer', 'counter', 'witness']);
    expect(payloads(log, 'agent:activated').find(({ agent }) => agent === 'counter')).toMatchObject({ trigger: 'harness:end' });
  });

  test('takes the payload of what it emits from a structured output, and chooses names by emitWhen', async () => {
    const schema = { type: 'object', properties: { approved: { type: 'boolean' } }, required: ['approved'], additionalProperties: false };
    const judge = {
      name: 'judge',
      activateOn: ['workflow:start'],
      prompt: 'Judge {{ input }}.',
      output: schema,
      emits: ['judge:done', 'judge:approved'],
      emitWhen: { 'judge:approved': 'output.approved', 'judge:rejected': '!output.approved && signal.name == "workflow:start"' },
    };
    answer({ Judge: '{"approved": false}' });
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [judge], input: 'it' });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(payloads(log, 'judge:done')).toEqual([{ approved: false }]);
    expect(payloads(log, 'judge:rejected')).toEqual([{ approved: false }]);
    expect(payloads(log, 'judge:approved')).toEqual([]);
  });
});

describe('parallel agents', () => {
  test('complete in any order; each update tells the value just before it', async () => {
    rig.model.gate();
    const both = ['a', 'b'].map((name) => ({ name, activateOn: ['workflow:start'], prompt: `I am ${name}.`, updates: 'last' }));
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: both, state: { last: 'none' } });
    const held = [await rig.model.next(), await rig.model.next()];
    const ofB = held.find(({ request }) => JSON.stringify(request.body.messages).includes('I am b.'))!;
    ofB.reply({ text: 'B' });
    await untilSignal(rig.runtimeUrl, id, 'agent:completed');
    held.find((one) => one !== ofB)!.reply({ text: 'A' });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(payloads(log, 'state:last:changed')).toMatchObject([
      { oldValue: 'none', newValue: 'B', agent: 'b' },
      { oldValue: 'B', newValue: 'A', agent: 'a' },
    ]);
  });

  test('wait, give up the oldest, or are skipped when their agent is busy', async () => {
    rig.model.gate();
    const listeners = (['queue', 'drop-oldest', 'skip'] as const).map((overflow) => ({
      name: overflow === 'drop-oldest' ? 'dropper' : overflow === 'queue' ? 'queuer' : 'skipper',
      activateOn: ['part:one', 'part:two', 'part:three'],
      prompt: `I ${overflow}.`,
      overflow,
    }));
    const source = { name: 'source', activateOn: ['workflow:start'], prompt: 'Go.', emits: ['part:one', 'part:two', 'part:three'] };
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [source, ...listeners] });
    (await rig.model.next()).reply({ text: 'gone' });
    await untilSignal(rig.runtimeUrl, id, 'agent:skipped', ({ agent, trigger }) => agent === 'skipper' && trigger === 'part:three');
    rig.model.open();
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(refusals(log)).toEqual(['skipper concurrency part:two', 'dropper concurrency part:two', 'skipper concurrency part:three']);
    const worked = payloads(log, 'agent:completed').map(({ agent }) => agent);
    expect(worked.filter((agent) => agent === 'queuer')).toHaveLength(3);
    expect(worked.filter((agent) => agent === 'dropper')).toHaveLength(2);
    expect([...answersPerMatch(log).values()].every((count) => count === 1)).toBe(true);
  });
});

describe('a debounced agent', () => {
  test('works on the newest trigger only; the ones before it are skipped as debounced', async () => {
    const source = { name: 'source', activateOn: ['workflow:start'], prompt: 'Go.', emits: ['part:one', 'part:two'] };
    const calm = { name: 'calm', activateOn: ['part:*'], prompt: 'On {{ signal.name }}.', debounceMs: 50 };
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [source, calm] });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(refusals(log)).toEqual(['calm debounced part:one']);
    expect(payloads(log, 'agent:activated').at(-1)).toMatchObject({ agent: 'calm', trigger: 'part:two' });
  });
});

describe('sessions of activations', () => {
  test('are one for all activations with reuse, and it ends with the run', async () => {
    const keeper = {
      name: 'keeper',
      activateOn: ['workflow:start', 'keeper:said'],
      prompt: 'Keep.',
      session: 'reuse',
      emits: ['keeper:said'],
    };
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [keeper], limits: { depth: 2 } });
    const log = await untilEnd(rig.runtimeUrl, id);
    const sessions = new Set(payloads(log, 'agent:activated').map(({ session }) => String(session)));
    expect(payloads(log, 'agent:completed')).toHaveLength(2);
    expect(sessions.size).toBe(1);
    expect(await rig.client.session.wait([...sessions][0]!, { state: 'ended' })).toMatchObject({ turns: 2 });
  });

  test('are the ones the trigger came from with attach, wherever in the project that is', async () => {
    const { id: inside } = await rig.client.session.create({ project: '/tea' });
    const { id: outside } = await rig.client.session.create({ project: '/milk' });
    rig.model.gate();
    const hold = { name: 'hold', activateOn: ['workflow:start'], prompt: 'Hold.' };
    const joins = { name: 'joins', activateOn: ['turn:end'], from: { scope: 'project' }, session: 'attach', prompt: 'Also this.' };
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [hold, joins], project: '/tea', limits: { depth: 1 } });
    const held = await rig.model.next();
    const turns = [outside, inside].map((session) => rig.client.session.prompt(session, { content: 'Hello.' }));
    for (const _turn of turns) (await rig.model.next()).reply({ text: 'Hi.' });
    await Promise.all(turns);
    (await rig.model.next()).reply({ text: 'Joined.' });
    await untilSignal(rig.runtimeUrl, id, 'agent:completed', ({ agent }) => agent === 'joins');
    held.reply({ text: 'Held.' });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(payloads(log, 'agent:activated').filter(({ agent }) => agent === 'joins')).toMatchObject([{ session: inside }]);
    expect(await rig.client.session.get(inside)).toMatchObject({ state: 'idle', turns: 2 });
    expect(await rig.client.session.get(outside)).toMatchObject({ turns: 1 });
    // Its own turn, and that of the agent it waited for, are refused: by self, and by the depth of the chain.
    expect(refusals(log)).toEqual(['joins self turn:end', 'joins depth turn:end']);
  });
});

describe('what a client is refused', () => {
  const post = (body: unknown) => call('POST', `${rig.runtimeUrl}/workflows`, body);
  const one = { name: 'one', activateOn: ['workflow:start'], prompt: 'Go.' };

  test('names the field and the fix', async () => {
    expect(await post({})).toMatchObject({ status: 400, body: { code: 'invalid_workflow' } });
    expect(await post({ name: 'nightly' })).toMatchObject({ status: 404, body: { code: 'workflow_not_found' } });
    expect(await post({ agents: [{ ...one, activateOn: ['*'] }] })).toMatchObject({
      status: 400,
      body: { code: 'invalid_pattern', errors: [{ pointer: '/agents/0/activateOn/0' }] },
    });
    expect(await post({ agents: [{ ...one, activateOn: ['/^turn:/'] }] })).toMatchObject({
      status: 400,
      body: { code: 'invalid_pattern', hint: expect.stringContaining('a regular expression is for workflows in code') },
    });
    expect(await post({ agents: [{ ...one, activateOn: [{ regexp: '^turn:', flags: '' }] }] })).toMatchObject({
      status: 400,
      body: { code: 'invalid_request', errors: [{ pointer: '/agents/0/activateOn/0', detail: expect.stringContaining('in code') }] },
    });
    expect(await post({ agents: [{ ...one, when: 'state.' }] })).toMatchObject({
      status: 400,
      body: { code: 'invalid_expression', errors: [{ pointer: '/agents/0/when' }] },
    });
    expect(await post({ agents: [{ ...one, emits: ['workflow:end'] }] })).toMatchObject({
      status: 400,
      body: { code: 'invalid_workflow', errors: [{ pointer: '/agents/0/emits' }] },
    });
    expect(await post({ agents: [one, one] })).toMatchObject({ status: 400, body: { code: 'invalid_workflow' } });
    expect(await post({ agents: [{ ...one, agent: 'defualt' }] })).toMatchObject({
      status: 400,
      body: {
        code: 'unknown_agent',
        detail: 'no agent "defualt"; did you mean "default"? known: default, dot. Or add it to agents.roster in agent.yaml',
        errors: [{ pointer: '/agents/0/agent' }],
      },
    });
    expect(await post({ agents: [one, { ...one, name: 'two', from: { agents: ['one', 'onee'] } }] })).toMatchObject({
      status: 400,
      body: {
        code: 'unknown_agent',
        detail: expect.stringContaining('no agent "onee"; did you mean "one"? known: one, two, default, dot'),
        errors: [{ pointer: '/agents/1/from/agents/1' }],
      },
    });
    expect(await post({ agents: [{ ...one, name: 'styleReviewer' }] })).toMatchObject({
      status: 400,
      body: {
        code: 'invalid_request',
        errors: [{ pointer: '/agents/0/name', detail: expect.stringMatching(/did you mean "style-reviewer"\?$/) }],
      },
    });
    expect(await post({ agents: [{ ...one, provider: 'nobody' }] })).toMatchObject({ status: 400, body: { code: 'unknown_provider' } });
    expect(await post({ agents: [one], surprise: 1 })).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    expect((await call('GET', `${rig.runtimeUrl}/workflows/wfl_unknown`)).body).toMatchObject({ code: 'workflow_not_found' });
    expect((await call('DELETE', `${rig.runtimeUrl}/workflows/wfl_unknown`)).body).toMatchObject({ code: 'workflow_not_found' });
  });

  test('an id may be sent again with the same workflow, not with another one', async () => {
    const first = await post({ id: 'my_flow', agents: [one] });
    expect(first.status).toBe(201);
    expect(await post({ id: 'my_flow', agents: [one] })).toMatchObject({ status: 200, body: { id: 'my_flow' } });
    expect(await post({ id: 'my_flow', agents: [{ ...one, prompt: 'Stop.' }] })).toMatchObject({
      status: 409,
      body: { code: 'id_conflict' },
    });
    await untilEnd(rig.runtimeUrl, 'my_flow');
  });
});

describe('looking at workflows', () => {
  test('lists them, the newest first, in pages; shows what runs; and streams from any point', async () => {
    rig.model.gate();
    const one = { name: 'one', activateOn: ['workflow:start'], prompt: 'Go.' };
    for (const id of ['flow_a', 'flow_b', 'flow_c']) await startWorkflow(rig.runtimeUrl, { id, agents: [one] });
    await untilSignal(rig.runtimeUrl, 'flow_c', 'agent:activated');
    expect(await workflowView(rig.runtimeUrl, 'flow_c')).toMatchObject({ status: 'running', live: [{ agent: 'one', attempt: 1 }] });
    rig.model.open();
    for (const id of ['flow_a', 'flow_b', 'flow_c']) await untilEnd(rig.runtimeUrl, id);
    const first = (await call('GET', `${rig.runtimeUrl}/workflows?limit=2`)).body;
    const second = (await call('GET', `${rig.runtimeUrl}/workflows?limit=2&cursor=${first.next}`)).body;
    expect([...first.items, ...second.items].map(({ id, status }) => `${id} ${status}`)).toEqual([
      'flow_c ended',
      'flow_b ended',
      'flow_a ended',
    ]);
    expect((await call('GET', `${rig.runtimeUrl}/session`)).body.items.map(({ id }: { id: string }) => id)).not.toContain('flow_a');
    const log = await workflowLog(rig.runtimeUrl, 'flow_a');
    const text = await (
      await fetch(`${rig.runtimeUrl}/workflows/flow_a/stream`, { headers: { 'last-event-id': String(log.length - 2) } })
    ).text();
    expect([...text.matchAll(/^event: (.*)$/gm)].map(([, name]) => name)).toEqual([
      'workflow:snapshot',
      'workflow:settled',
      'workflow:end',
      'end',
    ]);
  });
});

test('every signal of the catalogue of workflows is of a kind, and has a sentence', () => {
  for (const { kind, description } of Object.values(WORKFLOW_SIGNALS))
    expect([kind, description.length > 10]).toEqual([expect.any(String), true]);
});
