import { type Command, Option } from 'commander';
import type { CliContext } from './context.ts';
import { addDaemonAddressOptions } from './daemon-api.ts';

/** `agent list|add|remove|purge|info`. */
export function addAgentCommands(program: Command, context: CliContext): void {
  const group = program.command('agent').description('set up several agents on one daemon, look at them, take them out again');
  const actions = () => import('./agent-actions.ts');
  const add = (name: string, description: string) =>
    addDaemonAddressOptions(group.command(name).description(description)).option('--json', 'print JSON');

  add('list', 'agents of the roster and those with a folder')
    .addHelpText('after', '\nExamples:\n  signet agent list\n  signet agent list --json')
    .action(async (flags) => (await actions()).listAgents(context, flags));

  add('add', 'set an agent up: its folder with SOUL.md and IDENTITY.md, and its place in the roster of agent.yaml')
    .argument('<name>', '1 to 64 characters of a-z, 0-9, _ and -')
    .option('--soul <text>', 'its personality, for SOUL.md; - reads it from stdin; asked for on a terminal')
    .option('--model <name>', 'model of its sessions')
    .option('--provider <name>', 'provider of its sessions')
    .option('--skills <names>', 'the skills it may use, separated by commas; all when left out')
    .option('--no-skills', 'no skills at all')
    .addOption(new Option('--policy <policy>', 'whose global memories it sees beside its own').choices(['shared', 'isolated', 'group']))
    .option('--group <name>', 'with --policy group: the group')
    .option('--no-roster', 'only the folder; agent.yaml stays as it is')
    .addHelpText(
      'after',
      '\nExamples:\n  signet agent add dot --soul "Calm, exact, fond of the sea."\n  signet agent add rose --model large --skills sailing,knots',
    )
    .action(async (name, flags) => (await actions()).addAgent(context, name, flags));

  add('remove', 'take an agent out of the roster; its memories are archived, its folder stays')
    .argument('<name>', 'agent')
    .option('--folder', 'delete its folder as well')
    .addHelpText('after', '\nArchived memories are found by nobody and deleted by nobody.\n\nExamples:\n  signet agent remove dot')
    .action(async (name, flags) => (await actions()).removeAgent(context, name, flags));

  add('purge', 'delete an agent for good: memories, transcripts, folder and its place in the roster')
    .argument('<name>', 'agent, also one that was removed before')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nThere is no way back.\n\nExamples:\n  signet agent purge dot --yes')
    .action(async (name, flags) => (await actions()).purgeAgent(context, name, flags));

  add('info', 'one agent: identity files, inherited or its own, skills and memories')
    .argument('<name>', 'agent')
    .addHelpText('after', '\nExamples:\n  signet agent info dot')
    .action(async (name, flags) => (await actions()).showAgent(context, name, flags));
}
