import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { nextSignal, payloads, type Rig, readLog, startRig } from './rig.ts';

/** Between two looks of a poll; unit: milliseconds. */
const POLL_MS = 10;

let rig: Rig;
let id: string;
beforeEach(async () => {
  rig = await startRig();
  ({ id } = await rig.client.session.create({}));
});
afterEach(() => rig.close());

function post(body: object, headers: Record<string, string> = {}, query = ''): Promise<Response> {
  return fetch(`${rig.runtimeUrl}/session/${id}/prompt${query}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
}

describe('the same prompt again', () => {
  test('while it runs and after it has ended gets the answer of the one turn', async () => {
    rig.model.gate();
    const first = post({ content: 'Say tea.', id: 'prompt-1' });
    const held = await rig.model.next();
    const second = post({ content: 'Say tea.', id: 'prompt-1' });
    held.reply({ text: 'tea' });
    const bodies = await Promise.all([first, second].map(async (response) => (await response).json()));
    expect(bodies[0]).toMatchObject({ id: 'prompt-1', content: 'tea', status: 'completed' });
    expect(bodies[1]).toEqual(bodies[0]);
    expect(await (await post({ content: 'Say tea.', id: 'prompt-1' })).json()).toEqual(bodies[0]);
    expect(rig.model.requests.length).toBe(1);
    expect(payloads(await readLog(rig.client, id), 'prompt:received').length).toBe(1);
  });

  test('is known by the Idempotency-Key header as well, and another body under it is a conflict', async () => {
    rig.model.script([{ text: 'tea' }]);
    const key = { 'idempotency-key': 'key-1' };
    const first = await (await post({ content: 'Say tea.' }, key)).json();
    expect(first).toMatchObject({ id: 'key-1', content: 'tea' });
    expect(await (await post({ content: 'Say tea.' }, key)).json()).toEqual(first);
    const other = await post({ content: 'Say coffee.' }, key);
    expect([other.status, await other.json()]).toMatchObject([409, { code: 'id_conflict', status: 409 }]);
    expect(rig.model.requests.length).toBe(1);
  });

  test('with one id in the header and another in the body is refused by both', async () => {
    rig.model.script([{ text: 'tea' }]);
    const key = { 'idempotency-key': 'key-1' };
    const refused = await post({ content: 'Say tea.', id: 'other' }, key);
    const problem = (await refused.json()) as { detail: string };
    expect([refused.status, problem]).toMatchObject([400, { code: 'invalid_request', errors: [{ pointer: '/id' }] }]);
    expect(problem.detail).toMatch(/Idempotency-Key is "key-1" and id in the body is "other"/);
    expect(await (await post({ content: 'Say tea.', id: 'key-1' }, key)).json()).toMatchObject({ id: 'key-1', content: 'tea' });
  });

  test('after the session has ended still gets its answer; a new one is refused', async () => {
    rig.model.script([{ text: 'tea' }]);
    const first = await (await post({ content: 'Say tea.', id: 'prompt-1' })).json();
    await rig.client.session.end(id);
    expect(await (await post({ content: 'Say tea.', id: 'prompt-1' })).json()).toEqual(first);
    const refused = await post({ content: 'Say tea.', id: 'prompt-2' });
    expect([refused.status, await refused.json()]).toMatchObject([409, { code: 'session_ended' }]);
  });
});

describe('a prompt in the background', () => {
  test.each([
    ['?async=1', {}],
    ['', { prefer: 'respond-async' }],
  ])('is answered 202 with "%s" %o and polled to its end', async (query, headers) => {
    rig.model.gate();
    const accepted = await post({ content: 'Say tea.', id: 'prompt-1' }, headers as Record<string, string>, query);
    expect([accepted.status, await accepted.json()]).toMatchObject([202, { id: 'prompt-1', content: '', stopReason: null }]);
    const held = await rig.model.next();
    expect(await rig.client.session.getPrompt(id, 'prompt-1')).toMatchObject({ status: 'running', turn: 1, answer: null, endSeq: null });
    held.reply({ text: 'tea' });
    let state = await rig.client.session.getPrompt(id, 'prompt-1');
    while (state.status === 'running') {
      await pause(POLL_MS);
      state = await rig.client.session.getPrompt(id, 'prompt-1');
    }
    expect(state).toMatchObject({ status: 'completed', error: null, answer: { content: 'tea', stopReason: 'end_turn' } });
    expect(state.endSeq).toBe(state.answer?.seq);
  });

  test('that nobody sent is not found', async () => {
    await expect(rig.client.session.getPrompt(id, 'prompt-0')).rejects.toMatchObject({ code: 'prompt_not_found', status: 404 });
  });
});

describe('the queue', () => {
  async function fill(): Promise<void> {
    rig.model.gate();
    for (let n = 0; n <= 16; n += 1) await rig.client.session.promptAsync(id, { content: `Prompt ${n}.`, promptId: `p${n}` });
  }

  test('holds 16 prompts in order; one more is answered 429 with Retry-After, and may come again under its id', async () => {
    await fill();
    const session = await rig.client.session.get(id);
    expect(session.queue).toEqual(['p1', 'p2', 'p3', 'p4', 'p5', 'p6', 'p7', 'p8', 'p9', 'p10', 'p11', 'p12', 'p13', 'p14', 'p15', 'p16']);
    expect(session.turn?.promptId).toBe('p0');
    const refused = await post({ content: 'Prompt 17.', id: 'p17' });
    expect([refused.status, refused.headers.get('retry-after'), await refused.json()]).toMatchObject([
      429,
      '1',
      { code: 'session_busy', retryAfterMs: 1_000 },
    ]);
    (await rig.model.next()).reply({ text: 'answer' });
    rig.model.respond(() => ({ text: 'answer' }));
    await nextSignal(rig.client, id, 'turn:start', (start) => start.promptId === 'p1');
    // What was refused for lack of room is not refused for ever: the same id is taken now.
    const again = post({ content: 'Prompt 17.', id: 'p17' });
    rig.model.open();
    expect([(await again).status, await (await again).json()]).toMatchObject([200, { id: 'p17', content: 'answer', status: 'completed' }]);
    const log = await readLog(rig.client, id);
    expect(payloads(log, 'turn:start').map(({ promptId }) => promptId)).toEqual(Array.from({ length: 18 }, (_, n) => `p${n}`));
    expect(payloads(log, 'turn:end').length).toBe(18);
  });

  test('gives a waiting prompt back, and only a waiting one', async () => {
    rig.model.gate();
    await rig.client.session.promptAsync(id, { content: 'One.', promptId: 'p0' });
    const held = await rig.model.next();
    const waiting = rig.client.session.prompt(id, { content: 'Two.', promptId: 'p1' });
    waiting.catch(() => undefined);
    await rig.client.session.promptAsync(id, { content: 'Three.', promptId: 'p2' });
    await nextSignal(rig.client, id, 'turn:queued', (queued) => queued.promptId === 'p1');
    expect(await rig.client.session.cancelPrompt(id, 'p1')).toMatchObject({ id: 'p1', status: 'cancelled', position: null });
    await expect(waiting).rejects.toMatchObject({ code: 'prompt_cancelled', status: 409 });
    expect(await rig.client.session.getPrompt(id, 'p2')).toMatchObject({ status: 'queued', position: 1 });
    await expect(rig.client.session.cancelPrompt(id, 'p0')).rejects.toMatchObject({ code: 'prompt_not_queued' });
    await expect(rig.client.session.cancelPrompt(id, 'p1')).rejects.toMatchObject({ code: 'prompt_not_queued' });
    await expect(rig.client.session.cancelPrompt(id, 'p9')).rejects.toMatchObject({ code: 'prompt_not_found' });
    held.reply({});
    (await rig.model.next()).reply({});
    await rig.client.session.wait(id);
    expect(payloads(await readLog(rig.client, id), 'turn:start').map(({ promptId }) => promptId)).toEqual(['p0', 'p2']);
  });
});
