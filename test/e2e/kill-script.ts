import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import type { ErrorCode } from '../../src/contract/errors.ts';
import { isAppError } from '../../src/core/errors.ts';
import { type CallbackServer, startCallbackServer } from '../helpers/callback-server.ts';
import type { Held } from '../helpers/model-server/gate.ts';
import type { Reply } from '../helpers/model-server/reply.ts';
import type { ModelRequest } from '../helpers/model-server/request.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { MortalDaemon } from './kill-daemon.ts';
import { KillLedger } from './kill-ledger.ts';
import { payloads } from './rig.ts';

const SESSION = 'ses_scripted';
/** A window of 10,000 tokens, of which 8,000 may be used before the conversation is compacted. */
const YAML = `runtime:
  limits: { backoffMs: 5, abortGraceMs: 2000 }
  providers:
    scripted:
      kind: anthropic
      baseUrl: $MODEL
      apiKey: test
      model: scripted
      models: { scripted: { contextTokens: 10000 } }
`;
const FULL_TOKENS = 9_000;
/** The classes of the tools, in the order of the calls; each answers so much later than the one before, so that results come one by one. */
const TOOLS = ['pure', 'idempotent', 'probe', 'unsafe'] as const;
const TOOL_STEP_MS = 12;
/** Between two looks at something the script waits for; unit: milliseconds. */
const LOOK_MS = 10;
/** How long the model server's operator waits for a request before it looks whether the script has ended; unit: milliseconds. */
const OPERATOR_LOOK_MS = 500;

export interface ScriptResult {
  /** Boundaries the last process passed; of a run without a kill, those of the whole script. */
  readonly boundaries: number;
  readonly lives: number;
  readonly signals: number;
  readonly toolCalls: number;
}

/**
 * One session's whole life against the daemon as a process of its own: turns with tools of every class in parallel, an approval, a provider
 * that is busy, a prompt that steers, one that interrupts, one aborted, a queue with a prompt taken back, compactions, the end. The process dies
 * at the given boundaries of its log and is started again; the client goes on with the same ids.
 *
 * @param killAt  per life, the boundary at which it ends (kill-point.ts); [] lets the first one live
 * @throws when anything that was acknowledged, written or done is lost, doubled or done again
 */
export async function runKillScript(killAt: readonly number[]): Promise<ScriptResult> {
  const script = await KillScript.open(killAt);
  try {
    return await script.run();
  } finally {
    await script.close();
  }
}

class KillScript {
  readonly #folder: string;
  readonly #ledger: KillLedger;
  readonly #model: ModelServer;
  readonly #tools: CallbackServer;
  readonly #daemon: MortalDaemon;
  readonly #prompts: string[] = [];
  /** Answers the operator holds back until the script says so, by the name of their prompt. */
  readonly #gates = new Map<string, PromiseWithResolvers<void>>();
  #ended = false;

  static async open(killAt: readonly number[]): Promise<KillScript> {
    const folder = mkdtempSync(join(tmpdir(), 'signet-kill-'));
    const ledger = new KillLedger(folder);
    const model = await startModelServer();
    model.gate();
    const tools = await startCallbackServer(({ body }, response) => {
      const place = TOOLS.findIndex((toolClass) => body.name === `act_${toolClass}`);
      ledger.called(TOOLS[place] ?? 'unsafe', String(body.callKey));
      const answer = JSON.stringify({ output: `${body.name} has acted` });
      setTimeout(() => response.writeHead(200, { 'content-type': 'application/json' }).end(answer), (place + 1) * TOOL_STEP_MS);
    });
    return new KillScript({ folder, ledger, model, tools, killAt });
  }

