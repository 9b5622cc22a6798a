import { type Command, InvalidArgumentError } from 'commander';
import type { CliContext } from './context.ts';
import { addDaemonAddressOptions } from './daemon-api.ts';
import { wholeNumberArgument } from './options.ts';

const LIST_LIMIT = 50;
const LIST_LIMIT_MAX = 1_000;
const RECALL_LIMIT = 10;
const RECALL_LIMIT_MAX = 100;
const HISTORY_LIMIT = 200;
/** Ratings that are given by hand, of no session, are kept under this name: the last one counts. */
const RATING_SESSION = 'cli';
const RATINGS: Readonly<Record<string, number>> = { good: 1, useless: 0, bad: -1 };

/** `remember`, `recall`, and `memory list|history|rate|forget|recover|export|import`. */
export function addMemoryCommands(program: Command, context: CliContext): void {
  const actions = () => import('./memory-actions.ts');
  const add = (parent: Command, name: string, description: string) =>
    addDaemonAddressOptions(parent.command(name).description(description)).option('--agent <name>', 'on behalf of this agent');

  add(program, 'remember', 'store a memory')
    .argument('<content>', 'what to remember; - reads it from stdin')
    .option('-w, --who <name>', 'who says so', 'user')
    .option('-t, --tags <tags>', 'tags, separated by commas')
    .option('-i, --importance <number>', 'from 0 to 1', shareArgument)
    .option('--type <type>', 'fact, preference, decision, ...; taken from the words when left out')
    .option('--project <folder>', 'project it belongs to')
    .option('--private', 'for the agent alone; needs --agent')
    .option('--critical', 'pinned, and of the highest importance')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  signet remember "the staging server is called heron" --tags ops\n  signet remember "likes tea" --agent dot --private',
    )
    .action(async (content, flags) => (await actions()).remember(context, content, flags));

  add(program, 'recall', 'search memories')
    .argument('<query>', 'what to look for')
    .option('-l, --limit <number>', 'how many', wholeNumberArgument(1, RECALL_LIMIT_MAX), RECALL_LIMIT)
    .option('-t, --type <type>', 'only of this type')
    .option('--tags <tags>', 'only with all of these tags')
    .option('--who <name>', 'only by this author')
    .option('--project <folder>', 'only of this project')
    .option('--since <time>', 'only from this time on, as in 2025-03-01 or 2025-03-01T12:00:00Z')
    .option('--until <time>', 'only up to this time')
    .option('--explain', 'say why each stands where it stands, and whether a prompt would show it')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  signet recall "staging server"\n  signet recall tea --agent dot --since 2025-01-01 --json')
    .action(async (query, flags) => (await actions()).recall(context, query, flags));

  addMemoryGroup(program.command('memory').description('look at memories, forget and recover them, carry them elsewhere'), context, add);
}

type Add = (parent: Command, name: string, description: string) => Command;

function addMemoryGroup(group: Command, context: CliContext, add: Add): void {
  const actions = () => import('./memory-actions.ts');
  const file = () => import('./memory-file.ts');

  add(group, 'list', 'memories, newest first')
    .option('--type <type>', 'only of this type')
    .option('--tags <tags>', 'only with all of these tags')
    .option('--project <folder>', 'only of this project')
    .option('--forgotten', 'what was forgotten and can still be recovered, the last forgotten first')
    .option('--limit <number>', 'how many', wholeNumberArgument(1, LIST_LIMIT_MAX), LIST_LIMIT)
    .option('--offset <number>', 'leave out so many of the newest', wholeNumberArgument(0, Number.MAX_SAFE_INTEGER), 0)
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  signet memory list --type decision\n  signet memory list --limit 1000 --json')
    .action(async (flags) => (await actions()).listMemories(context, flags));

  add(group, 'history', 'what became of a memory: its versions with their reasons')
    .argument('<id>', 'memory id')
    .option('--limit <number>', 'how many of the newest versions', wholeNumberArgument(1, LIST_LIMIT_MAX), HISTORY_LIMIT)
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  signet memory history 0b1c4c9e-5d5c-4a53-8a3e-1f0a8f0b6c11')
    .action(async (id, flags) => (await actions()).showHistory(context, id, flags));

  add(group, 'rate', 'say how useful memories were; recall moves them up or down by a little')
    .argument('<rating>', 'good (1), useless (0), bad (-1), or a number between', ratingArgument)
    .argument('<id...>', 'memory ids')
    .option('--session <key>', 'session that was shown them: the rating is then kept with the question it asked', RATING_SESSION)
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nA later rating of the same session takes the place of an earlier one.\n' +
        '\nExamples:\n  signet memory rate good 0b1c4c9e-5d5c-4a53-8a3e-1f0a8f0b6c11\n  signet memory rate bad 0b1c4c9e-5d5c-4a53-8a3e-1f0a8f0b6c11 --agent dot',
    )
    .action(async (rating, ids, flags) => (await actions()).rateMemories(context, { rating, ids }, flags));

  add(group, 'forget', 'forget memories; they can be recovered for 30 days')
    .argument('<id...>', 'memory ids')
    .requiredOption('--reason <text>', 'why; kept in the history')
    .option('--force', 'pinned ones as well')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  signet memory forget 0b1c4c9e-5d5c-4a53-8a3e-1f0a8f0b6c11 --reason "moved away"')
    .action(async (ids, flags) => (await actions()).forgetMemories(context, ids, flags));

  add(group, 'recover', 'bring a forgotten memory back')
    .argument('<id>', 'memory id')
    .option('--reason <text>', 'why; kept in the history', 'recovered')
    .addHelpText('after', '\nExamples:\n  signet memory recover 0b1c4c9e-5d5c-4a53-8a3e-1f0a8f0b6c11')
    .action(async (id, flags) => (await actions()).recoverMemory(context, id, flags));

  add(group, 'export', 'write memories with their history as a file: a header, then one memory a line')
    .option('--output <file>', 'where to; stdout when left out')
    .addHelpText(
      'after',
      '\nWithout --agent it holds everything: all agents, private, archived and forgotten memories as well.\n' +
        '\nExamples:\n  signet memory export --output memories.jsonl\n  signet memory export --agent dot > dot.jsonl',
    )
    .action(async (flags) => (await file()).exportMemories(context, flags));

  addDaemonAddressOptions(group.command('import').description('take in memories that signet memory export wrote, under their own ids'))
    .argument('<file>', 'what signet memory export wrote')
    .option('--overwrite', 'replace memories that are there already; otherwise those stay as they are')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  signet memory import memories.jsonl')
    .action(async (path, flags) => (await file()).importMemories(context, path, flags));
}

function ratingArgument(text: string): number {
  const value = RATINGS[text.toLowerCase()] ?? Number(text);
  if (text.trim() === '' || !(value >= -1 && value <= 1))
    throw new InvalidArgumentError('It must be good, useless, bad, or a number from -1 to 1.');
  return value;
}

function shareArgument(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !(value >= 0 && value <= 1)) throw new InvalidArgumentError('It must be a number from 0 to 1.');
  return value;
}
