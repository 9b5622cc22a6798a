import type { AgentLimits as OwnLimits, RuntimeLimits } from '../contract/config.ts';

/** What one agent may have at once: its own limits of the roster, else those for every agent. */
export interface AgentLimits {
  /** Agents as the daemon listed them now. */
  learn(agents: readonly { readonly name: string; readonly limits?: OwnLimits | undefined }[]): void;
  providerCalls(agent: string): number;
  sessions(agent: string): number;
}

export function createAgentLimits({ limits }: { readonly limits: RuntimeLimits }): AgentLimits {
  let own = new Map<string, OwnLimits>();
  return {
    learn(agents) {
      own = new Map(agents.flatMap((agent) => (agent.limits ? [[agent.name, agent.limits]] : [])));
    },
    providerCalls: (agent) => own.get(agent)?.providerCallsMax ?? limits.agentProviderCallsMax ?? limits.providerCallsMax,
    sessions: (agent) => own.get(agent)?.sessionsMax ?? limits.agentSessionsMax ?? limits.sessionsMax,
  };
}
