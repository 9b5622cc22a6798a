import { crossAgentOperations } from '../../contract/cross-agent.ts';
import { daemonOperations } from '../../contract/daemon.ts';
import type { McpTools } from '../../contract/mcp-tools.ts';
import { ACP_TOOL_TIMEOUT_MS } from '../../contract/mcp-tools.ts';
import { EXEC_CALL_TIMEOUT_MS, secretOperations } from '../../contract/secrets.ts';
import type { McpToolHandlers } from './tool-handler.ts';

type Names = 'agent_peers' | 'agent_message_send' | 'agent_message_inbox' | 'session_bypass' | 'secret_list' | 'secret_exec';

/** @source spec/mcp-server, "Tool Reference" */
export const agentTools: McpToolHandlers<Pick<McpTools, Names>> = {
  agent_peers: ({ agent_id, ...input }, daemon) =>
    daemon.call(crossAgentOperations.listPresence, { ...input, agent_id: agent_id ?? daemon.agentId }),
  agent_message_send({ from_agent_id, acp_timeout_ms, ...input }, daemon) {
    const relay = input.via === 'acp' ? { acp_timeout_ms: Math.min(acp_timeout_ms ?? ACP_TOOL_TIMEOUT_MS, ACP_TOOL_TIMEOUT_MS) } : {};
    return daemon.call(crossAgentOperations.sendAgentMessage, { ...input, ...relay, from_agent_id: from_agent_id ?? daemon.agentId });
  },
  agent_message_inbox: ({ agent_id, ...input }, daemon) =>
    daemon.call(crossAgentOperations.listAgentMessages, { ...input, agent_id: agent_id ?? daemon.agentId }),
  session_bypass: ({ session_key, enabled }, daemon) => daemon.call(daemonOperations.setBypass, { key: session_key, enabled }),
  secret_list: (_input, daemon) => daemon.call(secretOperations.listSecrets, {}),
  secret_exec: (input, daemon) => daemon.call(secretOperations.execWithSecrets, input, EXEC_CALL_TIMEOUT_MS),
};
