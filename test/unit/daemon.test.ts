import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import { startDaemon, tempFolder } from '../helpers/daemon-fixture.ts';

describe('remember', () => {
  test('reads prefixes, infers the type and takes tags in both forms', async () => {
    const daemon = startDaemon();
    expect(await daemon.call(ops.remember, { content: 'critical: [ops, db]: never drop the table', tags: ['x', 'db'] })).toMatchObject({
      content: 'never drop the table',
      type: 'rule',
      pinned: true,
      importance: 1,
      tags: 'x,db,ops',
      agentId: 'default',
      scope: 'global',
      who: 'default',
      source_type: 'manual',
      embedded: false,
      success: true,
    });
    expect(await daemon.call(ops.remember, { content: 'we agreed on SQLite', tags: 'a, b' })).toMatchObject({
      type: 'decision',
      tags: 'a,b',
    });
    expect(await daemon.call(ops.remember, { content: 'critical:' })).toMatchObject({ content: 'critical:', pinned: false });
  });

  test('createdAt back-dates', async () => {
    const daemon = startDaemon();
    const answer = await daemon.call(ops.remember, { content: 'old', createdAt: '2020-01-02T03:04:05+01:00' });
    expect(answer).toMatchObject({ created_at: '2020-01-02T02:04:05.000Z', updated_at: '2025-03-03T12:00:00.000Z' });
  });

  test('scope and visibility are one field', async () => {
    const daemon = startDaemon();
    const write = (input: object) => daemon.call(ops.remember, { content: 'x', ...input });
    expect(await write({ visibility: 'private', agentId: 'dot' })).toMatchObject({ scope: 'private', agentId: 'dot' });
    for (const input of [{ scope: 'private' }, { scope: 'archived' }, { scope: 'global', visibility: 'private', agentId: 'dot' }]) {
      await expect(write(input)).rejects.toMatchObject({ code: 'invalid_request' });
    }
  });

  test('the header names the agent when the body does not', async () => {
    const daemon = startDaemon();
    const dot = { headers: { 'x-signet-agent-id': 'dot' } };
    await daemon.call(ops.remember, { content: 'heron', scope: 'private' }, dot);
    expect((await daemon.call(ops.recall, { query: 'heron' }, dot)).count).toBe(1);
    expect((await daemon.call(ops.recall, { query: 'heron' })).count).toBe(0);
    const bad = { headers: { 'x-signet-agent-id': '../dot' } };
    await expect(daemon.call(ops.recall, { query: 'heron' }, bad)).rejects.toMatchObject({ code: 'invalid_request' });
  });
});

describe('modify and forget', () => {
  test('one by id: faults are thrown', async () => {
    const daemon = startDaemon();
    const { id } = await daemon.call(ops.remember, { content: 'tea' });
    expect(await daemon.call(ops.modifyMemory, { id, reason: 'better', content: 'green tea' })).toMatchObject({
      total: 1,
      updated: 1,
      success: true,
      results: [{ id, status: 'updated', newVersion: 2 }],
    });
    expect(await daemon.call(ops.forgetMemory, { id, reason: 'wrong' })).toMatchObject({ mode: 'execute', deleted: 1, success: true });
    await expect(daemon.call(ops.forgetMemory, { id, reason: 'wrong' })).rejects.toMatchObject({ code: 'memory_deleted' });
    await expect(daemon.call(ops.getMemory, { id })).rejects.toMatchObject({ code: 'memory_not_found' });
    expect((await daemon.call(ops.recall, { query: 'tea' })).count).toBe(0);
  });

  test('many: each item stands for itself', async () => {
    const daemon = startDaemon();
    const a = await daemon.call(ops.remember, { content: 'a tea' });
    const b = await daemon.call(ops.remember, { content: 'b tea' });
    const answer = await daemon.call(ops.modifyMemory, {
      reason: 'tidy',
      patches: [
        { id: a.id, importance: 0.9 },
        { id: b.id, importance: 9 },
        { id: 'nobody', importance: 0.1 },
        { id: b.id, content: 'A tea!' },
      ],
    });
    expect(answer).toMatchObject({ total: 4, updated: 1, success: false });
    expect(answer.results.map((item) => item.status)).toEqual(['updated', 'invalid_request', 'memory_not_found', 'duplicate_content_hash']);
  });

  test('a list is shown first, and deleted on execute; pinned ones want force', async () => {
    const daemon = startDaemon();
    const a = await daemon.call(ops.remember, { content: 'tea' });
    const b = await daemon.call(ops.remember, { content: 'cake', pinned: true });
    const ids = [a.id, b.id, a.id];
    expect(await daemon.call(ops.forgetMemory, { ids })).toMatchObject({ mode: 'preview', requested: 2, deleted: 0, success: true });
    const answer = await daemon.call(ops.forgetMemory, { ids, mode: 'execute', reason: 'done' });
    expect(answer).toMatchObject({ requested: 2, deleted: 1, success: false });
    expect(answer.results.map((item) => item.status)).toEqual(['deleted', 'memory_pinned']);
    expect(await daemon.call(ops.deleteMemory, { id: b.id, reason: 'done', force: 'true' })).toMatchObject({ status: 'deleted' });
  });

  test('what is missing is named', async () => {
    const daemon = startDaemon();
    for (const [call, pointer] of [
      [daemon.call(ops.modifyMemory, {}), '/patches'],
      [daemon.call(ops.modifyMemory, { id: 'x' }), '/reason'],
      [daemon.call(ops.forgetMemory, {}), '/ids'],
      [daemon.call(ops.forgetMemory, { id: 'x' }), '/reason'],
    ] as const) {
      await expect(call).rejects.toMatchObject({ code: 'invalid_request', errors: [{ pointer }] });
    }
  });
});

