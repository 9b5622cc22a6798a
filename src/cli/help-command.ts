import type { Command } from 'commander';
import { nearestNames } from '../core/nearest-name.ts';

/** `help [command...]`: the help of the command these words lead to. Commander's own knows the first word alone. */
export function addHelpCommand(program: Command): void {
  program
    .helpCommand('help [command]', 'show help of a command') // groups inherit it: `signet session help list`
    .helpCommand(false)
    .command('help')
    .description('show help of a command')
    .argument('[command...]', 'its words')
    .addHelpText('after', '\nExamples:\n  signet help start\n  signet help workflow run')
    .action((words: readonly string[]) => words.reduce(childNamed, program).outputHelp());
}

/** Every command, with what is asked for shown in its usage line, and with a hint at its own help behind a wrong command line. */
export function completeHelp(command: Command, path = command.name()): void {
  const isGroup = command.commands.length > 0;
  command.showHelpAfterError(`(${path} --help ${isGroup ? 'lists the commands' : 'tells what it takes'})`);
  const required = command.options.filter((option) => option.mandatory).map((option) => option.flags.split(', ').at(-1) ?? option.flags);
  if (required.length > 0) command.usage([...required, command.usage()].join(' '));
  for (const child of command.commands) completeHelp(child, `${path} ${child.name()}`);
}

function childNamed(command: Command, name: string): Command {
  const child = command.commands.find((one) => one.name() === name || one.aliases().includes(name));
  if (child) return child;
  const names = command.createHelp().visibleCommands(command);
  const near = nearestNames(
    name,
    names.map((one) => one.name()),
  );
  return command.error(`error: unknown command '${name}'${near.length > 0 ? `\n(Did you mean ${near.join(' or ')}?)` : ''}`);
}
