import type { Command } from 'commander';
import type { CliContext } from './context.ts';
import { addDaemonAddressOptions, type DaemonFlags } from './daemon-api.ts';

/** `mcp`, and `signet-mcp`: the same under the name that harnesses are configured with. */
export function addMcpCommand(program: Command, context: CliContext): void {
  addDaemonAddressOptions(program.command('mcp').description('MCP server on stdin and stdout, for harnesses that start it'))
    .addHelpText(
      'after',
      `
Its tools call the daemon, which must run; signet-mcp is the same. SIGNET_DAEMON_URL, or SIGNET_HOST and SIGNET_PORT, say where it is.
SIGNET_AGENT_ID, SIGNET_HARNESS, SIGNET_WORKSPACE and SIGNET_CHANNEL say on whose behalf.

Examples:
  claude mcp add signet -- signet-mcp
  echo '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' | signet mcp`,
    )
    .action(async (flags: DaemonFlags) => (await import('./mcp-serve.ts')).serveMcp(context, flags));
}
