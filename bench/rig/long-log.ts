import type { Pending } from '../../machines/session-context.ts';
import type { PayloadOf } from '../../src/contract/catalog.ts';
import type { SealedSignal } from '../../src/contract/signal.ts';
import { createView, foldView } from '../../src/core/session-view.ts';
import type { SignalLog } from '../../src/core/signal-log.ts';
import { cardAfter } from '../../src/runtime/session-card.ts';
import { advance } from '../../src/runtime/session-core.ts';
import { SNAPSHOT_SIGNALS, takeSnapshot } from '../../src/runtime/session-snapshot.ts';
import type { InputDraft, SessionCore } from '../../src/runtime/session-state.ts';

const BEGIN_MS = Date.parse('2026-01-01T00:00:00.000Z');
const STEP_MS = 7;
/** Tool calls of a turn's first answer. */
const CALLS = 3;
const LIMITS = {
  mailboxTurnsMax: 16,
  roundsMax: 50,
  attemptsMax: 3,
  turnTimeoutMs: 1_800_000,
  approvalTimeoutMs: 300_000,
  abortGraceMs: 5_000,
  idleTtlMs: 1_200_000,
  backoffMs: 500,
  retryAfterMsMax: 60_000,
  compactAtShare: 0.8,
};

/** Writes what a session does that asks one prompt after the other, each with a round of tools, until its log has so many signals. It is idle then. */
export async function writeLongSession(log: SignalLog, id: string, signalsMin: number): Promise<number> {
  const session = new ScriptedSession(log, id);
  for (let turn = 1; session.head < signalsMin; turn += 1) await session.takeTurn(turn);
  return session.head;
}

/** Writes many short sessions that have left memory, a page of appends at a time. */
export async function writePassivatedSessions(log: SignalLog, count: number, atOnce: number): Promise<void> {
  for (let from = 0; from < count; from += atOnce) {
    const page = Array.from({ length: Math.min(atOnce, count - from) }, (_, index) => new ScriptedSession(log, `ses_cold_${from + index}`));
    await Promise.all(page.map((session) => session.passivate()));
  }
}

class ScriptedSession {
  readonly #log: SignalLog;
  readonly #id: string;
  #core: SessionCore | null = null;
  #view: ReturnType<typeof createView> | null = null;
  #signals: SealedSignal[] = [];
  #head = 0;
  #snapshotSeq = 0;
  #at = BEGIN_MS;

  constructor(log: SignalLog, id: string) {
    this.#log = log;
    this.#id = id;
  }

  get head(): number {
    return this.#head;
  }

  async takeTurn(turn: number): Promise<void> {
    this.#begin();
    this.#take({ name: 'prompt:received', payload: promptOf(turn), client: 'bench' });
    this.#answerAll();
    await this.#append();
  }

  async passivate(): Promise<void> {
    this.#begin();
    this.#take({ name: 'timer:fired', payload: { id: 'idle' } });
    await this.#append();
  }

  #begin(): void {
    if (this.#core) return;
    this.#take({ name: 'session:created', payload: createdOf(this.#id), client: 'bench' });
    this.#answerAll();
  }

  #answerAll(): void {
    for (let pending = this.#pending; pending; pending = this.#pending)
      for (const draft of answersTo(pending, this.#head)) this.#take(draft);
  }

  get #pending(): Pending | undefined {
    return this.#core?.snapshot.context.pending[0];
  }

  #take(draft: InputDraft): void {
    this.#at += STEP_MS;
    const { core, signals } = advance(this.#core, draft, this.#at);
    this.#core = core;
    this.#signals.push(...signals);
  }

  async #append(): Promise<void> {
    const core = this.#core!;
    const signals = this.#signals;
    this.#signals = [];
    const expected = this.#head;
    this.#view ??= createView(signals[0]!.payload as unknown as PayloadOf<'session:created'>, signals[0]!.timestamp);
    const card = cardAfter(this.#view, core, signals);
    for (const signal of signals) foldView(this.#view, signal);
    const isDue = core.seq - this.#snapshotSeq >= SNAPSHOT_SIGNALS;
    if (isDue) this.#snapshotSeq = core.seq;
    const snapshot = isDue ? { snapshot: takeSnapshot({ core, view: this.#view }) } : {};
    await this.#log.append({ stream: `session:${this.#id}`, epoch: 0, expected, signals, card, ...snapshot });
    this.#head = core.seq;
  }
}

function promptOf(turn: number): PayloadOf<'prompt:received'> {
  const offered = { name: 'read_file', class: 'pure', origin: 'custom', tokens: 20 } as const;
  const content = `Question ${turn}: what does the file say about tea, and since when?`;
  return {
    promptId: `p${turn}`,
    content,
    attachments: [],
    delivery: 'queue',
    client: 'bench',
    tools: [offered],
    preTools: [],
    bodyDigest: '',
  };
}

function answersTo(pending: Pending, head: number): InputDraft[] {
  const { key } = pending;
  if (pending.kind === 'hook')
    return [{ name: 'hook:end', payload: { hook: pending.hook, key, bypassed: false, durationMs: 2, memories: 0 } }];
  if (pending.kind === 'tool') {
    const { id, name } = pending;
    const output = 'Green tea, since the third of May; black tea before that.';
    return [{ name: 'tool:result', payload: { id, name, key, output, isError: false, durationMs: 3, bytes: output.length } }];
  }
  const wantsTools = pending.purpose === 'answer' && key.includes('.r1.');
  const content = wantsTools ? 'Let me look into the files first.' : 'It says green tea, since the third of May.';
  const call = (n: number) => ({ id: `call_${head}_${n}`, name: 'read_file', input: { path: `/notes/${n}.md` } });
  const known = { class: 'pure', origin: 'custom', approval: 'allow' } as const;
  return [
    { name: 'text:complete', payload: { key, content } },
    {
      name: 'harness:end',
      payload: {
        key,
        content,
        toolCalls: wantsTools ? Array.from({ length: CALLS }, (_, n) => ({ ...call(n), ...known })) : [],
        stopReason: wantsTools ? 'tool_use' : 'end_turn',
        model: 'scripted',
        usage: { inputTokens: 100, outputTokens: 20 },
        costUsd: 0,
        durationMs: 40,
        firstTokenMs: 5,
      },
    },
  ];
}

function createdOf(id: string): PayloadOf<'session:created'> {
  return {
    session: id,
    key: id,
    agent: 'default',
    project: null,
    title: 'a session of a bench',
    harness: 'signet',
    provider: 'demo',
    model: 'demo',
    parentSession: null,
    resumedFrom: null,
    tools: null,
    bypassed: false,
    metadata: {},
    machine: { id: 'session', version: '1', digest: '' },
    limits: LIMITS,
    contextLimit: 200_000,
    summary: null,
  };
}