  private constructor(parts: {
    folder: string;
    ledger: KillLedger;
    model: ModelServer;
    tools: CallbackServer;
    killAt: readonly number[];
  }) {
    const { folder, ledger, model, tools, killAt } = parts;
    this.#folder = folder;
    this.#ledger = ledger;
    this.#model = model;
    this.#tools = tools;
    this.#daemon = new MortalDaemon({
      folder,
      yaml: YAML.replace('$MODEL', model.url),
      env: { SIGNET_PROVIDER: 'scripted', SIGNET_LOG_LEVEL: 'error' },
      killAt,
      onDeath: ledger.readFiles,
    });
  }

  async run(): Promise<ScriptResult> {
    const operator = this.#operate();
    await this.#registerTools();
    await this.#daemon.call((client) => client.session.create({ id: SESSION }));
    await this.#prompt('tools1');
    await this.#approved();
    await this.#prompt('retry');
    await this.#steered();
    await this.#queued();
    await this.#interrupted();
    await this.#aborted();
    await this.#prompt('full');
    await this.#prompt('tools2');
    await this.#compacted();
    await this.#prompt('tools3');
    await this.#prompt('tools4');
    await this.#daemon.call((client) => client.session.end(SESSION));
    const result = await this.#check();
    this.#ended = true;
    await operator;
    return result;
  }

  async close(): Promise<void> {
    this.#ended = true;
    await this.#daemon.stop().catch(() => undefined);
    await this.#model.close();
    await this.#tools.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #check(): Promise<ScriptResult> {
    const log = await this.#daemon.call((client) => this.#ledger.expectKept(client, SESSION, this.#prompts));
    const boundaries = await this.#daemon.stop();
    this.#ledger.readFiles();
    this.#ledger.expectNoFaults();
    // What the script is for did happen.
    const names = new Set(log.map(({ name }) => name));
    for (const name of ['tool:approval:resolved', 'harness:retry', 'turn:steered', 'turn:cancel', 'prompt:cancelled', 'session:ended'])
      expect(names).toContain(name);
    expect(payloads(log, 'compaction:complete').length).toBeGreaterThanOrEqual(2);
    return { boundaries, lives: this.#daemon.lives, signals: log.length, toolCalls: this.#ledger.toolCalls };
  }

  async #registerTools(): Promise<void> {
    for (const [name, toolClass] of [...TOOLS.map((one) => [`act_${one}`, one] as const), ['ask', 'unsafe'] as const]) {
      await this.#daemon.call((client) =>
        client.tools.register({
          name,
          description: name,
          inputSchema: { type: 'object' },
          class: toolClass,
          needsApproval: name === 'ask',
          callback: { url: this.#tools.origin },
        }),
      );
    }
  }

  /** Sent and answered. */
  async #prompt(name: string): Promise<void> {
    await this.#daemon.call((client) => client.session.prompt(SESSION, this.#body(name)));
    this.#ledger.answered(SESSION, name);
  }

  /** Sent; its turn goes on by itself. */
  async #submit(name: string, delivery?: 'steer' | 'interrupt'): Promise<void> {
    await this.#daemon.call((client) => client.session.promptAsync(SESSION, { ...this.#body(name), ...(delivery ? { delivery } : {}) }));
    this.#ledger.acknowledged(SESSION, name);
  }

  #body(name: string): { content: string; promptId: string } {
    if (!this.#prompts.includes(name)) this.#prompts.push(name);
    return { content: `Go on. #${name}`, promptId: name };
  }

  async #approved(): Promise<void> {
    await this.#submit('approve');
    await this.#until(async () => (await this.#daemon.call((client) => client.approvals.list())).items.length > 0);
    await this.#unless(['approval_decided'], (client) => client.approvals.decide(SESSION, 'call_ask', 'once'));
    await this.#settled('approve');
  }

  async #steered(): Promise<void> {
    const gate = this.#hold('steered');
    await this.#submit('steered');
    await this.#submit('steer', 'steer');
    gate.resolve();
    await this.#settled('steered');
    await this.#settled('steer');
  }

  async #queued(): Promise<void> {
    const gate = this.#hold('first');
    await this.#submit('first');
    await this.#submit('second');
    await this.#submit('third');
    await this.#unless(['prompt_not_queued'], (client) => client.session.cancelPrompt(SESSION, 'third'));
    gate.resolve();
    await this.#settled('second');
  }

  async #interrupted(): Promise<void> {
    this.#hold('left');
    await this.#submit('left');
    await this.#submit('instead', 'interrupt');
    await this.#settled('instead');
  }

  async #aborted(): Promise<void> {
    this.#hold('stopped');
    await this.#submit('stopped');
    await this.#until(async () => {
      await this.#daemon.call((client) => client.session.abort(SESSION));
      return !(await this.#runs('stopped'));
    });
  }

  async #compacted(): Promise<void> {
    await this.#unless(['nothing_to_compact', 'turn_open'], (client) => client.session.compact(SESSION));
    await this.#daemon.call((client) => client.session.wait(SESSION));
  }

  /** A command that was taken before its answer was lost is refused the second time, with one of `codes`. */
  async #unless(codes: readonly ErrorCode[], command: Parameters<MortalDaemon['call']>[0]): Promise<void> {
    await this.#daemon.call(command).catch((error: unknown) => {
      if (this.#daemon.lives === 1 || !codes.some((code) => isAppError(error, code))) throw error;
    });
  }

  #hold(name: string): PromiseWithResolvers<void> {
    const gate = Promise.withResolvers<void>();
    this.#gates.set(name, gate);
    return gate;
  }

  async #runs(name: string): Promise<boolean> {
    const { status } = await this.#daemon.call((client) => client.session.getPrompt(SESSION, name));
    return status === 'queued' || status === 'running';
  }

  async #settled(name: string): Promise<void> {
    await this.#until(async () => !(await this.#runs(name)));
  }

  async #until(holds: () => Promise<boolean>): Promise<void> {
    while (!(await holds())) await pause(LOOK_MS);
  }

  /** Answers the model calls, each by what its conversation asks for: a call that is made again gets the same answer. */
  async #operate(): Promise<void> {
    while (!this.#ended) {
      const held = await this.#model.next(OPERATOR_LOOK_MS).catch(() => null);
      if (held) void this.#answer(held);
    }
  }

  async #answer(held: Held): Promise<void> {
    const { prompt, rounds } = asked(held.request);
    await this.#gates.get(prompt)?.promise;
    held.reply(replyTo(held.request, prompt, rounds));
  }
}

