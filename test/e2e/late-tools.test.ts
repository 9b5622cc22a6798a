import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type CallbackServer, startCallbackServer } from '../helpers/callback-server.ts';
import { MCP_SERVER_COMMAND, type McpHttpServer, type McpTools, startMcpHttpServer } from '../helpers/mcp-server.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';
import { nextSignal, payloads, readLog, wireEnvironment } from './rig.ts';

const YAML = 'runtime: { limits: { backoffMs: 1, drainTimeoutMs: 8000 }, approvals: [{ tool: act, decision: ask }] }\n';

let folder: string;
let model: ModelServer;
let tools: CallbackServer;
let signet: SignetProcess;
let mcp: McpHttpServer | undefined;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signet-late-'));
  model = await startModelServer();
  tools = await startCallbackServer(() => undefined);
  await start();
});
afterEach(async () => {
  await signet.kill();
  await model.close();
  await tools.close();
  await mcp?.close();
  mcp = undefined;
  rmSync(folder, { recursive: true, force: true });
});

async function start(yaml = YAML): Promise<void> {
  signet = await startSignetProcess({ folder, yaml, env: { ...wireEnvironment('anthropic', model.url), SIGNET_LOG_LEVEL: 'info' } });
}

async function killAndRestart(): Promise<void> {
  await signet.kill();
  await start();
}

test('a call to a tool that nobody had registered is unsafe: registered later, it runs once over all restarts', async () => {
  model.script([{ toolCalls: [{ id: 'c1', name: 'act', input: { n: 1 } }] }, { text: 'I see.' }]);
  const { id } = await signet.client.session.create({});
  await signet.client.session.promptAsync(id, { content: 'Act.', promptId: 'p1' });
  await nextSignal(signet.client, id, 'tool:approval:requested');
  const callback = { url: tools.origin };
  await signet.client.tools.register({ name: 'act', description: 'acts', inputSchema: { type: 'object' }, class: 'unsafe', callback });
  await signet.client.approvals.decide(id, 'c1', 'once');
  await expect.poll(() => tools.requests.length, { timeout: 15_000 }).toBe(1);
  await killAndRestart();
  expect(await signet.client.session.prompt(id, { content: 'Act.', promptId: 'p1' })).toMatchObject({ content: 'I see.' });

  expect(tools.requests.length).toBe(1);
  const log = await readLog(signet.client, id);
  expect(payloads(log, 'tool:call')).toMatchObject([{ class: 'unsafe', origin: 'unknown' }]);
  expect(payloads(log, 'tool:result')).toMatchObject([{ error: { code: 'unknown' } }]);
});

test('a log that says pure of a tool nobody knew is not believed', async () => {
  await signet.kill();
  // What is recorded here is what logs of earlier versions hold.
  await start(YAML.replace('limits', 'toolClasses: { act: pure }, limits'));
  model.script([{ toolCalls: [{ id: 'c1', name: 'act', input: { n: 1 } }] }, { text: 'I see.' }]);
  const { id } = await signet.client.session.create({});
  await signet.client.session.promptAsync(id, { content: 'Act.', promptId: 'p1' });
  await nextSignal(signet.client, id, 'tool:approval:requested');
  const callback = { url: tools.origin };
  await signet.client.tools.register({ name: 'act', description: 'acts', inputSchema: { type: 'object' }, class: 'pure', callback });
  await signet.client.approvals.decide(id, 'c1', 'once');
  await expect.poll(() => tools.requests.length, { timeout: 15_000 }).toBe(1);
  await killAndRestart();
  expect(await signet.client.session.prompt(id, { content: 'Act.', promptId: 'p1' })).toMatchObject({ content: 'I see.' });

  const log = await readLog(signet.client, id);
  expect(payloads(log, 'tool:call')).toMatchObject([{ class: 'pure', origin: 'unknown' }]);
  expect(payloads(log, 'tool:result')).toMatchObject([{ error: { code: 'unknown' } }]);
  expect(tools.requests.length).toBe(1);
});

