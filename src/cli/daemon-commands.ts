import { type Command, Option } from 'commander';
import { isAppError } from '../core/errors.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import type { StartFlags } from './daemon-start.ts';
import { addAddressOptions, wholeNumberArgument } from './options.ts';

const LOG_LINES = 50;
const LOG_LINES_MAX = 100_000;
const PORT_MAX = 65_535;
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];

/** `start`, `stop`, `restart`, `status` and `logs`, and the same again below `daemon`. */
export function addDaemonCommands(program: Command, context: CliContext): void {
  addLifecycle(program, context);
  const group = program.command('daemon').description('start, stop and look at the daemon; each command is also there without this word');
  addLifecycle(group, context);
  program
    .command('doctor')
    .description('check data folder, configuration, daemon, provider and identity files, and say what to do')
    .option('--path <folder>', 'data folder (SIGNET_PATH; default ~/.agents)')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nIt changes nothing. Exit code 1 when something keeps Signet from working; notes do not count.')
    .action(async (flags) => (await import('./doctor.ts')).examine(context, flags));
}

function addLifecycle(parent: Command, context: CliContext): void {
  const start = parent.command('start').description('start daemon and runtime in the background and wait until they answer');
  addStartOptions(start)
    .option('--foreground', 'run in this terminal until Ctrl-C, as a service manager wants it')
    .addHelpText(
      'after',
      '\nExamples:\n  signet start\n  signet start --path ./data --port 0 --runtime-port 0\n  signet start --foreground --log-level debug',
    )
    .action((flags) => startAs(context, flags));

  parent
    .command('stop')
    .description('ask the daemon to finish its turns and end, and wait for it')
    .option('--path <folder>', 'data folder (SIGNET_PATH; default ~/.agents)')
    .option('--force', 'kill it when it does not end in time')
    .addHelpText('after', '\nExamples:\n  signet stop\n  signet stop --force')
    .action(async (flags) => {
      context.stdout.write(`${await (await import('./daemon-stop.ts')).stopDaemon(context, flags)}\n`);
    });

  const restart = parent.command('restart').description('stop and start; open sessions go on where they were');
  addStartOptions(restart)
    .option('--force', 'kill it when it does not end in time')
    .addHelpText('after', '\nExamples:\n  signet restart\n  signet restart --log-level debug')
    .action(async (given) => {
      const { withRole } = await import('./daemon-start.ts');
      const flags = await withRole(context, given);
      await requireStartable(context, flags);
      context.stdout.write(`${await (await import('./daemon-stop.ts')).stopDaemon(context, flags)}\n`);
      await startAs(context, flags);
    });

  addAddressOptions(
    parent
      .command('status')
      .description('say whether it runs, where, and with what; exit code 1 when it does not, 4 when it runs but does not answer'),
  )
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  signet status\n  signet status --json')
    .action(async (flags) => (await import('./daemon-status.ts')).showStatus(context, flags));

  addLogs(parent, context);
}

function addLogs(parent: Command, context: CliContext): void {
  parent
    .command('logs')
    .description('show what a daemon in the background has written')
    .option('-f, --follow', 'go on with what comes, until Ctrl-C')
    .option('-n, --lines <number>', 'how many lines from the end', wholeNumberArgument(0, LOG_LINES_MAX), LOG_LINES)
    .addOption(new Option('--level <level>', 'leave out what weighs less').choices(LOG_LEVELS))
    .option('--json', 'print the lines as they were written')
    .option('--path <folder>', 'data folder (SIGNET_PATH; default ~/.agents)')
    .addHelpText('after', '\nExamples:\n  signet logs -n 200 --level warn\n  signet logs -f')
    .action(async (flags) => (await import('./daemon-logs.ts')).showLogs(context, flags));
}

function addStartOptions(command: Command): Command {
  const port = (text: string) => String(wholeNumberArgument(0, PORT_MAX)(text));
  return command
    .option('--path <folder>', 'data folder (SIGNET_PATH; default ~/.agents)')
    .option('--host <address>', 'address the daemon binds to (SIGNET_HOST; default 127.0.0.1)')
    .option('--runtime-host <address>', 'address the runtime binds to (SIGNET_RUNTIME_HOST; default loopback)')
    .option('--port <number>', 'port of the daemon, 0 for any free one (SIGNET_PORT; default 3850)', port)
    .option('--runtime-port <number>', 'port of the runtime, 0 for any free one (SIGNET_RUNTIME_PORT; default 7700)', port)
    .addOption(
      new Option('--role <role>', 'the runtime alone, beside a daemon elsewhere (SIGNET_ROLE; default all)').choices(['all', 'runtime']),
    )
    .option('--daemon-url <url>', 'where the role runtime finds the daemon (SIGNET_DAEMON_URL; default http://127.0.0.1:3850)')
    .option('--provider <name>', 'provider when a session names none (SIGNET_PROVIDER)')
    .option('--model <name>', 'model when a session names none (SIGNET_MODEL)')
    .addOption(
      new Option('--record <file>', 'keep the outcomes of model calls, tools and hooks (SIGNALS_MODE, SIGNALS_RECORDING)').conflicts(
        'replay',
      ),
    )
    .option('--replay <file>', 'answer them from such a file, and call nobody')
    .addOption(
      new Option('--log-level <level>', 'least weight that is logged (SIGNET_LOG_LEVEL; default info)').choices([...LOG_LEVELS, 'silent']),
    );
}

/** What would keep the new daemon from starting must not cost the one that runs. @throws CliExit with the problem; AppError as the start itself */
async function requireStartable(context: CliContext, flags: StartFlags): Promise<void> {
  const { startEnvironment } = await import('./daemon-start.ts');
  try {
    await context.checkStart(startEnvironment(context, flags));
  } catch (error) {
    if (!isAppError(error, 'config_invalid')) throw error;
    throw new CliExit(EXIT.failure, `nothing was stopped: the daemon would not start again. ${error.message}`);
  }
}

async function startAs(context: CliContext, flags: StartFlags & { readonly foreground?: boolean }): Promise<void> {
  const { describeRunning, startEnvironment, startInBackground } = await import('./daemon-start.ts');
  if (flags.foreground) return context.startDaemon(startEnvironment(context, flags));
  const running = await startInBackground(context, flags);
  const { workspaceFolder } = await import('./workspace.ts');
  context.stdout.write(await describeRunning(context, running, workspaceFolder(context, flags.path)));
}