/** The prompt that is being answered, and how many rounds of tool results came since. */
function asked({ body }: ModelRequest): { prompt: string; rounds: number } {
  let prompt = '';
  let rounds = 0;
  for (const message of body.messages as unknown[]) {
    const text = JSON.stringify(message);
    const named = [...text.matchAll(/#(\w+)/g)].at(-1)?.[1];
    if (text.includes('tool_result')) rounds += 1;
    // What steers a turn is part of it.
    if (named === undefined || named === 'steer') continue;
    prompt = named;
    rounds = 0;
  }
  return { prompt, rounds };
}

function replyTo(request: ModelRequest, prompt: string, rounds: number): Reply {
  if (JSON.stringify(request.body.messages).includes('Summarise this conversation')) return { text: 'Summary: much was done.' };
  if (prompt === 'retry' && String(request.headers['idempotency-key']).endsWith('.a1')) return { fault: { kind: 'status', status: 529 } };
  if (rounds > 0) return { text: 'It is done.' };
  const all = TOOLS.map((toolClass) => ({ id: `call_${prompt}_${toolClass}`, name: `act_${toolClass}`, input: {} }));
  if (prompt === 'approve') return { text: 'May I?', toolCalls: [{ id: 'call_ask', name: 'ask', input: {} }, all[0]!] };
  if (prompt.startsWith('tools') || prompt === 'steered') return { text: 'Let me act.', toolCalls: all };
  return { text: 'So be it.', usage: { inputTokens: prompt === 'full' ? FULL_TOKENS : 100, outputTokens: 5 } };
}
