import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { ToolClass } from '../../src/contract/tool.ts';
import { startCallbackServer } from '../helpers/callback-server.ts';
import { startModelServer } from '../helpers/model-server/server.ts';
import { MortalDaemon } from './kill-daemon.ts';
import { KillLedger } from './kill-ledger.ts';
import { wireEnvironment } from './rig.ts';

const YAML = 'runtime: { limits: { backoffMs: 5 } }\n';
const TOOLS: readonly ToolClass[] = ['pure', 'idempotent', 'unsafe'];
/** Tools answer within this, and processes live up to that; unit: milliseconds. */
const TOOL_MS_MAX = 30;
const LIFE_MS_MAX = 1_500;
/** What each session's prompts wait for each other, so that the log of a run stays readable; unit: milliseconds. */
const THINK_MS_MAX = 300;

export interface Crowd {
  readonly sessions: number;
  readonly kills: number;
  readonly random: () => number;
}

export interface CrowdResult {
  readonly lives: number;
  readonly prompts: number;
  readonly signals: number;
  readonly toolCalls: number;
}

/**
 * Many sessions ask one prompt after the other, each turn with tools in parallel, while the daemon is killed at random moments again and again.
 *
 * @throws when anything that was acknowledged, written or done is lost, doubled or done again
 */
export async function runKillCrowd({ sessions, kills, random }: Crowd): Promise<CrowdResult> {
  const folder = mkdtempSync(join(tmpdir(), 'signet-kill-crowd-'));
  const ledger = new KillLedger(folder);
  const model = await startModelServer({ record: false });
  model.respond(({ body }) => {
    const last = JSON.stringify((body.messages as unknown[]).at(-1));
    if (last.includes('tool_result')) return { text: 'It is done, and well.', chunks: 4, delayMs: 2 };
    return { text: 'Let me act.', toolCalls: TOOLS.map((toolClass) => ({ name: `act_${toolClass}`, input: {} })) };
  });
  const tools = await startCallbackServer(({ body }, response) => {
    ledger.called(String(body.name).slice('act_'.length) as ToolClass, String(body.callKey));
    const answer = () => response.writeHead(200, { 'content-type': 'application/json' }).end('{"output":"acted"}');
    setTimeout(answer, random() * TOOL_MS_MAX);
  });
  const env = { ...wireEnvironment('anthropic', model.url), SIGNET_LOG_LEVEL: 'error' };
  const daemon = new MortalDaemon({ folder, yaml: YAML, env, killAt: [], onDeath: ledger.readFiles });
  try {
    for (const toolClass of TOOLS) {
      const tool = { name: `act_${toolClass}`, description: 'acts', inputSchema: { type: 'object' }, class: toolClass };
      await daemon.call((client) => client.tools.register({ ...tool, callback: { url: tools.origin } }));
    }
    const going = { on: true };
    const ids = Array.from({ length: sessions }, (_, index) => `ses_crowd_${index}`);
    const asking = ids.map((id) => converse(daemon, ledger, id, going, random));
    for (let kill = 0; kill < kills; kill += 1) {
      await Promise.race([pause(random() * LIFE_MS_MAX), Promise.all(asking)]);
      await daemon.kill();
    }
    going.on = false;
    const prompts = await Promise.all(asking);
    for (const [index, id] of ids.entries()) await daemon.call((client) => ledger.expectKept(client, id, prompts[index]!));
    const { lives } = daemon;
    await daemon.stop();
    ledger.readFiles();
    ledger.expectNoFaults();
    return { lives, prompts: prompts.flat().length, signals: ledger.signals, toolCalls: ledger.toolCalls };
  } finally {
    await daemon.stop().catch(() => undefined);
    await model.close();
    await tools.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Asks until told otherwise. @returns the ids of its prompts, each answered */
async function converse(
  daemon: MortalDaemon,
  ledger: KillLedger,
  id: string,
  going: { readonly on: boolean },
  random: () => number,
): Promise<string[]> {
  await daemon.call((client) => client.session.create({ id }));
  const prompts: string[] = [];
  while (going.on) {
    const promptId = `p${prompts.length}`;
    prompts.push(promptId);
    // Half of them are only accepted at first: what was accepted must be kept as well.
    if (random() < 0.5) {
      await daemon.call((client) => client.session.promptAsync(id, { content: 'Act.', promptId }));
      ledger.acknowledged(id, promptId);
    }
    await daemon.call((client) => client.session.prompt(id, { content: 'Act.', promptId }));
    ledger.answered(id, promptId);
    await pause(random() * THINK_MS_MAX);
  }
  return prompts;
}
