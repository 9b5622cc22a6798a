import { Argument, Command, CommanderError, Option } from 'commander';
import { addAgentCommands } from './agent-commands.ts';
import { addBackupCommands } from './backup-commands.ts';
import { completionScript, SHELLS, type Shell } from './completion.ts';
import { type CliContext, CliExit, describeFailure, EXIT } from './context.ts';
import { addDaemonCommands } from './daemon-commands.ts';
import { addDiffCommand } from './diff-command.ts';
import { addExportCommand } from './export-command.ts';
import { addHelpCommand, completeHelp } from './help-command.ts';
import { addHookCommand, isSilencedHook } from './hook-command.ts';
import { addImportCommand } from './import-command.ts';
import { addLogCommand } from './log-command.ts';
import { addMcpCommand } from './mcp-command.ts';
import { addMemoryCommands } from './memory-commands.ts';
import { addMessageCommands } from './message-commands.ts';
import { addAddressOptions, addGenerationOptions } from './options.ts';
import { addReplayCommand } from './replay-command.ts';
import { addSecretCommands } from './secret-commands.ts';
import { addSessionCommands } from './session-commands.ts';
import { addTokenCommands } from './token-commands.ts';
import { addTraceCommand } from './trace-command.ts';
import { addUsageCommand } from './usage-command.ts';
import { addWorkflowCommands } from './workflow-commands.ts';

const EXAMPLES = `
Examples:
  signet start                              start in the background, or say where it runs
  signet chat                               talk; starts the daemon when none runs
  signet chat --print "what changed?"       one answer on stdout
  git diff | signet chat --print -          the prompt from stdin
  signet session list                       conversations, newest change first
  signet remember "likes green tea"         a memory, for every agent and harness
  signet logs -f                            follow what the daemon says
  signet backup ~/signet.tar.gz             the whole data folder in one file, also while it runs
  signet doctor                             what is wrong, and what to do about it

Environment: SIGNET_PATH, SIGNET_HOST, SIGNET_PORT, SIGNET_RUNTIME_PORT, SIGNET_RUNTIME_URL, SIGNET_DAEMON_URL, SIGNET_TOKEN,
SIGNET_PROVIDER, SIGNET_MODEL, SIGNET_LOG_LEVEL, SIGNET_BYPASS, NO_COLOR`;

/**
 * The whole command line. Actions load what they need when they run, so that help and completion stay quick.
 * Parse it with `runCli`, which turns failures into exit codes.
 */
export function createProgram(context: CliContext): Command {
  const program = new Command('signet')
    .description('The daemon under your AI agents: many supervised sessions, one memory, everything visible as signals.')
    .version(context.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .showSuggestionAfterError(true)
    .configureOutput({
      writeOut: (text) => context.stdout.write(text),
      writeErr: (text) => context.stderr.write(text),
      getOutHelpWidth: () => context.stdout.columns ?? 100,
      getErrHelpWidth: () => context.stderr.columns ?? 100,
    })
    .exitOverride()
    .addHelpText('after', EXAMPLES);
  addHelpCommand(program);
  addDaemonCommands(program, context);
  addChatCommand(program, context);
  addSessionCommands(program, context);
  addMemoryCommands(program, context);
  addSecretCommands(program, context);
  addTokenCommands(program, context);
  addAgentCommands(program, context);
  addMessageCommands(program, context);
  addWorkflowCommands(program, context);
  addMcpCommand(program, context);
  addHookCommand(program, context);
  addReplayCommand(program, context);
  addTraceCommand(program, context);
  addDiffCommand(program, context);
  addExportCommand(program, context);
  addImportCommand(program, context);
  addLogCommand(program, context);
  addUsageCommand(program, context);
  addBackupCommands(program, context);
  addCompletionCommand(program, context);
  completeHelp(program);
  return program;
}

/**
 * Run a command line.
 *
 * @param argv  arguments alone, without node and script
 * @returns     the exit code: 0 fine, 1 failed, 2 wrong usage, 130 interrupted. Never rejects; failures stand on stderr.
 */
export async function runCli(context: CliContext, argv: readonly string[]): Promise<number> {
  if (isSilencedHook(argv, context.env)) return EXIT.ok;
  const program = createProgram(context);
  if (argv.length === 0) {
    program.outputHelp();
    return EXIT.ok;
  }
  try {
    await program.parseAsync(argv, { from: 'user' });
    return EXIT.ok;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    // The details of a failure may hold foreign text.
    const { plainText } = await import('./terminal-text.ts');
    const message = plainText(describeFailure(error));
    if (message !== '') context.stderr.write(`signet: ${message}\n`);
    return error instanceof CliExit ? error.exitCode : EXIT.failure;
  }
}

function addChatCommand(program: Command, context: CliContext): void {
  const command = program
    .command('chat')
    .description('talk with an agent; starts the daemon when none runs')
    .option('--session <id>', 'go on with an earlier session')
    .option('--agent <name>', 'agent of a new session')
    .option('--model <name>', 'model of the session')
    .option('--provider <name>', 'provider of the session');
  addGenerationOptions(command)
    .option('--project <folder>', 'project of a new session (default: the current folder)')
    .addOption(new Option('--print <prompt>', 'send one prompt and print only the answer; - reads it from stdin'))
    .option('--json', 'with --print: the answer with tool results, usage and cost as JSON')
    .option('--end', 'end the session when leaving; otherwise it stays');
  addAddressOptions(command)
    .addHelpText(
      'after',
      `
In a conversation: /help lists the commands, Ctrl-C aborts the running turn, twice it leaves, Ctrl-D leaves.
Prompts typed while a turn runs wait for it. SIGNET_BYPASS=1 begins the session with its hooks silent.

Examples:
  signet chat --agent scout --project ~/code/app
  signet chat --session ses_abcdefghijklmnopqrst
  signet chat --print "summarise README.md" --json`,
    )
    .action(async (flags) => (await import('./chat.ts')).chat(context, flags));
}

function addCompletionCommand(program: Command, context: CliContext): void {
  program
    .command('completion')
    .description('print a completion script for a shell')
    .addArgument(new Argument('<shell>', 'shell it is for').choices(SHELLS))
    .addHelpText(
      'after',
      `
Examples:
  signet completion bash > ~/.local/share/bash-completion/completions/signet
  signet completion zsh > ~/.zfunc/_signet            (with ~/.zfunc in fpath)
  signet completion fish > ~/.config/fish/completions/signet.fish`,
    )
    .action((shell: Shell) => void context.stdout.write(completionScript(program, shell)));
}
