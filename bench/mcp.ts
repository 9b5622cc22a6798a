/** What a request over MCP costs the daemon, beside the same work asked for directly. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDaemon } from './rig/child-process.ts';
import { report } from './rig/figure.ts';
import { postJson } from './rig/http-client.ts';
import { Dice, writeMemories } from './rig/memories.ts';
import { cpuMs, median } from './rig/process-usage.ts';

const MEMORIES = 1_000;
const QUERY_WORDS = 4;
/** Calls that are counted together; CPU time comes in steps of 10 ms. */
const CALLS = 500;
/** Such groups, of which the median is told: a collection of garbage falls into one of them. */
const ROUNDS = 5;
const LIST_CPU_MS_MAX = 1.5;
const SEARCH_EXTRA_CPU_MS_MAX = 1;

const folder = mkdtempSync(join(tmpdir(), 'signet-mcp-bench-'));
await writeMemories(folder, MEMORIES);
const daemon = await startDaemon({ folder });
const { port } = JSON.parse(readFileSync(join(folder, '.daemon', 'daemon.json'), 'utf8')) as { port: number };
const url = `http://127.0.0.1:${port}`;
const dice = new Dice(5);

const recall = await cpuOf(() => postJson(`${url}/api/memory/recall`, { query: dice.words(QUERY_WORDS), limit: 10 }));
const search = await cpuOf(() => rpc('tools/call', { name: 'memory_search', arguments: { query: dice.words(QUERY_WORDS), limit: 10 } }));
const ways = `${MEMORIES} memories`;
report({ name: 'MCP tools/list', value: await cpuOf(() => rpc('tools/list')), unit: 'ms CPU', atMost: LIST_CPU_MS_MAX });
report({ name: 'recall over HTTP', value: recall, unit: 'ms CPU', note: ways });
report({ name: 'MCP memory_search', value: search, unit: 'ms CPU', note: ways });
report({ name: 'MCP memory_search over a recall', value: search - recall, unit: 'ms CPU', atMost: SEARCH_EXTRA_CPU_MS_MAX });
await daemon.close();
rmSync(folder, { recursive: true, force: true });

function rpc(method: string, params: object = {}): Promise<unknown> {
  return postJson(`${url}/mcp`, { jsonrpc: '2.0', id: 1, method, params });
}

/** CPU of one call: the median over rounds of the mean of many, the first round left out. */
async function cpuOf(call: () => Promise<unknown>): Promise<number> {
  const rounds: number[] = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    const before = cpuMs(daemon.pid);
    for (let number = 0; number < CALLS; number += 1) await call();
    if (round > 0) rounds.push((cpuMs(daemon.pid) - before) / CALLS);
  }
  return median(rounds);
}
