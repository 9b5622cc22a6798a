import { type Command, Option } from 'commander';
import type { CliContext } from './context.ts';
import { addAddressOptions, wholeNumberArgument } from './options.ts';

const LIST_LIMIT = 50;
/** As many as the runtime gives at once. */
const LIST_LIMIT_MAX = 1_000;
const STATES = ['starting', 'idle', 'researching', 'generating', 'tool-looping', 'compacting', 'aborting', 'ending', 'passivated', 'ended'];

/** `session list|show|events|abort|end`. */
export function addSessionCommands(program: Command, context: CliContext): void {
  const group = program.command('session').description('look at conversations, stop their turns, end them');
  const add = (name: string, description: string) =>
    addAddressOptions(group.command(name).description(description)).option('--json', 'print JSON');
  const display = () => import('./session-display.ts');
  const limit = wholeNumberArgument(1, LIST_LIMIT_MAX);

  add('list', 'sessions, newest change first, also those that left memory')
    .option('--agent <name>', 'only of this agent')
    .addOption(new Option('--state <state>', 'only in this state').choices(STATES))
    .option('--search <text>', 'only with this in id, key, title or project')
    .option('--limit <number>', 'how many', limit, LIST_LIMIT)
    .addHelpText('after', '\nExamples:\n  signet session list --state generating\n  signet session list --search readme --json')
    .action(async (flags) => (await display()).listSessions(context, flags));

  add('show', 'state, queue, usage and cost of one session')
    .argument('<id>', 'session id')
    .addHelpText('after', '\nExamples:\n  signet session show ses_abcdefghijklmnopqrst')
    .action(async (id, flags) => (await display()).showSession(context, id, flags));

  add('events', 'the signals of a session')
    .argument('<id>', 'session id')
    .option('-f, --follow', 'go on with what comes, until Ctrl-C or the end of the session')
    .option('--after <seq>', 'only what came after this number', '0')
    .option('--events <patterns>', 'only these names: text:*,tool:**,!tool:progress')
    .option('--limit <number>', 'how many, without --follow', limit, LIST_LIMIT_MAX)
    .addHelpText(
      'after',
      "\nExamples:\n  signet session events ses_abcdefghijklmnopqrst -f --events 'tool:**'\n  signet session events ses_abcdefghijklmnopqrst --json | jq .name",
    )
    .action(async (id, flags) => (await display()).showEvents(context, id, flags));

  add('abort', 'stop the running turn; the session goes on')
    .argument('<id>', 'session id')
    .option('--clear-queue', 'forget the prompts that wait as well')
    .addHelpText('after', '\nExamples:\n  signet session abort ses_abcdefghijklmnopqrst --clear-queue')
    .action(async (id, flags) => (await display()).abortSession(context, id, flags));

  add('end', 'end a session: running work is aborted, its end is told to the hooks')
    .argument('<id>', 'session id')
    .option('--purge', 'forget its log as well; this cannot be undone')
    .addHelpText('after', '\nExamples:\n  signet session end ses_abcdefghijklmnopqrst')
    .action(async (id, flags) => (await display()).endSession(context, id, flags));
}
