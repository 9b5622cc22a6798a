import type { Command } from 'commander';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { addAddressOptions, wholeNumberArgument } from './options.ts';
import type { AddressFlags } from './workspace.ts';

const TURNS_MAX = 1_000_000;

type Flags = AddressFlags & { readonly before?: number; readonly keepTurns?: number; readonly json?: boolean };

/** `log trim <session>`: the oldest signals go, a checkpoint takes their place. */
export function addLogCommand(program: Command, context: CliContext): void {
  const log = program.command('log').description('work on the logs of sessions');
  addAddressOptions(
    log.command('trim').description('drop the oldest signals of a session at rest, after a proof that its state stays the same'),
  )
    .argument('<session>', 'session id')
    .option('--before <seq>', 'drop the signals before this one', wholeNumberArgument(2, Number.MAX_SAFE_INTEGER))
    .option('--keep-turns <number>', 'drop what is older than so many turns', wholeNumberArgument(1, TURNS_MAX))
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nMessages stay; states, forks and diffs of the time before are gone. signet export keeps a whole log in a file, before.\n' +
        '\nExamples:\n  signet log trim ses_abcdefghijklmnopqrst --keep-turns 50',
    )
    .action((session: string, flags: Flags) => trim(context, session, flags));
}

async function trim(context: CliContext, id: string, { before, keepTurns, json, ...address }: Flags): Promise<void> {
  if ((before === undefined) === (keepTurns === undefined)) throw new CliExit(EXIT.usage, 'say either --before or --keep-turns');
  const { requireClient } = await import('./workspace.ts');
  const trimmed = await requireClient(context, address).session.trim(id, before === undefined ? { keepTurns } : { before });
  if (json) {
    const { safeJson } = await import('./terminal-text.ts');
    context.stdout.write(`${safeJson(trimmed, 2)}\n`);
    return;
  }
  const said =
    trimmed.dropped === 0
      ? 'nothing to drop'
      : `${trimmed.dropped} signals dropped, the log begins at ${trimmed.firstSeq}; the state is unchanged (${trimmed.stateDigest})`;
  context.stdout.write(`${id}: ${said}\n`);
}
