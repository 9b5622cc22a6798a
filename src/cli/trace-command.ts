import { type Command, Option } from 'commander';
import type { RuntimeClient } from '../client/runtime-client.ts';
import type { Signal } from '../contract/signal.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { addAddressOptions, wholeNumberArgument } from './options.ts';
import type { AddressFlags } from './workspace.ts';

/** As many as the runtime gives at once. */
const PAGE_SIGNALS = 1_000;
/** Signals a trace is made of; beyond it, one turn is asked for. Larger ones are no reading matter and need their memory. */
const TRACE_SIGNALS_MAX = 200_000;
const TURNS_MAX = 1_000_000_000;

type Format = 'text' | 'mermaid' | 'chrome' | 'otlp';
type Flags = AddressFlags & { readonly format: Format; readonly turn?: number; readonly json?: boolean };

/** `trace <session>`: what caused what, and how long it took. */
export function addTraceCommand(program: Command, context: CliContext): void {
  addAddressOptions(program.command('trace').description('what caused what in a session, and how long it took'))
    .argument('<session>', 'session id')
    .addOption(
      new Option(
        '--format <format>',
        'a tree, a Mermaid sequence diagram, slices for chrome://tracing and Perfetto, or spans for an OpenTelemetry collector',
      )
        .choices(['text', 'mermaid', 'chrome', 'otlp'])
        .default('text'),
    )
    .option('--turn <number>', 'only this turn, with the prompt it answers', wholeNumberArgument(1, TURNS_MAX))
    .option('--json', 'print JSON: the signals, each with the milliseconds to its answer; diagrams as one string')
    .addHelpText(
      'after',
      '\nExamples:\n  signet trace ses_abcdefghijklmnopqrst --turn 2\n  signet trace ses_abcdefghijklmnopqrst --format chrome > trace.json',
    )
    .action((session: string, flags: Flags) => trace(context, session, flags));
}

/** Pages of a session's log, oldest first, up to the newest signal of the moment it is asked. */
export async function* readLogPages(client: RuntimeClient, id: string, after = 0): AsyncGenerator<Signal[], undefined> {
  let seq = after;
  let until = Number.POSITIVE_INFINITY;
  while (seq < until) {
    const { items, head } = await client.session.events(id, { after: seq, limit: PAGE_SIGNALS });
    until = Math.min(until, head);
    const page = items.filter((signal) => signal.seq <= until);
    if (page.length === 0) return;
    yield page;
    seq = page.at(-1)!.seq;
  }
}

async function trace(context: CliContext, id: string, { format, turn, json, ...address }: Flags): Promise<void> {
  const { requireClient } = await import('./workspace.ts');
  const { safeJson } = await import('./terminal-text.ts');
  const signals = await collect(requireClient(context, address), id, turn);
  if (format === 'chrome') {
    const { toChromeTrace } = await import('../core/trace-chrome.ts');
    context.stdout.write(`${safeJson(toChromeTrace(signals))}\n`);
  } else if (format === 'otlp') {
    const { toOtlpTrace } = await import('../core/trace-otlp.ts');
    context.stdout.write(`${safeJson(toOtlpTrace(signals, { content: false, version: context.version }))}\n`);
  } else if (format === 'mermaid') {
    const { toMermaidSequence } = await import('../core/trace-mermaid.ts');
    context.stdout.write(json ? `${safeJson({ session: id, mermaid: toMermaidSequence(signals) }, 2)}\n` : toMermaidSequence(signals));
  } else if (json) {
    const { pairSpans } = await import('../core/trace-facts.ts');
    const took = new Map(
      pairSpans(signals).map(({ start, end }) => [start.id, end && Date.parse(end.timestamp) - Date.parse(start.timestamp)]),
    );
    const traced = signals.map((signal) => (took.has(signal.id) ? { ...signal, tookMs: took.get(signal.id) } : signal));
    context.stdout.write(`${safeJson({ session: id, signals: traced }, 2)}\n`);
  } else {
    const { formatSignalTree } = await import('../core/trace-tree.ts');
    context.stdout.write(formatSignalTree(signals));
  }
}

async function collect(client: RuntimeClient, id: string, turn: number | undefined): Promise<Signal[]> {
  const { signalsOfTurn } = await import('../core/trace-facts.ts');
  const signals: Signal[] = [];
  for await (const page of readLogPages(client, id)) {
    // A prompt may be the root of a later turn.
    for (const signal of page)
      if (turn === undefined || signal.source.turn === turn || signal.name === 'prompt:received') signals.push(signal);
    if (signals.length > TRACE_SIGNALS_MAX)
      throw new CliExit(EXIT.failure, `session ${id} has more than ${TRACE_SIGNALS_MAX} signals; choose one turn with --turn`);
  }
  if (turn === undefined) return signals;
  const chosen = signalsOfTurn(signals, turn);
  if (chosen.length === 0) throw new CliExit(EXIT.failure, `session ${id} has no turn ${turn}`);
  return chosen;
}
