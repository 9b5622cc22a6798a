import { afterEach, describe, expect, test } from 'vitest';
import type { Reply } from '../helpers/model-server/reply.ts';
import { nextSignal, payloads, type Rig, readLog, startRig } from './rig.ts';

let rig: Rig;
afterEach(() => rig.close());

const calls = (...names: string[]): Reply => ({ toolCalls: names.map((name, index) => ({ id: `c${index}`, name, input: { n: index } })) });

async function asking(yaml?: string): Promise<string> {
  rig = await startRig(yaml === undefined ? {} : { yaml });
  await rig.tool('shell', ({ n }) => `ran ${n}`, { needsApproval: yaml === undefined });
  const { id } = await rig.client.session.create({});
  return id;
}

async function outputs(id: string): Promise<unknown[]> {
  return (await rig.client.session.messages(id)).filter(({ role }) => role === 'tool').map(({ toolResult }) => toolResult?.output);
}

/** Read a message a page, forward and back, nothing is left out: messages of one signal come together. */
async function expectPagesWhole(id: string): Promise<void> {
  const all = await rig.client.session.messages(id);
  const read = async (first: string): Promise<unknown[]> => {
    const found: unknown[] = [];
    for (let path: string | undefined = first; path; ) {
      const response: Response = await fetch(rig.runtimeUrl + path);
      const page = (await response.json()) as unknown[];
      if (first.includes('after')) found.push(...page);
      else found.unshift(...page);
      path = /<([^>]+)>/.exec(response.headers.get('link') ?? '')?.[1];
    }
    return found;
  };
  expect(await read(`/session/${id}/messages?limit=1`)).toEqual(all);
  expect(await read(`/session/${id}/messages?limit=1&after=0`)).toEqual(all);
}

describe('a tool that needs an approval', () => {
  test('waits, is listed, runs when it is allowed once, and asks again the next time', async () => {
    const id = await asking();
    rig.model.script([calls('shell'), { text: 'Done.' }, calls('shell'), { text: 'Not done.' }]);
    const prompt = rig.client.session.prompt(id, { content: 'Run it.' });
    const asked = await nextSignal(rig.client, id, 'tool:approval:requested');
    expect(asked.payload).toMatchObject({ id: 'c0', name: 'shell', input: { n: 0 } });
    const { items, count } = await rig.client.approvals.list();
    expect([count, items]).toMatchObject([1, [{ id: 'c0', session: id, agent: 'default', tool: 'shell', input: { n: 0 } }]]);
    expect(Date.parse(items[0]!.expiresAt)).toBeGreaterThan(Date.parse(items[0]!.requestedAt));
    expect((await rig.client.approvals.list({ session: 'ses_another' })).count).toBe(0);
    expect(rig.tools.requests.length).toBe(0);
    expect(await rig.client.approvals.decide(id, 'c0', 'once')).toMatchObject({ id: 'c0', decision: 'once' });
    expect((await prompt).toolResults).toMatchObject([{ output: 'ran 0', isError: false }]);
    await expect(rig.client.approvals.decide(id, 'c0', 'deny')).rejects.toMatchObject({ code: 'approval_decided', status: 409 });

    const second = rig.client.session.prompt(id, { content: 'Run it again.' });
    await nextSignal(rig.client, id, 'tool:approval:requested', (payload) => payload.name === 'shell' && rig.model.requests.length === 3);
    await expect.poll(async () => (await rig.client.approvals.list()).items.map((item) => item.id)).toEqual(['c0_1']);
    await expect(rig.client.approvals.decide(id, 'c0', 'once')).rejects.toMatchObject({ code: 'approval_decided', status: 409 });
    expect((await rig.client.approvals.list()).count).toBe(1);
    await rig.client.approvals.decide(id, 'c0_1', 'deny', 'not today');
    expect(await second).toMatchObject({
      content: 'Not done.',
      toolResults: [{ name: 'shell', input: { n: 0 }, output: 'denied by sdk: not today', isError: true }],
    });
    expect(await outputs(id)).toEqual(['ran 0', 'denied by sdk: not today']);
    expect(rig.tools.requests.length).toBe(1);
  });

  test('is not asked for again in a session that always allows it, and one word answers all of its calls', async () => {
    const id = await asking();
    rig.model.script([calls('shell', 'shell'), { text: 'Done.' }, calls('shell'), { text: 'Done again.' }]);
    const prompt = rig.client.session.prompt(id, { content: 'Run both.' });
    await nextSignal(rig.client, id, 'tool:approval:requested', (payload) => payload.id === 'c1');
    expect((await rig.client.approvals.list()).count).toBe(2);
    await rig.client.approvals.decide(id, 'c0', 'always');
    expect((await prompt).content).toBe('Done.');
    expect((await rig.client.session.prompt(id, { content: 'Once more.' })).content).toBe('Done again.');
    expect((await rig.client.approvals.list()).count).toBe(0);
    expect(payloads(await readLog(rig.client, id), 'tool:approval:requested').length).toBe(2);
    expect(rig.tools.requests.length).toBe(3);
  });

  test('is denied when nobody decides in time', async () => {
    rig = await startRig({ yaml: 'runtime: { limits: { approvalTimeoutMs: 100 } }\n' });
    await rig.tool('shell', () => 'ran', { needsApproval: true });
    const { id } = await rig.client.session.create({});
    rig.model.script([calls('shell'), { text: 'Nobody answered.' }]);
    expect((await rig.client.session.prompt(id, { content: 'Run it.' })).content).toBe('Nobody answered.');
    expect(payloads(await readLog(rig.client, id), 'tool:approval:resolved')).toMatchObject([{ decision: 'deny', by: 'expiry' }]);
    expect(rig.tools.requests.length).toBe(0);
  });

  test('runs when nobody decides in time and the configuration says so', async () => {
    rig = await startRig({ yaml: 'runtime: { approvalExpiry: allow, limits: { approvalTimeoutMs: 100 } }\n' });
    await rig.tool('shell', () => 'ran', { needsApproval: true });
    const { id } = await rig.client.session.create({});
    rig.model.script([calls('shell'), { text: 'Nobody minded.' }]);
    await rig.client.session.prompt(id, { content: 'Run it.' });
    expect(payloads(await readLog(rig.client, id), 'tool:approval:resolved')).toMatchObject([{ decision: 'once', by: 'expiry' }]);
    expect(await outputs(id)).toEqual(['ran']);
  });

  test('nobody waits for is not found, in a known and in an unknown session', async () => {
    const id = await asking();
    await expect(rig.client.approvals.decide(id, 'c9', 'once')).rejects.toMatchObject({ code: 'approval_not_found', status: 404 });
    await expect(rig.client.approvals.decide('ses_unknown', 'c9', 'once')).rejects.toMatchObject({
      code: 'session_not_found',
      status: 404,
    });
  });

  test('that was aborted while it waited cannot be decided any more', async () => {
    const id = await asking();
    rig.model.script([calls('shell')]);
    const prompt = rig.client.session.prompt(id, { content: 'Run it.' });
    await nextSignal(rig.client, id, 'tool:approval:requested');
    await rig.client.session.abort(id);
    expect((await prompt).status).toBe('aborted');
    expect((await rig.client.approvals.list()).count).toBe(0);
    await expect(rig.client.approvals.decide(id, 'c0', 'once')).rejects.toMatchObject({ code: 'approval_not_found' });
  });
});

