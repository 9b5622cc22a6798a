import type { Command } from 'commander';
import type { CliContext } from './context.ts';
import { addDaemonAddressOptions } from './daemon-api.ts';
import { wholeNumberArgument } from './options.ts';

/** As the operation has it; unit: seconds. */
const EXEC_SECONDS_MAX = 30;

/** `secret put|list|has|delete|exec`. */
export function addSecretCommands(program: Command, context: CliContext): void {
  const actions = () => import('./secret-actions.ts');
  const group = program.command('secret').description('keep secrets, encrypted, and run commands with them');
  const add = (name: string, description: string) =>
    addDaemonAddressOptions(group.command(name).description(description)).option('--json', 'print JSON');

  add('put', 'store a secret or replace its value, which is read from stdin or asked for; never an argument')
    .argument('<name>', 'letters, digits and _')
    .addHelpText('after', '\nExamples:\n  signet secret put OPENAI_API_KEY\n  pass show openai | signet secret put OPENAI_API_KEY')
    .action(async (name, flags) => (await actions()).putSecret(context, name, flags));

  add('list', 'names of the stored secrets')
    .addHelpText('after', '\nExamples:\n  signet secret list')
    .action(async (flags) => (await actions()).listSecrets(context, flags));

  add('has', 'exit code 0 when the secret is stored, else 1')
    .argument('<name>', 'name of the secret')
    .addHelpText('after', '\nExamples:\n  signet secret has OPENAI_API_KEY || signet secret put OPENAI_API_KEY')
    .action(async (name, flags) => (await actions()).hasSecret(context, name, flags));

  add('delete', 'forget a secret')
    .argument('<name>', 'name of the secret')
    .addHelpText('after', '\nExamples:\n  signet secret delete OPENAI_API_KEY')
    .action(async (name, flags) => (await actions()).deleteSecret(context, name, flags));

  add('exec', 'run a shell command with secrets in its environment; their values are taken out of what it writes')
    .argument(
      '<command...>',
      'one word is a shell command: quote it, so that your own shell leaves $NAME alone; several are a program and its arguments as they are',
    )
    .requiredOption(
      '-s, --secret <name>',
      'NAME, or VARIABLE=NAME, or VARIABLE=op://vault/item/field; can be given several times',
      (value: string, before: string[] | undefined) => [...(before ?? []), value],
    )
    .option('--timeout <seconds>', 'give the command up after this', wholeNumberArgument(1, EXEC_SECONDS_MAX), EXEC_SECONDS_MAX)
    .addHelpText(
      'after',
      '\nIt runs in the current folder, and ends with the exit code of the command.\n' +
        '\nExamples:\n' +
        '  signet secret exec -s OPENAI_API_KEY \'curl -sH "Authorization: Bearer $OPENAI_API_KEY" https://api.openai.com/v1/models\'\n' +
        '  signet secret exec -s PGPASSWORD=op://Work/db/password \'psql -h db -c "select 1"\'\n' +
        '  signet secret exec -s OPENAI_API_KEY -- node report.js --title "two words"',
    )
    .action(async (command, flags) => (await actions()).execWithSecrets(context, command, flags));
}
