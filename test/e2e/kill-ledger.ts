import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'vitest';
import type { RuntimeClient } from '../../src/client/runtime-client.ts';
import type { Signal } from '../../src/contract/signal.ts';
import type { ToolClass } from '../../src/contract/tool.ts';
import { expectAllPromptsEnded, expectSoundLog } from '../model/log-check.ts';
import { payloads, readLog } from './rig.ts';

/** Classes whose call is never made a second time when its outcome is not known. */
const ONCE: ReadonlySet<ToolClass> = new Set(['unsafe', 'probe']);

/** What was promised to clients and done by tools, beside the log; compared with it at each death and at the end. */
export class KillLedger {
  readonly #folder: string;
  /** Prompts that were answered, if only by 202, as `session promptId`. */
  readonly #acknowledged = new Set<string>();
  /** Prompts whose answer was given, the same way. */
  readonly #answered = new Set<string>();
  /** Calls whose result is in the log, by the key that tools are told. */
  readonly #finished = new Set<string>();
  /** What the log of the last dead process says of prompts. */
  readonly #received = new Set<string>();
  readonly #ended = new Set<string>();
  readonly #calls = new Map<string, number>();
  readonly #logs = new Map<string, Signal[]>();
  readonly #faults: string[] = [];
  #gseq = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  acknowledged(session: string, promptId: string): void {
    this.#acknowledged.add(`${session} ${promptId}`);
  }

  answered(session: string, promptId: string): void {
    this.acknowledged(session, promptId);
    this.#answered.add(`${session} ${promptId}`);
  }

  /** A tool was called. */
  called(toolClass: ToolClass, callKey: string): void {
    const times = (this.#calls.get(callKey) ?? 0) + 1;
    this.#calls.set(callKey, times);
    if (this.#finished.has(callKey)) this.#faults.push(`${callKey} was called again after its result was in the log`);
    if (ONCE.has(toolClass) && times > 1) this.#faults.push(`${callKey}, a tool of class ${toolClass}, was called ${times} times`);
  }

  get toolCalls(): number {
    return this.#calls.size;
  }

  get signals(): number {
    return this.#gseq;
  }

  /** Looks at the files of a dead process: what it acknowledged is there. */
  readonly readFiles = (): void => {
    const db = new DatabaseSync(join(this.#folder, 'data', 'signals.db'), { readOnly: true });
    try {
      const rows = db.prepare('SELECT gseq, body FROM signals WHERE gseq > ? ORDER BY gseq').all(this.#gseq);
      for (const { gseq, body } of rows) this.#take(Number(gseq), String(body));
      for (const prompt of this.#acknowledged) if (!this.#received.has(prompt)) this.#faults.push(`${prompt} was acknowledged and is lost`);
      for (const prompt of this.#answered) if (!this.#ended.has(prompt)) this.#faults.push(`${prompt} was answered and its end is lost`);
    } finally {
      db.close();
    }
  };

  /** After the last life has come to rest: the log of a session holds all that was promised, once, and is what the machine makes of it. */
  async expectKept(client: RuntimeClient, session: string, prompts: readonly string[]): Promise<Signal[]> {
    const log = await readLog(client, session);
    expectSoundLog(log);
    expectAllPromptsEnded(log);
    const received = payloads(log, 'prompt:received').map(({ promptId }) => promptId);
    expect([...received].sort(), `prompts of ${session}`).toEqual([...prompts].sort());
    const results = payloads(log, 'tool:result').map(({ key }) => key);
    expect(results.length, `results of ${session}`).toBe(new Set(results).size);
    expect(payloads(log, 'tool:call').map(({ key }) => key)).toEqual(expect.arrayContaining(results));
    // Nothing of what any dead process had written is gone or was written anew.
    const before = this.#logs.get(`session:${session}`) ?? [];
    expect(log.slice(0, before.length).map(({ gseq: _gseq, ...signal }) => signal)).toEqual(before);
    expect(await client.session.verify(session)).toMatchObject({
      verified: true,
      divergence: null,
      signals: log.length,
      digest: log.at(-1)!.digest,
    });
    return log;
  }

  expectNoFaults(): void {
    expect(this.#faults).toEqual([]);
  }

  #take(gseq: number, body: string): void {
    if (gseq !== this.#gseq + 1) this.#faults.push(`signal ${this.#gseq} of the whole log is followed by ${gseq}`);
    this.#gseq = gseq;
    const signal = JSON.parse(body) as Signal;
    const log = this.#logs.get(signal.stream) ?? [];
    this.#logs.set(signal.stream, log);
    log.push(signal);
    const session = signal.stream.slice('session:'.length);
    const { key, promptId, promptIds } = signal.payload as { key: string; promptId: string; promptIds: readonly string[] };
    if (signal.name === 'tool:result') this.#finished.add(`${session}:${key}`);
    if (signal.name === 'prompt:received') this.#received.add(`${session} ${promptId}`);
    if (signal.name === 'turn:end') for (const id of promptIds) this.#ended.add(`${session} ${id}`);
  }
}
