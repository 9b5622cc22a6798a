import { expect, test } from 'vitest';
import { type AuthRig, startGuarded } from '../helpers/auth-rig.ts';

const TEXT = 'The office of Rose is in Lisbon.';
const OTHER = 'The archive of Rose moves on Monday.';
const CALL_TIMEOUT_MS = 240_000;

async function startTwo() {
  const rig = await startGuarded('auth: { mode: team }\nagents: { roster: [{ name: scout }, { name: rose }] }\n');
  const rose = (await rig.makeToken({ role: 'admin', agent: 'rose' })).token;
  const ask = (method: string, path: string, token: string, body?: unknown) => rig.ask(method, rig.daemonUrl + path, token, body);
  return { rig, rose, ask };
}

/** A tool of MCP, by the token's own caller. */
async function useTool(rig: AuthRig, token: string, name: string, args: object): Promise<unknown> {
  const request = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } };
  const answer = await rig.ask('POST', `${rig.daemonUrl}/mcp`, token, request, { accept: 'application/json, text/event-stream' });
  return answer.body.result?.isError;
}

test.each(['agent', 'operator', 'admin'] as const)(
  'role %s of one agent changes no memory that another agent shares, by any route',
  async (role) => {
    const { rig, rose, ask } = await startTwo();
    const scout = (await rig.makeToken({ role, agent: 'scout' })).token;
    const remember = async (content: string) => (await ask('POST', '/api/memory/remember', rose, { content, scope: 'global' })).body.id;
    const id = await remember(TEXT);
    const gone = await remember(OTHER);
    const document = { source: 'rose.md', content: '# Rose\n\nThe harbour of Rose opens at nine.', scope: 'global' };
    const pieces: string[] = (await ask('POST', '/api/documents', rose, document)).body.ids;
    expect((await ask('DELETE', `/api/memory/${gone}?reason=test`, rose)).status).toBe(200);
    const state = async () => ({
      memories: await Promise.all([id, ...pieces].map(async (each) => (await ask('GET', `/api/memory/${each}`, rig.localToken)).body)),
      history: await Promise.all(
        [id, gone, ...pieces].map(
          async (each) => (await ask('GET', `/api/memory/${each}/history?agentId=rose`, rig.localToken)).body.history,
        ),
      ),
      forgotten: (await ask('GET', '/api/memories?forgotten=true&agentId=rose', rig.localToken)).body.memories.filter(
        (memory: { agentId: string }) => memory.agentId === 'rose',
      ),
      documents: (await ask('GET', '/api/documents', rose)).body.documents,
    });
    const before = await state();
    expect(before.memories.map(({ agentId }) => agentId)).toEqual([id, ...pieces].map(() => 'rose'));

    const reason = 'test';
    const attacks: [string, string, object?][] = [
      ['PATCH', `/api/memory/${id}`, { reason, content: 'mine' }],
      ['PATCH', `/api/memory/${id}`, { reason, pinned: true, importance: 0 }],
      ['POST', '/api/memory/modify', { id, reason, content: 'mine' }],
      [
        'POST',
        '/api/memory/modify',
        { patches: [{ id, reason, content: 'mine' }, ...pieces.map((each) => ({ id: each, reason, tags: ['x'] }))] },
      ],
      ['DELETE', `/api/memory/${id}?reason=test&force=true`],
      ['DELETE', `/api/memory/${pieces[0]}?reason=test&force=true`],
      ['POST', '/api/memory/forget', { id, reason, force: true, mode: 'execute' }],
      ['POST', '/api/memory/forget', { ids: [id, ...pieces], reason, force: true, mode: 'execute' }],
      ['POST', '/api/memory/forget', { query: 'office of Rose in Lisbon', reason, force: true, mode: 'execute' }],
      ['POST', '/api/memory/forget', { scope: 'global', reason, force: true, mode: 'execute' }],
      ['POST', `/api/memory/${gone}/recover`, { reason }],
      ['POST', '/api/memory/remember', { content: 'The office of Rose is in Porto.', supersedes: id, scope: 'global' }],
      ['POST', '/api/memory/save', { content: 'The office of Rose is in Faro.', supersedes: id, scope: 'global' }],
      ['POST', '/api/hooks/remember', { harness: 'test', content: 'The office of Rose is in Evora.', supersedes: id }],
      ['POST', '/api/memory/remember', { content: 'The office of Rose is in Braga now, no longer in Lisbon.', scope: 'global' }],
      ['POST', '/api/memory/remember', { content: TEXT, scope: 'global', importance: 0, pinned: true, tags: ['x'] }],
      ['POST', '/api/memory/feedback', { sessionKey: 'scout-1', feedback: { [id]: -1 } }],
      ['POST', '/api/memories/import', { memories: [{ ...before.memories[0], content: 'mine', history: [] }], conflict: 'overwrite' }],
      ['POST', '/api/documents', { ...document, content: '# Rose\n\nThe harbour is closed.' }],
      ['DELETE', '/api/documents?source=rose.md'],
    ];
    for (const [method, path, body] of attacks) {
      const answer = await ask(method, path, scout, body);
      expect([method, path, answer.status < 500, answer.body]).toEqual([method, path, true, answer.body]);
    }
    const tools: [string, object][] = [
      ['memory_modify', { id, reason, content: 'mine' }],
      ['memory_forget', { id, reason, force: true }],
      ['memory_feedback', { session_key: 'scout-1', ratings: { [id]: -1 } }],
    ];
    for (const [name, args] of tools) await useTool(rig, scout, name, args);
    expect(await state()).toEqual(before);
    // The same by its owner does change it: what was sent is what the routes take.
    expect((await ask('PATCH', `/api/memory/${id}`, rose, { reason, content: 'The office of Rose is in Porto.' })).status).toBe(200);
    expect((await ask('POST', `/api/memory/${gone}/recover`, rose, { reason })).status).toBe(200);
    expect((await ask('POST', '/api/memory/forget', rose, { id, reason, mode: 'execute' })).status).toBe(200);
  },
  CALL_TIMEOUT_MS,
);

