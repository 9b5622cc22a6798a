import { type Command, Option } from 'commander';
import type { CliContext } from './context.ts';
import { addDaemonAddressOptions } from './daemon-api.ts';
import { wholeNumberArgument } from './options.ts';

const LIST_LIMIT = 50;
/** As many as the daemon gives at once. */
const PEERS_MAX = 200;
const INBOX_MAX = 500;
const TIMEOUT_MS_MAX = 120_000;
const TYPES = ['assist_request', 'decision_update', 'info', 'question'];

/** `message peers|send|inbox`. */
export function addMessageCommands(program: Command, context: CliContext): void {
  const group = program.command('message').description('who else is at work, and messages between agents');
  const add = (name: string, description: string) =>
    addDaemonAddressOptions(group.command(name).description(description)).option('--json', 'print JSON');
  const actions = () => import('./message-actions.ts');

  add('peers', 'live sessions of all agents and harnesses, the one heard of last first')
    .option('--agent <name>', 'as this agent sees them: without its own')
    .option('--session <key>', 'without this session')
    .option('--project <folder>', 'only of this project')
    .option('--limit <number>', 'how many', wholeNumberArgument(1, PEERS_MAX), LIST_LIMIT)
    .addHelpText('after', '\nExamples:\n  signet message peers\n  signet message peers --agent dot --project ~/code/app --json')
    .action(async (flags) => (await actions()).listPeers(context, flags));

  add('send', 'write to an agent, to one session, or to all live sessions')
    .argument('<to>', 'name of an agent, session:<key>, or @all; with --acp the name of the agent on the other server')
    .argument('<text>', 'what to say; - reads it from stdin')
    .option('--from <name>', 'agent that says it')
    .option('--session <key>', 'session that says it')
    .addOption(new Option('--type <type>', 'what it is').choices(TYPES).default('info'))
    .option('--acp <url>', 'relay it to the agent server at this address; agent.yaml must allow it')
    .option('--timeout <ms>', 'with --acp: how long it may take', wholeNumberArgument(1, TIMEOUT_MS_MAX))
    .addHelpText(
      'after',
      '\nThe exit code is 1 when a relay failed.\n' +
        '\nExamples:\n  signet message send rose "the build is red" --from dot --type question\n' +
        '  signet message send @all "deploy at noon"\n  signet message send helper "please review" --acp https://agents.example.com',
    )
    .action(async (to, text, flags) => (await actions()).sendMessage(context, to, text, flags));

  add('inbox', 'messages to an agent, newest first')
    .option('--agent <name>', 'whose inbox (default: default)')
    .option('--session <key>', 'only what is for this session')
    .option('--unread', 'only what was not read')
    .option('--since <time>', 'only from this time on, as in 2025-03-01 or 2025-03-01T12:00:00Z')
    .option('--sent', 'what the agent sent as well')
    .option('--no-broadcast', 'without messages to all')
    .option('--mark-read', 'mark what is shown as read: no session is told it any more')
    .option('--limit <number>', 'how many', wholeNumberArgument(1, INBOX_MAX), LIST_LIMIT)
    .addHelpText('after', '\nExamples:\n  signet message inbox --agent rose --unread\n  signet message inbox --sent --json')
    .action(async (flags) => (await actions()).showInbox(context, flags));
}
