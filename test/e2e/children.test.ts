import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { isAppError } from '../../src/core/errors.ts';
import { call } from '../conformance/calls.ts';
import type { ModelRequest } from '../helpers/model-server/request.ts';
import { nextSignal, payloads, type Rig, readLog, startRig } from './rig.ts';

let rig: Rig;
afterEach(() => rig.close());

/** Text of the last user message of a request. */
function asked({ body }: ModelRequest): string {
  return JSON.stringify((body.messages as { role: string; content: unknown }[]).findLast(({ role }) => role === 'user')?.content);
}

async function children(id: string) {
  return (await rig.client.session.children(id)).items;
}

describe('spawn_session', () => {
  test('hands a task to a child session and gives its answer to the model; the child ends when it has answered', async () => {
    rig = await startRig();
    rig.model.script([
      { toolCalls: [{ id: 'c1', name: 'spawn_session', input: { prompt: 'Count the teas.', title: 'Teas' } }] },
      { text: 'Nine teas.' },
      { text: 'My helper found nine.' },
    ]);
    const { id } = await rig.client.session.create({ project: '/tea', tools: ['spawn_session', 'memory_search'] });
    const answer = await rig.client.session.prompt(id, { content: 'How many teas?' });
    expect(answer).toMatchObject({ status: 'completed', content: 'My helper found nine.' });
    const [child] = await children(id);
    expect(answer.toolResults).toMatchObject([
      { isError: false, output: JSON.stringify({ session: child!.id, status: 'completed', content: 'Nine teas.' }) },
    ]);
    await rig.client.session.wait(child!.id, { state: 'ended', timeoutMs: 15_000 });
    expect(await rig.client.session.get(child!.id)).toMatchObject({
      parentId: id,
      title: 'Teas',
      project: '/tea',
      turns: 1,
      endReason: 'done',
    });
    // It has no more tools than the session that asked for it.
    const offered = rig.model.requests.map(({ body }) => (body.tools as { name: string }[]).map(({ name }) => name));
    expect(offered[1]).toEqual(['memory_search', 'spawn_session']);
  });

  test('what a child has used is counted to the session that asked, once', async () => {
    rig = await startRig();
    const used = (inputTokens: number, outputTokens: number) => ({ usage: { inputTokens, outputTokens } });
    rig.model.script([
      { toolCalls: [{ id: 'c1', name: 'spawn_session', input: { prompt: 'Count the teas.' } }], ...used(100, 10) },
      { text: 'Nine teas.', ...used(40, 4) },
      { text: 'My helper found nine.', ...used(200, 20) },
    ]);
    const { id } = await rig.client.session.create({});
    const answer = await rig.client.session.prompt(id, { content: 'How many teas?' });
    expect(answer.usage).toEqual({ inputTokens: 340, outputTokens: 34 });
    const [child] = await children(id);
    const [own, theirs] = [await rig.client.session.get(id), await rig.client.session.get(child!.id)];
    expect(own.usage).toEqual(answer.usage);
    expect(theirs.usage).toEqual({ inputTokens: 40, outputTokens: 4 });
    expect(own.costUsd).toBeCloseTo(answer.costUsd!, 9);
    expect(own.costUsd!).toBeGreaterThan(theirs.costUsd!);
    const log = await readLog(rig.client, id);
    expect(payloads(log, 'tool:result')).toMatchObject([{ usage: theirs.usage, costUsd: theirs.costUsd }]);
    expect(payloads(log, 'turn:end')).toMatchObject([{ usage: answer.usage }]);
    expect(await rig.client.session.verify(id)).toMatchObject({ verified: true });
  });

  test('lets a child work on its own when it is not waited for', async () => {
    rig = await startRig();
    rig.model.respond((request) => {
      if (asked(request).includes('Do it.')) return { text: 'Done.' };
      if (asked(request).includes('tool_result')) return { text: 'It is under way.' };
      return { toolCalls: [{ id: 'c1', name: 'spawn_session', input: { prompt: 'Do it.', wait: false } }] };
    });
    const { id } = await rig.client.session.create({});
    expect(await rig.client.session.prompt(id, { content: 'Have it done.' })).toMatchObject({ content: 'It is under way.' });
    const [child] = await children(id);
    await rig.client.session.wait(child!.id, { timeoutMs: 15_000 });
    expect((await rig.client.session.messages(child!.id)).at(-1)!.content).toBe('Done.');
    expect((await rig.client.session.get(child!.id)).state).toBe('idle');
  });

  test('refuses children beyond the limits as an error the model reads, and says so in the log', async () => {
    rig = await startRig({ yaml: 'runtime: { limits: { childDepthMax: 1, childrenMax: 1 } }\n' });
    rig.model.respond((request) => {
      if (asked(request).includes('tool_result')) return { text: 'I see.' };
      return { toolCalls: [1, 2].map((n) => ({ id: `c${n}`, name: 'spawn_session', input: { prompt: `Go deeper ${n}.`, wait: false } })) };
    });
    const { id } = await rig.client.session.create({});
    const { toolResults } = await rig.client.session.prompt(id, { content: 'Go.' });
    expect(toolResults.filter(({ isError }) => isError).map(({ output }) => String(output))).toEqual([
      expect.stringContaining('too_many_children'),
    ]);
    expect(payloads(await readLog(rig.client, id), 'supervisor:limit')).toEqual([
      { kind: 'children', limit: 1, current: 1, action: 'rejected' },
    ]);
    const [child] = await children(id);
    await rig.client.session.wait(child!.id, { timeoutMs: 15_000 });
    expect(payloads(await readLog(rig.client, child!.id), 'tool:result').map(({ error }) => (error as { code: string }).code)).toEqual([
      'too_deep',
      'too_deep',
    ]);
    expect(await children(child!.id)).toEqual([]);
  });

  test('begins no session of another agent unless the configuration lists it', async () => {
    const yamlOf = (runtime: string) => `agents: { roster: [{ name: dot }, { name: rose, read_policy: isolated }] }\n${runtime}`;
    rig = await startRig({ yaml: yamlOf('') });
    const secret = 'The zqlantern is under the stairs.';
    await call('POST', `${rig.daemonUrl}/api/memory/remember`, { content: secret, agentId: 'dot', scope: 'private', importance: 0.95 });
    const input = { prompt: 'Where is the zqlantern?', agent: 'dot' };
    rig.model.respond((request) => {
      if (asked(request).includes('tool_result')) return { text: 'I see.' };
      if (asked(request).includes('zqlantern')) return { text: 'Under the stairs.' };
      return { toolCalls: [{ id: 'c1', name: 'spawn_session', input }] };
    });
    const { id } = await rig.client.session.create({ agent: 'rose' });
    const refused = await rig.client.session.prompt(id, { content: 'Ask dot.' });
    expect(refused.toolResults).toMatchObject([{ isError: true }]);
    expect(String(refused.toolResults[0]!.output)).toMatch(/spawn_forbidden.*agent: .*runtime\.spawn\.agents/s);
    expect(await children(id)).toEqual([]);
    expect(JSON.stringify(rig.model.requests.map(({ body }) => body))).not.toContain('under the stairs');

    writeFileSync(join(rig.folder, 'agent.yaml'), yamlOf('runtime: { spawn: { agents: [dot] } }\n'));
    const listed = async () => (await call('GET', `${rig.daemonUrl}/api/config`)).body.config.runtime.spawn.agents;
    await expect.poll(listed, { timeout: 30_000 }).toEqual(['dot']);
    const allowed = await rig.client.session.prompt(id, { content: 'Ask dot again.' });
    expect(allowed.toolResults).toMatchObject([{ isError: false }]);
    expect(await children(id)).toMatchObject([{ agent: 'dot' }]);
  });

  test('an abort of the parent stops the child, and the wait for its answer has an end of its own', async () => {
    rig = await startRig();
    rig.model.gate();
    const { id } = await rig.client.session.create({});
    const spawn = (timeoutMs?: number) => ({
      toolCalls: [{ id: 'c1', name: 'spawn_session', input: { prompt: 'Think.', ...(timeoutMs ? { timeoutMs } : {}) } }],
    });
    const aborted = rig.client.session.prompt(id, { content: 'Think for me.' });
    (await rig.model.next()).reply(spawn());
    await rig.model.next(); // The child's own call, never answered.
    const [child] = await children(id);
    expect(child!.state).toBe('generating');
    expect(await rig.client.session.abort(id)).toMatchObject({ aborted: true, state: 'idle' });
    expect((await aborted).status).toBe('aborted');
    await rig.client.session.wait(child!.id, { state: 'ended', timeoutMs: 15_000 });
    expect(payloads(await readLog(rig.client, child!.id), 'turn:end')).toMatchObject([{ stopReason: 'cancelled' }]);

    const late = rig.client.session.prompt(id, { content: 'Think again.' });
    (await rig.model.next()).reply(spawn(1_000));
    await rig.model.next();
    (await rig.model.next(15_000)).reply({ text: 'It took too long.' });
    expect((await late).toolResults).toMatchObject([{ isError: true, output: expect.stringContaining('timeout') }]);
  });

  test('called by hand it needs a session to be the parent', async () => {
    rig = await startRig();
    expect(await rig.client.tools.call('spawn_session', { prompt: 'Go.' })).toMatchObject({
      isError: true,
      error: { code: 'invalid_request' },
    });
  });
});

