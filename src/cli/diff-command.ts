import type { Command } from 'commander';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { addAddressOptions } from './options.ts';
import { plainLine, safeJson } from './terminal-text.ts';
import type { AddressFlags } from './workspace.ts';

const VALUE_CHARS_MAX = 200;

type Flags = AddressFlags & { readonly json?: boolean };
interface Difference {
  readonly path: string;
  readonly a?: unknown;
  readonly b?: unknown;
}

/** `diff <a> <b>`: where two sessions part. */
export function addDiffCommand(program: Command, context: CliContext): void {
  addAddressOptions(program.command('diff').description('where two sessions part: first signal, then state; exit code 1 when they differ'))
    .argument('<a>', 'session id')
    .argument('<b>', 'session id')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  signet diff ses_abcdefghijklmnopqrst ses_tsrqponmlkjihgfedcba')
    .action((a: string, b: string, flags: Flags) => diff(context, a, b, flags));
}

async function diff(context: CliContext, a: string, b: string, flags: Flags): Promise<void> {
  const { requireClient } = await import('./workspace.ts');
  const result = await requireClient(context, flags).session.diff(a, b);
  const { first, state, compared } = result;
  if (flags.json) context.stdout.write(`${safeJson(result, 2)}\n`);
  else if (result.equal) context.stdout.write(`${compared} signals are equal, and the states\n`);
  else context.stdout.write(`${[`${compared} signals are equal`, ...firstLines(first), ...stateLines(state)].join('\n')}\n`);
  if (!result.equal) throw new CliExit(EXIT.failure);
}

type First = { a: Place; b: Place; differences: Difference[] } | null;
type Place = { seq: number; name: string } | null;

function firstLines(first: First): string[] {
  if (!first) return [];
  const place = (side: Place) => (side ? `#${side.seq} ${side.name}` : 'the end of the log');
  return [`first difference: ${place(first.a)} | ${place(first.b)}`, ...first.differences.flatMap(differenceLines)];
}

function stateLines(state: readonly Difference[]): string[] {
  return state.length === 0 ? ['the states are equal'] : [`${state.length} differences in the states:`, ...state.flatMap(differenceLines)];
}

function differenceLines({ path, a, b }: Difference): string[] {
  const show = (value: unknown) => (value === undefined ? '(nothing)' : plainLine(safeJson(value), VALUE_CHARS_MAX));
  return [`  ${plainLine(path, VALUE_CHARS_MAX)}`, `    - ${show(a)}`, `    + ${show(b)}`];
}
