import { type Command, type CommanderError, Option } from 'commander';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { addDaemonAddressOptions } from './daemon-api.ts';
import type { HookEvent, HookFlags } from './hook-actions.ts';
import { wholeNumberArgument } from './options.ts';
import type { Environment } from './terminal.ts';

const EXAMPLES = `
The event comes as the harness's own JSON on stdin. On stdout stands only what the model is to read; stderr has one line when something is
amiss. Without a daemon the harness goes on: exit code 0, nothing on stdout. SIGNET_BYPASS=1 or SIGNET_NO_HOOKS=1 silences every hook.

Examples:
  signet hook session-start -H claude-code --project "$(pwd)"
  echo '{"session_id":"s1","prompt":"where is staging?"}' | signet hook user-prompt-submit -H my-tool --json`;

/** True when hook commands are to do nothing at all: neither read, nor print, nor call. @source spec/hooks, "Per-Session Bypass" */
export function isSilencedHook(argv: readonly string[], env: Environment): boolean {
  return argv[0] === 'hook' && (env.SIGNET_BYPASS === '1' || env.SIGNET_NO_HOOKS === '1');
}

/** `hook <event>`: what a harness runs at the events of a session. */
export function addHookCommand(program: Command, context: CliContext): void {
  const group = program
    .command('hook')
    .description('tell the daemon of an event of a harness and print what the model should read')
    .exitOverride(refuseSoftly)
    .addHelpText('after', EXAMPLES);
  const add = (event: HookEvent, description: string) => {
    const command = addDaemonAddressOptions(group.command(event).description(description))
      .requiredOption('-H, --harness <name>', 'program that calls, as in claude-code or codex')
      .option('--project <folder>', 'project of the session; else that of stdin, else its cwd')
      .option('--agent <name>', 'agent whose memories these are (SIGNET_AGENT_ID)')
      .addOption(new Option('--agent-id <name>').hideHelp())
      .option('--json', 'print the answer of the daemon as JSON')
      .addHelpText('after', `\nExamples:\n  signet hook ${event} -H claude-code < event.json`);
    return command.action(async (flags: HookFlags) => (await import('./hook-actions.ts')).runHook(context, event, flags));
  };

  add('session-start', 'a session begins: prints identity, memories and recent context').option(
    '--context <text>',
    'what the session is about',
  );
  add('user-prompt-submit', 'before a turn: prints what memory has for the prompt');
  add('session-end', 'a session ends: its transcript is kept');
  add('pre-compaction', 'before context is compacted: prints the instruction for the summary').option(
    '--message-count <number>',
    'messages of the session',
    wholeNumberArgument(0, Number.MAX_SAFE_INTEGER),
  );
  add('compaction-complete', 'context was compacted: the summary is kept').option(
    '-s, --summary <text>',
    'the summary; else that of stdin',
  );
  add('synthesis', 'prints the prompt from which a model writes MEMORY.md');
  add('synthesis-complete', 'writes MEMORY.md').option(
    '-c, --content <text>',
    'the new text; - takes stdin as it is; else the content of the JSON on stdin',
  );
}

/** Exit code 2 tells harnesses to stop the user's prompt: a wrong command line must not. */
function refuseSoftly(error: CommanderError): never {
  throw error.exitCode === 0 ? error : new CliExit(EXIT.failure);
}
