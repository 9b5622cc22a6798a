import type { Command } from 'commander';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { addAddressOptions } from './options.ts';
import type { AddressFlags } from './workspace.ts';

type Flags = AddressFlags & { readonly json?: boolean };

/** `import <file>`: a log taken in, under the session's own id. */
export function addImportCommand(program: Command, context: CliContext): void {
  addAddressOptions(program.command('import').description('take in an exported session, under its own id; every signal is checked first'))
    .argument('<file>', 'what signet export wrote')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nThe id stays: it is part of the id of every signal. A session that exists, or was purged, in the workspace is refused.\n' +
        '\nExamples:\n  signet import talk.jsonl',
    )
    .action((file: string, flags: Flags) => importSession(context, file, flags));
}

async function importSession(context: CliContext, file: string, flags: Flags): Promise<void> {
  const { requireClient } = await import('./workspace.ts');
  const client = requireClient(context, flags);
  const { checkHeader, readLogFile } = await import('../core/log-file.ts');
  const { header, signals } = readLogFile(await readText(context, file));
  const imported = await client.session.importLog({ header: checkHeader(header), signals });
  const { safeJson } = await import('./terminal-text.ts');
  const { id, state } = imported.session;
  context.stdout.write(flags.json ? `${safeJson(imported, 2)}\n` : `${id}: ${imported.signals} signals, ${state}\n`);
}

async function readText(context: CliContext, file: string): Promise<string> {
  const { readFile, stat } = await import('node:fs/promises');
  const { resolve } = await import('node:path');
  const { LOG_FILE_BYTES_MAX } = await import('../contract/log-operations.ts');
  const path = resolve(context.cwd, file);
  try {
    const { size } = await stat(path);
    if (size > LOG_FILE_BYTES_MAX)
      throw new CliExit(EXIT.failure, `${file} has ${size} bytes; at most ${LOG_FILE_BYTES_MAX} can be imported`);
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof CliExit) throw error;
    throw new CliExit(EXIT.failure, `${file} cannot be read: ${(error as Error).message}`);
  }
}