describe('status', () => {
  test('health and status count what is there', async () => {
    const daemon = startDaemon({ 'agent.yaml': 'agent: {name: !odd x}' });
    await daemon.call(ops.remember, { content: 'tea' });
    await daemon.call(ops.hookSessionStart, { sessionKey: 'k' });
    await daemon.call(ops.setBypass, { key: 'k', enabled: true });
    daemon.clock.ms += 5_000;
    expect(await daemon.call(ops.daemonHealth, {})).toMatchObject({ status: 'healthy', db: true, uptime: 5, agentsDir: daemon.folder });
    expect(await daemon.call(ops.daemonStatus, {})).toMatchObject({
      memories: 1,
      activeSessions: 1,
      bypassedSessions: 1,
      memoryDb: join(daemon.folder, 'data', 'memory.db'),
      config: { file: join(daemon.folder, 'agent.yaml'), problems: ['agent.yaml:1:15 unresolved tag: !odd'] },
    });
    daemon.clock.ms += 4 * 3_600_000;
    expect(await daemon.call(ops.daemonStatus, {})).toMatchObject({ activeSessions: 0 });
  });

  test('no secret leaves with the runtime configuration', async () => {
    const daemon = startDaemon({
      'agent.yaml': `
runtime:
  default: a
  providers:
    a: {kind: openai, apiKey: sk-secret, apiKeyEnv: MY_KEY, headers: {authorization: sk-secret}}
  mcpServers:
    files: {command: mcp-files, env: {TOKEN: sk-secret}}
`,
    });
    const answer = await daemon.call(ops.runtimeConfig, {});
    expect(JSON.stringify(answer)).not.toContain('sk-secret');
    expect(answer).toMatchObject({
      default: 'a',
      providers: { a: { apiKeyEnv: 'MY_KEY' } },
      mcpServers: { files: { command: 'mcp-files' } },
    });
  });

  test('agents: the default one, the roster, and those with a folder', async () => {
    const daemon = startDaemon({
      'agent.yaml': 'agents: {roster: [{name: dot, model: m}]}',
      'agents/dot/SOUL.md': '',
      'agents/rose/SOUL.md': '',
      'agents/Not A Name/SOUL.md': '',
    });
    expect(await daemon.call(ops.listAgents, {})).toMatchObject({
      agents: [
        { name: 'default', source: 'built-in' },
        { name: 'dot', model: 'm', source: 'roster' },
        { name: 'rose', source: 'folder' },
      ],
      count: 3,
      problems: [expect.stringContaining('agents/Not A Name is no agent')],
    });
  });

  test('a damaged store keeps the daemon from opening', () => {
    const folder = tempFolder();
    mkdirSync(join(folder, 'data'));
    writeFileSync(join(folder, 'data', 'memory.db'), 'x'.repeat(8_192));
    expect(() => startDaemon({}, folder)).toThrow(expect.objectContaining({ code: 'storage_corrupt' }));
  });
});