test('an agent that floods loses messages of its own, and pushes out none that wait for others', async () => {
  const rig = await startGuarded(
    'auth: { mode: team }\nagents: { roster: [{ name: scout }, { name: rose }, { name: dot }] }\ncrossAgent: { messagesMax: 50 }\n',
  );
  const tokens: Record<string, string> = {};
  for (const agent of ['scout', 'rose', 'dot']) tokens[agent] = (await rig.makeToken({ role: 'agent', agent })).token;
  const send = (from: string, body: object) => rig.ask('POST', `${rig.daemonUrl}/api/cross-agent/messages`, tokens[from], body);
  const inbox = async (of: string): Promise<{ fromAgentId: string; content: string }[]> =>
    (await rig.ask('GET', `${rig.daemonUrl}/api/cross-agent/messages?limit=500`, tokens[of])).body.items;
  const waiting = Array.from({ length: 12 }, (_, index) => `letter ${index}`);
  for (const content of waiting) expect((await send('rose', { content, toAgentId: 'dot' })).status).toBeLessThan(300);
  for (let index = 0; index < 200; index += 1) {
    const target = index % 2 === 0 ? { toAgentId: 'dot' } : { broadcast: true };
    expect((await send('scout', { content: `noise ${index}`, ...target })).status).toBeLessThan(300);
  }
  // Nor does it help to give another name.
  expect((await send('scout', { content: 'noise', toAgentId: 'dot', fromAgentId: 'rose' })).status).toBe(403);
  const came = await inbox('dot');
  expect(
    came
      .filter(({ fromAgentId }) => fromAgentId === 'rose')
      .map(({ content }) => content)
      .reverse(),
  ).toEqual(waiting);
  const noise = came.filter(({ fromAgentId }) => fromAgentId === 'scout');
  expect([came.length <= 50, noise[0]?.content]).toEqual([true, 'noise 199']);
});
