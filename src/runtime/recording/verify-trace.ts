import type { SealedSignal, Signal } from '../../contract/signal.ts';
import type { WorkflowPayloadOf } from '../../contract/workflow-signals.ts';
import { canonicalJson } from '../../core/signal-seal.ts';
import { verifySession } from '../verify.ts';
import {
  advanceWorkflow,
  beginWorkflow,
  noteWorkflow,
  type WorkflowCore,
  type WorkflowDraft,
  type WorkflowFact,
} from '../workflow/workflow-core.ts';

/**
 * Folds the inputs of every session and workflow in a trace and writes everything else anew; it must come out as it is.
 *
 * @returns  the first difference in words, null when there is none
 */
export async function verifyTrace(signals: readonly SealedSignal[]): Promise<string | null> {
  for (const stream of new Set(signals.map((signal) => signal.stream))) {
    const own = signals.filter((signal) => signal.stream === stream);
    const [kind, id] = stream.split(':') as [string, string];
    const difference = kind === 'workflow' ? verifyWorkflow(own) : kind === 'session' ? await verifyOwn(own, id) : null;
    if (difference !== null) return `${stream}, ${difference}`;
  }
  return null;
}

async function verifyOwn(signals: readonly SealedSignal[], id: string): Promise<string | null> {
  const log = {
    read: async (_stream: string, after: number, limit: number) => signals.filter(({ seq }) => seq > after).slice(0, limit) as Signal[],
    loadCheckpoint: async () => null,
  };
  const { divergence } = await verifySession(log, id);
  return divergence && `${divergence.message}${values(divergence.expected, divergence.actual)}`;
}

function verifyWorkflow(signals: readonly SealedSignal[]): string | null {
  let core: WorkflowCore | null = null;
  let expected: SealedSignal[] = [];
  for (const signal of signals) {
    if (expected.length === 0) {
      const step = regenerate(core, signal);
      if (!step) return differs(signal.seq, 'a signal nothing asked for', null, signal.name);
      core = step.core;
      expected = [...step.signals];
    }
    const next = expected.shift()!;
    const what = (['seq', 'name', 'id', 'payload', 'source', 'digest'] as const).find(
      (member) => canonicalJson(next[member]) !== canonicalJson(signal[member]),
    );
    if (what) return differs(signal.seq, what, next[what], signal[what]);
  }
  const [missing] = expected;
  return missing ? differs(missing.seq, 'the trace ends too early', missing.name, null) : null;
}

function regenerate(core: WorkflowCore | null, { name, payload, source, timestamp }: SealedSignal) {
  const at = Date.parse(timestamp);
  const { client } = source;
  if (!core) return name === 'workflow:start' ? beginWorkflow(payload as WorkflowPayloadOf<'workflow:start'>, at, client ?? '') : null;
  const draft = { name, payload, ...(client ? { client } : {}) };
  if (source.kind === 'input') return advanceWorkflow(core, draft as unknown as WorkflowDraft, at);
  return source.kind === 'system' ? noteWorkflow(core, draft as unknown as WorkflowFact, at) : null;
}

function differs(seq: number, what: string, expected: unknown, actual: unknown): string {
  return `signal ${seq}: ${what}${values(expected, actual)}`;
}

function values(expected: unknown, actual: unknown): string {
  return `\n- ${canonicalJson(expected)}\n+ ${canonicalJson(actual)}`;
}
