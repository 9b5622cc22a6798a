import type { Argument, Command, Option } from 'commander';

const BEGIN = '<!-- reference: begin; made from the program, do not edit -->';
const END = '<!-- reference: end -->';

/** Every command with its arguments and flags as Markdown, in the order of the help. Made from the program, so it cannot tell of flags that are gone. */
export function cliReference(program: Command): string {
  return `${sections(program, program.name()).join('\n\n')}\n`;
}

/** A document with its reference part replaced: what stands between the two marks. */
export function withReference(document: string, program: Command): string {
  const begin = document.indexOf(BEGIN);
  const end = document.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`the document has no place for the reference: ${BEGIN} ... ${END}`);
  return `${document.slice(0, begin) + BEGIN}\n\n${cliReference(program)}\n${document.slice(end)}`;
}

function sections(command: Command, path: string): string[] {
  const helper = command.createHelp();
  const children = helper.visibleCommands(command).filter((child) => command.commands.includes(child));
  const [name] = path.split(' ').slice(-1);
  const own = [
    `### \`${path}\``,
    sentence(helper.commandDescription(command)),
    `\`\`\`text\n${`${path} ${command.usage()}`.trim()}\n\`\`\``,
    table('Argument', command.registeredArguments.map(argumentRow)),
    table('Flag', helper.visibleOptions(command).map(optionRow)),
  ].filter((part) => part !== '');
  // The commands below `daemon` are those of the program under another name: one line instead of all their flags again.
  if (name === 'daemon') {
    return [...own, `The same as ${children.map((child) => `[\`signet ${child.name()}\`](#signet-${child.name()})`).join(', ')}.`];
  }
  return [...own, ...children.flatMap((child) => sections(child, `${path} ${child.name()}`))];
}

function argumentRow(argument: Argument): readonly [string, string] {
  const choices = argument.argChoices ? `; one of ${argument.argChoices.join(', ')}` : '';
  return [`<${argument.name()}>`, argument.description + choices];
}

function optionRow(option: Option): readonly [string, string] {
  const choices = option.argChoices ? `; one of ${option.argChoices.join(', ')}` : '';
  const value = option.defaultValue === undefined ? '' : ` (default ${option.defaultValue})`;
  return [option.flags, `${option.description}${choices}${value}`];
}

function table(title: string, rows: readonly (readonly [string, string])[]): string {
  if (rows.length === 0) return '';
  const lines = rows.map(([name, text]) => `| \`${name}\` | ${text.replace(/\|/g, '\\|')} |`);
  return [`| ${title} | |`, '|---|---|', ...lines].join('\n');
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + (text.endsWith('.') ? '' : '.');
}