test('a tool that came after it was asked for does not run in a session whose list of tools leaves it out', async () => {
  await signet.kill();
  await start(YAML.replaceAll('act', 'act_*'));
  model.script([{ toolCalls: [{ id: 'c1', name: 'act_now', input: {} }] }, { text: 'I see.' }]);
  const { id } = await signet.client.session.create({ tools: [] });
  await signet.client.session.promptAsync(id, { content: 'Act.', promptId: 'p1' });
  await nextSignal(signet.client, id, 'tool:approval:requested');
  const callback = { url: tools.origin };
  await signet.client.tools.register({ name: 'act_now', description: 'acts', inputSchema: { type: 'object' }, callback });
  await signet.client.approvals.decide(id, 'c1', 'once');
  await signet.client.session.prompt(id, { content: 'Act.', promptId: 'p1' });

  expect(payloads(await readLog(signet.client, id), 'tool:result')).toMatchObject([{ error: { code: 'denied' } }]);
  expect(tools.requests.length).toBe(0);
});

describe('a tool of an MCP server that connects after the restart', () => {
  let calls = 0;
  let port = 0;
  const act = (annotations: McpTools[string]['tool']['annotations'], run: McpTools[string]['run']): McpTools => ({
    act: { tool: { inputSchema: { type: 'object' }, annotations }, run },
  });

  /** A call under way at a server that is gone with the daemon. */
  async function killDuringCall(): Promise<{ id: string; answer: Promise<unknown> }> {
    calls = 0;
    mcp = await startMcpHttpServer(
      0,
      act({ readOnlyHint: true }, () => {
        calls += 1;
        return new Promise(() => {});
      }),
    );
    port = Number(new URL(mcp.url).port);
    await signet.client.tools.register({ mcpServer: 'lab', url: mcp.url });
    model.script([{ toolCalls: [{ id: 'c1', name: 'lab_act', input: {} }] }, { text: 'I see.' }]);
    const { id } = await signet.client.session.create({});
    await signet.client.session.promptAsync(id, { content: 'Act.', promptId: 'p1' });
    await expect.poll(() => calls, { timeout: 15_000 }).toBe(1);
    await signet.kill();
    await mcp.close();
    mcp = undefined;
    await start();
    await expect.poll(() => signet.output(), { timeout: 15_000 }).toContain('a call waits for its tool');
    return { id, answer: signet.client.session.prompt(id, { content: 'Act.', promptId: 'p1' }) };
  }

  const comeBack = async (annotations: McpTools[string]['tool']['annotations']): Promise<void> => {
    const run = () => {
      calls += 1;
      return { content: [{ type: 'text' as const, text: 'acted' }] };
    };
    mcp = await startMcpHttpServer(port, act(annotations, run));
  };

  test('is waited for, and a call that may be repeated is', async () => {
    const { id, answer } = await killDuringCall();
    await comeBack({ readOnlyHint: true });
    expect(await answer).toMatchObject({ content: 'I see.' });
    expect(calls).toBe(2);
    expect(payloads(await readLog(signet.client, id), 'tool:result')).toMatchObject([{ isError: false, output: 'acted' }]);
  });

  test('is waited for, and a call is not repeated when the tool is unsafe now', async () => {
    const { id, answer } = await killDuringCall();
    await comeBack({});
    expect(await answer).toMatchObject({ content: 'I see.' });
    expect(calls).toBe(1);
    expect(payloads(await readLog(signet.client, id), 'tool:result')).toMatchObject([{ error: { code: 'unknown' } }]);
  });
});

test.runIf(process.platform === 'linux')('a server that outlives a killed daemon is ended at the next start', async () => {
  const stubborn = "setInterval(() => {}, 1000); process.on('SIGTERM', () => {}); process.stdin.on('end', () => {});";
  // The server of the tests, in a process that does not end with its input.
  const [script] = MCP_SERVER_COMMAND.args;
  const args = ['--import', `data:text/javascript,${encodeURIComponent(stubborn)}`, script!];
  await signet.client.tools.register({ mcpServer: 'lab', command: MCP_SERVER_COMMAND.command, args });
  const { groups } = JSON.parse(readFileSync(join(folder, '.daemon', 'children.json'), 'utf8'));
  const isAlive = () => existsSync(`/proc/${groups[0].pid}/exe`);
  await signet.kill();
  expect(isAlive()).toBe(true);
  await start();
  expect(isAlive()).toBe(false);
  expect(signet.output()).toContain('a process that the last daemon left behind is ended');
});
