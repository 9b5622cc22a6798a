import type { Command } from 'commander';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { addAddressOptions, wholeNumberArgument } from './options.ts';
import { plainLine, safeJson } from './terminal-text.ts';
import type { AddressFlags } from './workspace.ts';

const VALUE_CHARS_MAX = 400;

type Flags = AddressFlags & { readonly json?: boolean; readonly verify?: boolean; readonly at?: number };

/** `replay <session>`: what the log says the session was. */
export function addReplayCommand(program: Command, context: CliContext): void {
  addAddressOptions(program.command('replay').description('fold a session from its log: verify it, or look at a past state'))
    .argument('<session>', 'session id')
    .option(
      '--verify',
      'compare everything the machine says with what is stored; exit code 1 at the first difference (default without --at)',
    )
    .option('--at <seq>', 'the session as it was after the step this signal belongs to', wholeNumberArgument(1, Number.MAX_SAFE_INTEGER))
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  signet replay ses_abcdefghijklmnopqrst --verify\n  signet replay ses_abcdefghijklmnopqrst --at 42 --json',
    )
    .action((session: string, flags: Flags) => replay(context, session, flags));
}

async function replay(context: CliContext, id: string, flags: Flags): Promise<void> {
  const { requireClient } = await import('./workspace.ts');
  const client = requireClient(context, flags);
  if (flags.at !== undefined) {
    const past = await client.session.stateAt(id, flags.at);
    const text = flags.json ? safeJson(past, 2) : `after signal ${past.seq} (${past.at}): ${past.state}\n${safeJson(past.context, 2)}`;
    context.stdout.write(`${text}\n`);
    if (!flags.verify) return;
  }
  const result = await client.session.verify(id);
  if (flags.json) context.stdout.write(`${safeJson(result, 2)}\n`);
  else if (result.verified) context.stdout.write(`${result.signals} signals replayed, all equal; digest ${result.digest}\n`);
  if (!flags.json) for (const line of otherMachines(result.machines)) context.stdout.write(`${line}\n`);
  if (result.verified) return;
  throw new CliExit(EXIT.failure, divergenceLines(result.divergence!));
}

function divergenceLines({ message, expected, actual }: { message: string; expected?: unknown; actual?: unknown }): string {
  const show = (title: string, value: unknown) => (value === null ? [] : [`  ${title} ${plainLine(safeJson(value), VALUE_CHARS_MAX)}`]);
  return [plainLine(message, VALUE_CHARS_MAX), ...show('expected', expected), ...show('stored  ', actual)].join('\n');
}

function otherMachines(machines: readonly { version: string; fromSeq: number; replayed: boolean }[]): string[] {
  return machines
    .filter((machine) => !machine.replayed)
    .map(({ version, fromSeq }) => `from signal ${fromSeq} on written by version ${version} of the machine: not replayed, digests checked`);
}
