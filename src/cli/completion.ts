import type { Command, Option } from 'commander';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** A command by the words that lead to it (none for the program itself), with what may follow. */
interface Node {
  readonly path: readonly string[];
  readonly commands: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly Option[];
  /** What an argument may be. */
  readonly choices: readonly string[];
}

/** A completion script, made from the program itself, so it knows exactly the commands and flags that exist. */
export function completionScript(program: Command, shell: Shell): string {
  const nodes = collect(program, []);
  if (shell === 'fish') return fish(program.name(), nodes);
  return shell === 'zsh' ? zsh(program.name(), nodes) : bash(program.name(), nodes);
}

function collect(command: Command, path: readonly string[]): Node[] {
  const helper = command.createHelp();
  const commands = helper.visibleCommands(command).filter((child) => command.commands.includes(child));
  const named = commands.map((child) => ({ name: child.name(), description: child.description() }));
  const node = { path, commands: named, options: helper.visibleOptions(command), choices: choicesOf(command) };
  return [node, ...commands.flatMap((child) => collect(child, [...path, child.name()]))];
}

/** Of `help` the commands of the program, which it explains. */
function choicesOf(command: Command): readonly string[] {
  if (command.name() === 'help') return (command.parent?.commands ?? []).map((child) => child.name());
  return command.registeredArguments.flatMap((argument) => argument.argChoices ?? []);
}

function words(node: Node): string {
  return [...node.commands.map(({ name }) => name), ...node.choices, ...node.options.flatMap(flags)].join(' ');
}

function flags(option: Option): string[] {
  return [option.long, option.short].filter((flag): flag is string => flag !== undefined && flag !== null);
}

/** bash and zsh find the place in the same way: walk over the words so far, follow those that are commands. */
function walk(nodes: readonly Node[], list: string, last: string): string {
  const paths = nodes.filter(({ path }) => path.length > 0).map(({ path }) => `'${path.join(' ')}'`);
  return `  local at='' word
  for word in ${list}; do
    case "\${at:+$at }$word" in
      ${paths.join('|')}) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at ${last}" in
${nodes.flatMap((node) => values(node)).join('\n')}
    *)
      case "$at" in
${nodes.map((node) => `        '${node.path.join(' ')}') choices='${words(node)}' ;;`).join('\n')}
      esac ;;
  esac`;
}

/** Lines that complete the value of an option: one of its choices, or nothing, which lets the shell offer files. */
function values(node: Node): string[] {
  return node.options
    .filter((option) => option.required || option.optional)
    .map((option) => {
      const at = flags(option).map((flag) => `'${node.path.join(' ')} ${flag}'`);
      return `    ${at.join('|')}) choices='${option.argChoices?.join(' ') ?? ''}' ;;`;
    });
}

function bash(name: string, nodes: readonly Node[]): string {
  return `# bash completion of ${name}; made by: ${name} completion bash
_${name}() {
  local choices=''
${walk(nodes, `"\${COMP_WORDS[@]:1:COMP_CWORD-1}"`, `\${COMP_WORDS[COMP_CWORD-1]}`)}
  COMPREPLY=($(compgen -W "$choices" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o bashdefault -o default -F _${name} ${name}
`;
}

function zsh(name: string, nodes: readonly Node[]): string {
  return `#compdef ${name}
# zsh completion of ${name}; made by: ${name} completion zsh
_${name}() {
  local choices=''
${walk(nodes, `"\${(@)words[2,CURRENT-1]}"`, `\${words[CURRENT-1]}`)}
  if [[ -n $choices ]]; then compadd -- \${=choices}; else _files; fi
}
if [[ $funcstack[1] == _${name} ]]; then _${name} "$@"; else compdef _${name} ${name}; fi
`;
}

function fish(name: string, nodes: readonly Node[]): string {
  const lines = [`# fish completion of ${name}; made by: ${name} completion fish`, `complete -c ${name} -f`];
  for (const node of nodes) {
    const condition = fishCondition(node);
    for (const child of node.commands) lines.push(`complete -c ${name} -n ${condition} -a ${child.name} -d ${quote(child.description)}`);
    for (const choice of node.choices) lines.push(`complete -c ${name} -n ${condition} -a ${choice}`);
    for (const option of node.options)
      lines.push(`complete -c ${name} -n ${condition}${fishOption(option)} -d ${quote(option.description)}`);
  }
  return `${lines.join('\n')}\n`;
}

/** All words of the path have been typed, and none of the commands below it. */
function fishCondition(node: Node): string {
  const seen = node.path.map((word) => `__fish_seen_subcommand_from ${word}`);
  const below = node.commands.map(({ name }) => name).join(' ');
  const open = below === '' ? [] : [`not __fish_seen_subcommand_from ${below}`];
  return quote([...seen, ...open].join('; and ') || 'true');
}

function fishOption(option: Option): string {
  const long = option.long ? ` -l ${option.long.slice(2)}` : '';
  const short = option.short ? ` -s ${option.short.slice(1)}` : '';
  const value = option.required || option.optional ? (option.argChoices ? ` -x -a ${quote(option.argChoices.join(' '))}` : ' -r -F') : '';
  return long + short + value;
}

function quote(text: string): string {
  return `'${text.replace(/\\/g, '\\\\').replace(/'/g, "\\'")}'`;
}
