import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import type { ToolClass } from '../../src/contract/tool.ts';
import { isAppError } from '../../src/core/errors.ts';
import { startCallbackServer } from '../helpers/callback-server.ts';
import { MARK_TOOLS, startMarkServer } from '../helpers/mark-server.ts';
import { startModelServer } from '../helpers/model-server/server.ts';
import type { ProcessLimits } from '../helpers/process-limits.ts';
import { openReaders, type Readers } from '../helpers/readers.ts';
import { MortalDaemon } from './kill-daemon.ts';
import { KillLedger } from './kill-ledger.ts';
import { payloads, wireEnvironment } from './rig.ts';

const YAML = 'runtime: { limits: { backoffMs: 5 }, mcpServers: { marks: { url: "$MARKS" } } }\n';
const CLASSES: readonly ToolClass[] = ['pure', 'idempotent', 'probe', 'unsafe'];
/** Longest time a tool takes and a process lives; unit: milliseconds. */
const TOOL_MS_MAX = 30;
const LIFE_MS_MAX = 1_500;
/** Longest wait of an MCP server before it answers `initialize`; unit: milliseconds. */
const MCP_CONNECT_MS_MAX = 800;
/** Pause between two prompts of a session, so that the log of a run stays readable; unit: milliseconds. */
const THINK_MS_MAX = 300;
/** Share of the kills after which the late tools are registered. */
const LATE_AFTER = 0.1;
/** Agents of each workflow: one, then two at once, then one for each of them. */
const agent = (name: string, activateOn: string[]) => ({
  name,
  activateOn,
  prompt: `I am ${name}.`,
  emits: [`${name}:done`],
  updates: name,
  tools: [],
});
const WORKFLOW = {
  agents: [
    agent('first', ['workflow:start']),
    agent('left', ['first:done']),
    agent('right', ['first:done']),
    agent('last', ['left:done', 'right:done']),
  ],
};
const ACTIVATIONS = ['first', 'last', 'last', 'left', 'right'];

export interface Crowd {
  readonly sessions: number;
  readonly kills: number;
  readonly random: () => number;
  /** Workflows under way at any time. */
  readonly workflows?: number;
  /** Event streams that are open at any time. */
  readonly readers?: number;
  readonly limits?: ProcessLimits;
  /** Lives are so many times longer: a slow process needs longer to get anywhere. */
  readonly slowness?: number;
}

export interface CrowdResult {
  readonly lives: number;
  readonly prompts: number;
  readonly workflows: number;
  readonly signals: number;
  readonly toolCalls: number;
  /** Calls of each tool that ended with an error code, by `code tool`. */
  readonly errors: Readonly<Record<string, number>>;
  /** Answers to readers: status → times. */
  readonly reads: Readonly<Record<string, number>>;
}

/**
 * Many sessions ask one prompt after the other, each turn with tools of all classes in parallel, some of them registered late and some of an MCP
 * server that is slow to connect, and workflows run beside them, while the daemon is killed at random moments again and again.
 *
 * @throws when anything that was acknowledged, written or done is lost, doubled or done again; when an offered tool was missing; when a workflow failed
 */
export async function runKillCrowd(crowd: Crowd): Promise<CrowdResult> {
  const run = await CrowdRun.open(crowd);
  try {
    return await run.run();
  } finally {
    await run.close();
  }
}

class CrowdRun {
  readonly #crowd: Crowd;
  readonly #folder: string;
  readonly #ledger: KillLedger;
  readonly #daemon: MortalDaemon;
  readonly #servers: readonly { close(): Promise<void> }[];
  readonly #toolsOrigin: string;
  #readers: Readers | undefined;
  #going = true;

