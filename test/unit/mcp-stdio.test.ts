import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createHttpTransport } from '../../src/client/http-transport.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { createResourceWatch, type Notice } from '../../src/mcp/server-watch.ts';
import { serveStdio } from '../../src/mcp/stdio.ts';
import { serveDaemon } from '../helpers/daemon-server.ts';

const POLL = { timeout: 20_000 };
const INITIALIZE = (version: string) => ({
  jsonrpc: '2.0',
  id: 'init',
  method: 'initialize',
  params: { protocolVersion: version, capabilities: {}, clientInfo: { name: 'test', version: '1' } },
});
const ping = (id: number) => ({ jsonrpc: '2.0', id, method: 'ping' });

/** A server on a pair of pipes, before a real daemon. */
async function open() {
  const daemon = await serveDaemon();
  const stdin = new PassThrough();
  const written: string[] = [];
  const log = silentLogger;
  const ended = serveStdio({
    call: createHttpTransport({ baseUrl: daemon.url }),
    caller: {},
    streams: { stdin, stdout: { write: (text) => written.push(text) } },
    log,
  });
  onTestFinished(() => void stdin.end());
  const answers = () => written.flatMap((text) => text.trimEnd().split('\n')).map((line) => JSON.parse(line));
  const send = async (message: unknown, expected: number) => {
    stdin.write(typeof message === 'string' ? message : `${JSON.stringify(message)}\n`);
    await expect.poll(() => written.length, POLL).toBe(expected);
    return answers().at(-1);
  };
  return { daemon, stdin, send, answers, ended };
}

describe('on a pair of pipes', () => {
  test('a batch of 2025-03-26 is answered by one line, and by a fault in later versions', async () => {
    const { send } = await open();
    await send(INITIALIZE('2025-03-26'), 1);
    expect(await send([ping(1), { jsonrpc: '2.0' }, ping(2)], 2)).toEqual([
      expect.objectContaining({ id: null, error: expect.objectContaining({ code: -32_600 }) }),
      { jsonrpc: '2.0', id: 1, result: {} },
      { jsonrpc: '2.0', id: 2, result: {} },
    ]);
    await send(INITIALIZE('2025-06-18'), 3);
    expect(await send([ping(3)], 4)).toMatchObject({ id: null, error: { code: -32_600 } });
  });

  test('pieces of lines are put together, and several lines of one piece taken one by one', async () => {
    const { stdin, send, answers } = await open();
    stdin.write('{"jsonrpc":"2.0",');
    expect(await send('"id":1,"method":"ping"}\r\n\n', 1)).toMatchObject({ id: 1 });
    await send(`${JSON.stringify(ping(2))}\n${JSON.stringify(ping(3))}\n`, 3);
    expect(answers().map(({ id }) => id)).toEqual([1, 2, 3]);
  });

  test('a line beyond all bounds ends it, in words', async () => {
    const { stdin, answers, ended } = await open();
    stdin.write('x'.repeat(9_000_000));
    await ended;
    expect(answers()).toMatchObject([{ error: { code: -32_600, message: expect.stringContaining('longer than') } }]);
  });

  test('many requests at once are all answered before the end of the input ends it', async () => {
    const { stdin, answers, ended } = await open();
    const calls = Array.from({ length: 150 }, (_, id) => ({ ...ping(id), method: 'tools/call', params: { name: 'memory_list' } }));
    stdin.end(calls.map((message) => `${JSON.stringify(message)}\n`).join(''));
    await ended;
    expect(new Set(answers().map(({ id, result }) => [id, result.isError].join()))).toEqual(new Set(calls.map(({ id }) => `${id},`)));
  });
});

test('whoever listens hears of changed resources of its agent, once, until it stops', async () => {
  const daemon = await serveDaemon({ files: { 'SOUL.md': 'Calm.', 'agents/scout/SOUL.md': 'Bold.' } });
  const watch = createResourceWatch({ call: createHttpTransport({ baseUrl: daemon.url }), log: silentLogger }, 3_600_000);
  const heard: Record<string, Notice[]> = { house: [], scout: [] };
  const stop = [
    watch.add({}, (notice) => heard.house!.push(notice)),
    watch.add({ agentId: 'scout' }, (notice) => heard.scout!.push(notice)),
  ];
  await watch.look();
  writeFileSync(join(daemon.folder, 'SOUL.md'), 'Calmer still.');
  await watch.look();
  await watch.look();
  expect(heard).toEqual({
    house: [{ method: 'notifications/resources/updated', params: { uri: 'signet://agents/default/SOUL.md' } }],
    scout: [],
  });
  rmSync(join(daemon.folder, 'agents', 'scout', 'SOUL.md'));
  writeFileSync(join(daemon.folder, 'USER.md'), 'Ada.');
  stop[0]!();
  await watch.look();
  expect(heard.house).toHaveLength(1);
  expect(heard.scout).toEqual([
    { method: 'notifications/resources/list_changed' },
    { method: 'notifications/resources/updated', params: { uri: 'signet://agents/scout/SOUL.md' } },
  ]);
  stop[1]!();
});
