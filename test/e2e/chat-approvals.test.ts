import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Approvals, createApprovals } from '../../src/cli/chat-approvals.ts';
import { createChatView } from '../../src/cli/chat-view.ts';
import { createStyle } from '../../src/cli/terminal.ts';
import { payloads, type Rig, readLog, startRig } from './rig.ts';

let rig: Rig;
let id: string;
let shown: string;
let turn: Promise<unknown>;
let approvals: Approvals;

/** A session in which two calls wait, and a chat that has come to it. */
beforeEach(async () => {
  rig = await startRig();
  await rig.tool('shell', ({ n }) => `ran ${n}`, { needsApproval: true });
  const session = await rig.client.session.create({});
  id = session.id;
  const toolCalls = ['c0', 'c1'].map((call, n) => ({ id: call, name: 'shell', input: { n } }));
  rig.model.script([{ toolCalls }, { text: 'Done.' }]);
  turn = rig.client.session.prompt(id, { content: 'Run both.' }).catch(() => undefined);
  await expect.poll(async () => (await rig.client.approvals.list()).count, { timeout: 10_000 }).toBe(2);
  shown = '';
  const notes = { write: (text: string) => (shown += text) };
  const style = createStyle(notes, {});
  approvals = createApprovals({ client: rig.client, session, view: createChatView({ answer: null, notes, style }), style, person: true });
  await approvals.load();
});
afterEach(async () => {
  await rig.client.session.abort(id);
  await turn;
  await rig.close();
});

const resolved = async () =>
  payloads(await readLog(rig.client, id), 'tool:approval:resolved').map(({ id: call, decision }) => [call, decision]);
const asked = () => [...shown.matchAll(/shell wants to run.*"n":(\d)/g)].map(([, n]) => n);

test('each answer decides the call that was asked for last, the oldest first; commands and other words decide nothing', async () => {
  expect(asked()).toEqual(['0']);
  expect(await approvals.answer('/status')).toBe(false);
  expect(await approvals.answer('why?')).toBe(true);
  expect({ asked: asked(), resolved: await resolved() }).toEqual({ asked: ['0', '0'], resolved: [] });
  await approvals.answer('n');
  expect({ asked: asked(), resolved: await resolved() }).toEqual({ asked: ['0', '0', '1'], resolved: [['c0', 'deny']] });
  await approvals.answer(' Yes ');
  expect(await resolved()).toEqual([
    ['c0', 'deny'],
    ['c1', 'once'],
  ]);
  expect([approvals.waiting(), await approvals.answer('y')]).toEqual([false, false]);
  await turn;
  expect(rig.tools.requests.map(({ body }) => body.input)).toEqual([{ n: 1 }]);
});

test('an answer that comes after somebody else has decided says so and does not fall on the next call', async () => {
  await rig.client.approvals.decide(id, 'c0', 'deny');
  await approvals.answer('y');
  expect(await resolved()).toEqual([['c0', 'deny']]);
  expect(shown).toContain('c0');
  expect(asked()).toEqual(['0', '1']);
});