  static async open(crowd: Crowd): Promise<CrowdRun> {
    const { random } = crowd;
    const folder = mkdtempSync(join(tmpdir(), 'signet-kill-crowd-'));
    const ledger = new KillLedger(folder);
    const model = await startModelServer({ record: false });
    model.respond(({ body }) => {
      const text = JSON.stringify(body.messages);
      const role = /I am (\w+)\./.exec(text)?.[1];
      if (role !== undefined) return { text: role };
      if (JSON.stringify((body.messages as unknown[]).at(-1)).includes('tool_result'))
        return { text: 'It is done, and well.', chunks: 4, delayMs: 2 };
      return { text: 'Let me act.', toolCalls: calledTools(body.tools as { name: string }[] | undefined) };
    });
    const tools = await startCallbackServer(({ body }, response) => {
      ledger.called(classIn(String(body.name)), String(body.callKey));
      const answer = () => response.writeHead(200, { 'content-type': 'application/json' }).end('{"output":"acted"}');
      setTimeout(answer, random() * TOOL_MS_MAX);
    });
    const marks = await startMarkServer({
      called: (name, callKey) => ledger.called(classIn(name), callKey),
      connectMs: () => random() * MCP_CONNECT_MS_MAX,
      callMs: () => random() * TOOL_MS_MAX,
    });
    const daemon = new MortalDaemon({
      folder,
      yaml: YAML.replace('$MARKS', marks.url),
      env: { ...wireEnvironment('anthropic', model.url), SIGNET_LOG_LEVEL: 'error' },
      killAt: [],
      onDeath: ledger.readFiles,
      ...(crowd.limits ? { limits: crowd.limits } : {}),
    });
    return new CrowdRun({ crowd, folder, ledger, daemon, toolsOrigin: tools.origin, servers: [model, tools, marks] });
  }

  private constructor(parts: {
    crowd: Crowd;
    folder: string;
    ledger: KillLedger;
    daemon: MortalDaemon;
    toolsOrigin: string;
    servers: readonly { close(): Promise<void> }[];
  }) {
    this.#crowd = parts.crowd;
    this.#folder = parts.folder;
    this.#ledger = parts.ledger;
    this.#daemon = parts.daemon;
    this.#toolsOrigin = parts.toolsOrigin;
    this.#servers = parts.servers;
  }

