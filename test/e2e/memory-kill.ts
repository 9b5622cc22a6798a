import { expect } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';

/** Connections that remember all the time. */
const CONNECTIONS = 16;
/** Acknowledged memories after which the process is killed; the next count is another one. */
const KILL_AFTER = [40, 75, 130, 61, 98];
const READY_POLL_MS = 20;
const DEADLINE_MS = 30_000;

/** Kill the daemon `times` times while it remembers, and look each time whether every acknowledged memory is there, and is found. */
export async function killWhileRemembering(folder: string, times: number): Promise<void> {
  const acknowledged = new Map<string, string>();
  for (let kill = 0; kill < times; kill += 1) {
    const signet = await startSignetProcess({ folder });
    try {
      await checkAll(signet, acknowledged);
      await rememberUntil(signet, kill, KILL_AFTER[kill % KILL_AFTER.length]!, acknowledged);
    } finally {
      await signet.kill();
    }
  }
  const signet = await startSignetProcess({ folder });
  try {
    await checkAll(signet, acknowledged);
  } finally {
    await signet.close();
  }
}

async function rememberUntil(signet: SignetProcess, kill: number, count: number, acknowledged: Map<string, string>): Promise<void> {
  let done = 0;
  const lanes = Array.from({ length: CONNECTIONS }, async (_, lane) => {
    for (let number = 0; done < count; number += 1) {
      const content = `walrus k${kill} l${lane} n${number}`;
      const memory = await signet.daemon.call(ops.remember, { content }).catch(() => undefined);
      if (!memory) return;
      acknowledged.set(memory.id, content);
      done += 1;
      // In the middle of the writes of the others.
      if (done === count) void signet.kill();
    }
  });
  await Promise.all(lanes);
}

async function checkAll({ daemon }: SignetProcess, acknowledged: ReadonlyMap<string, string>): Promise<void> {
  const status = await ready(daemon);
  const page = await daemon.call(ops.listMemories, { limit: 1 });
  expect(status.index.memories).toBe(page.total);
  expect(page.total).toBeGreaterThanOrEqual(acknowledged.size);
  const latest = [...acknowledged].slice(-KILL_AFTER[0]!);
  for (const [id, content] of latest) {
    expect(await daemon.call(ops.getMemory, { id })).toMatchObject({ content });
    expect((await daemon.call(ops.recall, { query: content, limit: 1 })).results[0]?.id).toBe(id);
  }
}

async function ready(daemon: SignetProcess['daemon']) {
  for (const end = performance.now() + DEADLINE_MS; ; ) {
    const status = await daemon.call(ops.daemonStatus, {});
    if (status.index.state === 'ready') return status;
    if (performance.now() > end) throw new Error('the index did not become ready');
    await new Promise((resolve) => setTimeout(resolve, READY_POLL_MS));
  }
}
