import type { AgentSync, AgentSyncOptions } from './agent-sync/agent-sync.ts';
import type { LiveConfig } from './config-live.ts';

/** The sync of agents, loaded when the daemon has long answered: a start waits for nothing of it. */
export interface LazyAgentSync {
  close(): Promise<void>;
}

export function startAgentSync(options: AgentSyncOptions & { readonly live: LiveConfig }): LazyAgentSync {
  const { live, log } = options;
  let isClosed = false;
  const begun = begin().catch((err: unknown) => {
    log.error({ category: 'agents', err }, 'the sync of agents could not begin');
    return undefined;
  });
  return {
    close: async () => {
      isClosed = true;
      await (await begun)?.close();
    },
  };

  async function begin(): Promise<AgentSync | undefined> {
    await new Promise((resolve) => setImmediate(resolve));
    if (isClosed) return undefined;
    const { createAgentSync } = await import('./agent-sync/agent-sync.ts');
    const sync = createAgentSync(options);
    live.onChange((keys) => {
      if (!isClosed && keys.some((key) => key === 'agents' || key.startsWith('agents.'))) sync.rosterChanged();
    });
    void sync.start();
    return sync;
  }
}