  async run(): Promise<CrowdResult> {
    const { sessions, kills, random, workflows = 0, readers = 0, slowness = 1 } = this.#crowd;
    await this.#register('act');
    const ids = Array.from({ length: sessions }, (_, index) => `ses_crowd_${index}`);
    const asking = Promise.all(ids.map((id) => this.#converse(id)));
    const flowing = Promise.all(Array.from({ length: workflows }, (_, index) => this.#flow(index)));
    // A fault ends the run at once; it is thrown where they are awaited.
    const failed = Promise.all([asking, flowing]).catch(() => undefined);
    if (readers > 0) this.#readers = openReaders({ count: readers, url: () => this.#daemon.runtimeUrl(), sessions: ids, random });
    for (let kill = 0; kill < kills; kill += 1) {
      await Promise.race([pause(random() * LIFE_MS_MAX * slowness), failed]);
      if (kill === Math.floor(kills * LATE_AFTER)) await this.#register('late');
      await this.#daemon.kill();
    }
    this.#going = false;
    const [prompts, runs] = await Promise.all([asking, flowing]);
    await this.#readers?.close();
    const errors: Record<string, number> = {};
    for (const [index, id] of ids.entries()) {
      const log = await this.#daemon.call((client) => this.#ledger.expectKept(client, id, prompts[index]!));
      for (const { name, error } of payloads(log, 'tool:result') as { name: string; error?: { code: string } }[])
        if (error) errors[`${error.code} ${name}`] = (errors[`${error.code} ${name}`] ?? 0) + 1;
    }
    await this.#expectTools();
    const { lives } = this.#daemon;
    await this.#daemon.stop();
    this.#ledger.readFiles();
    this.#ledger.expectNoFaults();
    // Late tools are called before they exist; all others only when the turn offered them.
    const missing = Object.keys(errors).filter((key) => /^(tool_not_found|unknown_tool) (?!late_)/.test(key));
    expect(missing, 'offered tools that were missing').toEqual([]);
    const { signals, toolCalls } = this.#ledger;
    const answered = prompts.flat().length;
    return { lives, prompts: answered, workflows: runs.flat().length, signals, toolCalls, errors, reads: this.#readers?.answers ?? {} };
  }

  async close(): Promise<void> {
    this.#going = false;
    await this.#readers?.close();
    await this.#daemon.stop().catch(() => undefined);
    for (const server of this.#servers) await server.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #register(prefix: 'act' | 'late'): Promise<void> {
    for (const toolClass of CLASSES) {
      const name = `${prefix}_${toolClass}`;
      const tool = { name, description: 'acts', inputSchema: { type: 'object' as const }, class: toolClass };
      await this.#daemon
        .call((client) => client.tools.register({ ...tool, callback: { url: this.#toolsOrigin } }))
        // The answer of the first try died with its process.
        .catch((error: unknown) => {
          if (!isAppError(error, 'tool_exists')) throw error;
        });
    }
  }

  /** Every tool that was registered is there again, and so are those of the MCP server. */
  async #expectTools(): Promise<void> {
    const expected = [
      ...CLASSES.flatMap((toolClass) => [`act_${toolClass}`, `late_${toolClass}`]),
      ...MARK_TOOLS.map((name) => `marks_${name}`),
    ];
    await expect
      .poll(
        async () => {
          const { tools } = await this.#daemon.call((client) => client.tools.list());
          const names = new Set(tools.map(({ name }) => name));
          return expected.filter((name) => !names.has(name));
        },
        { timeout: 60_000 },
      )
      .toEqual([]);
  }

  /** Asks until the run ends. @returns the ids of its prompts, each answered */
  async #converse(id: string): Promise<string[]> {
    const { random } = this.#crowd;
    await this.#daemon.call((client) => client.session.create({ id }));
    const prompts: string[] = [];
    while (this.#going) {
      const promptId = `p${prompts.length}`;
      prompts.push(promptId);
      // Half of them are only accepted at first: what was accepted must be kept as well.
      if (random() < 0.5) {
        await this.#daemon.call((client) => client.session.promptAsync(id, { content: 'Act.', promptId }));
        this.#ledger.acknowledged(id, promptId);
      }
      await this.#daemon.call((client) => client.session.prompt(id, { content: 'Act.', promptId }));
      this.#ledger.answered(id, promptId);
      await pause(random() * THINK_MS_MAX);
    }
    return prompts;
  }

  /** Runs one workflow after the other, each to its end. @returns their ids */
  async #flow(index: number): Promise<string[]> {
    const ids: string[] = [];
    while (this.#going) {
      const id = `wfl_crowd_${index}_${ids.length}`;
      ids.push(id);
      await this.#daemon.call((client) => client.workflow.start({ id, ...WORKFLOW }));
      for (;;) {
        const { status } = await this.#daemon.call((client) => client.workflow.get(id));
        if (status === 'ended') break;
        await pause(100);
      }
      const { items: log } = await this.#daemon.call((client) => client.workflow.events(id, { limit: 1_000 }));
      const activated = payloads(log, 'agent:completed').map((payload) => payload.agent);
      expect(log.at(-1), `the end of ${id}`).toMatchObject({ name: 'workflow:end', payload: { reason: 'quiescent' } });
      expect(activated.sort(), `activations of ${id}`).toEqual(ACTIVATIONS);
    }
    return ids;
  }
}

/** What the model calls: late tools always, as one does that remembers them from somewhere; all others when they are offered. */
function calledTools(offered: readonly { name: string }[] = []): { name: string; input: object }[] {
  const late = CLASSES.map((toolClass) => `late_${toolClass}`);
  const names = offered.map(({ name }) => name).filter((name) => /^(act|marks)_/.test(name));
  return [...new Set([...names, ...late])].map((name) => ({ name, input: {} }));
}

/** The class stands at the end of a tool's name. */
function classIn(name: string): ToolClass {
  return CLASSES.find((toolClass) => name.endsWith(toolClass)) ?? 'unsafe';
}
