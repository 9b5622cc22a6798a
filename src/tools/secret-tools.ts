import type { CallerLimit } from '../contract/scope.ts';
import { EXEC_CALL_TIMEOUT_MS, EXEC_COMMAND_CHARS_MAX, type SecretMap, secretOperations } from '../contract/secrets.ts';
import { AppError } from '../core/errors.ts';
import type { DaemonClient } from '../core/operation-call.ts';
import type { Tool } from '../core/tool.ts';

/** Deadline of a call that runs no command, in ms, as spec/mcp-server has it. */
const LIST_TIMEOUT_MS = 10_000;

type MayUse = (agent: string) => boolean;

/**
 * The built-in secret tools, in names, inputs and outputs those of the MCP server: each is one daemon operation. Values stay with the daemon,
 * which takes them out of what a command wrote; an abort ends the command there.
 *
 * @param mayUse  asked at each use; sessions of other agents are not offered the tools, and a call of theirs is `secrets_forbidden`
 * @source spec/native-runtime, "Daemon API Dependency Map"; spec/mcp-server, "Tool Reference"
 */
export function createSecretTools(daemon: DaemonClient, mayUse: MayUse): Tool[] {
  return [secretList(daemon, mayUse), secretExec(daemon, mayUse)];
}

function secretList(daemon: DaemonClient, mayUse: MayUse): Tool {
  return {
    name: 'secret_list',
    description: 'List the names of the secrets commands can be given. Values are never shown.',
    class: 'pure',
    origin: 'builtin',
    timeoutMs: LIST_TIMEOUT_MS,
    isFor: mayUse,
    inputSchema: { type: 'object', properties: {}, additionalProperties: false },
    async execute(_input, { agent, limit, signal }) {
      requireAllowed(mayUse, agent, limit);
      return daemon.call(secretOperations.listSecrets, {}, { signal, timeoutMs: LIST_TIMEOUT_MS });
    },
  };
}

function secretExec(daemon: DaemonClient, mayUse: MayUse): Tool {
  type Input = { command: string; secrets: SecretMap };
  return {
    name: 'secret_exec',
    description: 'Run a shell command with secrets as environment variables. Their values are replaced by [REDACTED] in the output.',
    class: 'unsafe',
    origin: 'builtin',
    needsApproval: true,
    timeoutMs: EXEC_CALL_TIMEOUT_MS,
    isFor: mayUse,
    inputSchema: {
      type: 'object',
      required: ['command', 'secrets'],
      additionalProperties: false,
      properties: {
        command: {
          type: 'string',
          minLength: 1,
          maxLength: EXEC_COMMAND_CHARS_MAX,
          description: 'Shell command; refer to secrets as $NAME',
        },
        secrets: {
          type: 'object',
          additionalProperties: { type: 'string' },
          description: 'Secret by environment variable, such as {"API_KEY": "API_KEY"}: the name of a stored secret, or an op:// address',
        },
      },
    },
    async execute(input, { agent, limit, signal }) {
      requireAllowed(mayUse, agent, limit);
      return daemon.call(secretOperations.execWithSecrets, input as Input, { signal, timeoutMs: EXEC_CALL_TIMEOUT_MS });
    },
  };
}

/** A tool may be called by a model it was not offered to, and by hand. Only a person may give secrets to an agent. */
function requireAllowed(mayUse: MayUse, agent: string, limit: CallerLimit = {}): void {
  if (limit.project !== undefined) {
    const detail = `the call is made for a token of the project ${limit.project}; secrets, and the shell that gets them, belong to no project`;
    throw new AppError('secrets_forbidden', { detail });
  }
  if (mayUse(agent)) return;
  const detail = `sessions of ${agent} may not use secrets; have the agent listed in runtime.secretTools.agents of agent.yaml`;
  throw new AppError('secrets_forbidden', { detail });
}