describe('child sessions of a client', () => {
  async function family(): Promise<{ parent: string; child: string; grandchild: string }> {
    const { id: parent } = await rig.client.session.create({});
    const { id: child } = await rig.client.session.create({ parentId: parent });
    const { id: grandchild } = await rig.client.session.create({ parentId: child });
    return { parent, child, grandchild };
  }

  test('an abort reaches the turns of all of them, also below one that rests, and answers when they have settled', async () => {
    rig = await startRig();
    rig.model.gate();
    const { parent, child, grandchild } = await family();
    await rig.client.session.promptAsync(grandchild, { content: 'Work.' });
    await rig.model.next();
    expect((await rig.client.session.get(child)).state).toBe('idle');
    expect(await rig.client.session.abort(parent)).toMatchObject({ aborted: false, state: 'idle' });
    expect((await rig.client.session.get(grandchild)).state).toBe('idle');
    expect(payloads(await readLog(rig.client, grandchild), 'turn:end')).toMatchObject([{ stopReason: 'cancelled' }]);
  });

  test('the end of a session ends all below it, and it takes no more children', async () => {
    rig = await startRig();
    const { parent, child, grandchild } = await family();
    await rig.client.session.end(parent);
    for (const id of [child, grandchild]) expect(await rig.client.session.get(id)).toMatchObject({ state: 'ended', endReason: 'parent' });
    await expect(rig.client.session.create({ parentId: parent })).rejects.toMatchObject({ code: 'session_ended' });
    await expect(rig.client.session.create({ parentId: 'ses_nowhere' })).rejects.toMatchObject({ code: 'session_not_found' });
  });

  test('as many as may be open at once are taken, exactly, and one that ends makes room', async () => {
    rig = await startRig({ yaml: 'runtime: { limits: { childrenMax: 3, childDepthMax: 1 } }\n' });
    const { id } = await rig.client.session.create({});
    const tries = await Promise.all(
      Array.from({ length: 8 }, () => rig.client.session.create({ parentId: id }).catch((error: unknown) => error)),
    );
    const refused = tries.filter((outcome) => isAppError(outcome, 'too_many_children'));
    expect(refused.length).toBe(5);
    expect(refused[0]).toMatchObject({ status: 429, retryAfterMs: 5_000 });
    const [first] = await children(id);
    await expect(rig.client.session.create({ parentId: first!.id })).rejects.toMatchObject({ code: 'too_deep' });
    await rig.client.session.end(first!.id);
    expect((await rig.client.session.create({ parentId: id })).parentId).toBe(id);
  });

  test('a fork is noted in the log of the session it comes from', async () => {
    rig = await startRig();
    const { id, seq } = await rig.client.session.create({});
    const fork = await rig.client.session.fork(id, { at: seq });
    const noted = await nextSignal(rig.client, id, 'session:forked');
    expect(noted.payload).toEqual({ into: fork.id, atSeq: seq });
    expect((await rig.client.session.verify(id)).verified).toBe(true);
  });
});
