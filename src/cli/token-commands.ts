import { type Command, InvalidArgumentError, Option } from 'commander';
import type { CliContext } from './context.ts';
import { addDaemonAddressOptions } from './daemon-api.ts';

const DAYS_MAX = 3_650;
const DAYS = 90;

/** `token create|list|revoke`. */
export function addTokenCommands(program: Command, context: CliContext): void {
  const actions = () => import('./token-actions.ts');
  const group = program.command('token').description('tokens for callers from elsewhere, when auth.mode is team or hybrid');
  const add = (name: string, description: string) =>
    addDaemonAddressOptions(group.command(name).description(description)).option('--json', 'print JSON');

  add('create', 'make a token; it is shown this once')
    .argument('<name>', 'what you call it, such as the machine or person it is for')
    .addOption(new Option('--role <role>', 'what it may do').choices(['readonly', 'agent', 'operator', 'admin']).default('agent'))
    .option('--agent <name>', 'only on behalf of this agent')
    .option('--project <folder>', 'only within this project')
    .option('--days <number>', 'days until it expires, or never', daysArgument, DAYS)
    .addHelpText(
      'after',
      '\nExamples:\n  signet token create laptop --role operator\n  signet token create scout-box --agent scout --days 30\n  signet token create grafana --role readonly --days never',
    )
    .action(async (name, flags) => (await actions()).createToken(context, name, flags));

  add('list', 'tokens that are valid')
    .addHelpText('after', '\nExamples:\n  signet token list')
    .action(async (flags) => (await actions()).listTokens(context, flags));

  add('revoke', 'end a token at once')
    .argument('<id>', 'as signet token list shows it')
    .addHelpText('after', '\nExamples:\n  signet token revoke 4k2m9x0q7abc')
    .action(async (id, flags) => (await actions()).revokeToken(context, id, flags));
}

function daysArgument(text: string): number | 'never' {
  if (text === 'never') return text;
  const days = Number(text);
  if (/^\d+$/.test(text) && days >= 1 && days <= DAYS_MAX) return days;
  throw new InvalidArgumentError(`It must be a whole number from 1 to ${DAYS_MAX}, or never.`);
}