describe('rules in agent.yaml', () => {
  const rule = (decision: string) => `runtime: { approvals: [{ tool: "she*", decision: ${decision} }, { tool: "*", decision: allow }] }\n`;

  test('allow runs a tool at once', async () => {
    const id = await asking(rule('allow'));
    rig.model.script([calls('shell'), { text: 'Done.' }]);
    await rig.client.session.prompt(id, { content: 'Run it.' });
    expect(await outputs(id)).toEqual(['ran 0']);
  });

  test('ask waits for a person', async () => {
    const id = await asking(rule('ask'));
    rig.model.script([calls('shell'), { text: 'Done.' }]);
    const prompt = rig.client.session.prompt(id, { content: 'Run it.' });
    const asked = await nextSignal(rig.client, id, 'tool:approval:requested');
    expect(asked.payload.reason).toBe('agent.yaml says ask for she*');
    await rig.client.approvals.decide(id, 'c0', 'once');
    await prompt;
    expect(await outputs(id)).toEqual(['ran 0']);
  });

  test('deny tells the model, and the other calls of the round run', async () => {
    const id = await asking(rule('deny'));
    await rig.tool('look', () => 'looked');
    rig.model.script([calls('shell', 'look'), { text: 'As you wish.' }]);
    const answer = await rig.client.session.prompt(id, { content: 'Run it.' });
    expect(answer.content).toBe('As you wish.');
    expect(answer.toolResults).toMatchObject([
      { id: 'c0', name: 'shell', input: { n: 0 }, output: 'agent.yaml says deny for she*', isError: true },
      { id: 'c1', name: 'look', input: { n: 1 }, output: 'looked', isError: false },
    ]);
    expect(await outputs(id)).toEqual(['agent.yaml says deny for she*', 'looked']);
    await expectPagesWhole(id);
    expect(rig.tools.requests.map(({ body }) => body.name)).toEqual(['look']);
  });
});
