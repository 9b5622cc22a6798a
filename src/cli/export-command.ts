import type { Command } from 'commander';
import type { RuntimeClient } from '../client/runtime-client.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { addAddressOptions } from './options.ts';
import { type FilePart, writeWholeFile } from './whole-file.ts';
import type { AddressFlags } from './workspace.ts';

type Flags = AddressFlags & { readonly output?: string };

/** `export <session>`: the log as a file. */
export function addExportCommand(program: Command, context: CliContext): void {
  addAddressOptions(program.command('export').description("write a session's log as a file: a header, then one signal a line"))
    .argument('<session>', 'session id')
    .option('--output <file>', 'where to; stdout when left out')
    .addHelpText('after', '\nExamples:\n  signet export ses_abcdefghijklmnopqrst --output talk.jsonl')
    .action((session: string, flags: Flags) => exportSession(context, session, flags));
}

/** Reads pages of signals, so that a log of any size goes through. */
async function exportSession(context: CliContext, id: string, flags: Flags): Promise<void> {
  const { requireClient } = await import('./workspace.ts');
  const client = requireClient(context, flags);
  if (flags.output === undefined) {
    for await (const { text } of logText(client, id)) context.stdout.write(text);
    return;
  }
  const { resolve } = await import('node:path');
  const path = resolve(context.cwd, flags.output);
  const signals = await writeWholeFile(path, logText(client, id));
  context.stderr.write(`${signals} signals written to ${flags.output}\n`);
}

async function* logText(client: RuntimeClient, id: string): AsyncGenerator<FilePart> {
  const { headerOf, logLine } = await import('../core/log-file.ts');
  const { readLogPages } = await import('./trace-command.ts');
  const { items, head } = await client.session.events(id, { limit: 1 });
  const newest = (await client.session.events(id, { after: head - 1, limit: 1 })).items[0];
  const created = items[0];
  if (created && created.seq > 1)
    throw new CliExit(EXIT.failure, `signals 1 to ${created.seq - 1} of ${id} were trimmed; fork it, the log of the fork is whole`);
  if (!created || !newest) throw new CliExit(EXIT.failure, `the log of ${id} is not complete`);
  yield { text: logLine(headerOf(created, newest)), count: 0 };
  for await (const page of readLogPages(client, id)) {
    const fitting = page.filter((signal) => signal.seq <= head);
    yield { text: fitting.map(logLine).join(''), count: fitting.length };
    if (fitting.length < page.length) return;
  }
}
