import { agentFileOperations } from '../../contract/agent-files.ts';
import { configOperations } from '../../contract/config-operations.ts';
import { daemonOperations } from '../../contract/daemon.ts';
import { documentOperations } from '../../contract/documents.ts';
import type { McpTools } from '../../contract/mcp-tools.ts';
import type { OutputOf } from '../../contract/operation.ts';
import { AppError } from '../../core/errors.ts';
import type { McpToolHandlers } from './tool-handler.ts';

type Names = 'skill_list' | 'skill_read' | 'diagnostics' | 'config_read' | 'document_ingest' | 'document_forget';

const SCORE_MAX = 100;

export const workspaceTools: McpToolHandlers<Pick<McpTools, Names>> = {
  skill_list: (_input, daemon) => daemon.call(agentFileOperations.listSkills, {}),
  skill_read: (input, daemon) => daemon.call(agentFileOperations.getSkill, input),
  async diagnostics(_input, daemon) {
    const health = await daemon.call(daemonOperations.daemonHealth, {});
    const state = await daemon.call(daemonOperations.daemonStatus, {});
    const found = problemsOf(health, state);
    const lost = found.reduce((sum, problem) => sum + problem.points, 0);
    return {
      status: health.status,
      score: Math.max(0, SCORE_MAX - lost),
      problems: found.map((problem) => problem.text),
      version: health.version,
      uptimeSeconds: Math.round(health.uptime),
      memories: state.memories,
      index: state.index.state,
      embedding: state.embedding.state,
      activeSessions: state.activeSessions,
      bypassedSessions: state.bypassedSessions,
      jobs: state.jobs ?? {},
    };
  },
  async config_read({ section }, daemon) {
    const { file, config, problems, fault, waiting } = await daemon.call(configOperations.getConfig, {});
    if (section === undefined) return { file, config, problems, fault, waiting };
    if (!Object.hasOwn(config, section)) {
      const detail = `section: there is no ${JSON.stringify(section)}; the sections are ${Object.keys(config).join(', ')}`;
      throw new AppError('invalid_request', { detail, errors: [{ pointer: '/section', detail }] });
    }
    return { file, config: { [section]: config[section] }, problems, fault, waiting };
  },
  async document_ingest(input, daemon) {
    const origin = { who: daemon.agentId === undefined ? daemon.harness : undefined, project: daemon.workspace };
    const { source, status, chunks, forgotten, hash } = await daemon.call(documentOperations.ingestDocument, { ...input, ...origin });
    return { source, status, chunks, forgotten, hash };
  },
  async document_forget(input, daemon) {
    const { source, forgotten, kept } = await daemon.call(documentOperations.forgetDocument, input);
    return { source, forgotten, kept };
  },
};

type Health = OutputOf<typeof daemonOperations.daemonHealth>;
type State = OutputOf<typeof daemonOperations.daemonStatus>;

/** What is not as it should be, and how much each of it weighs. */
function problemsOf(health: Health, state: State): { points: number; text: string }[] {
  const dead = state.jobs?.dead ?? 0;
  return [
    ...(health.db ? [] : [{ points: 60, text: 'the memory database does not answer' }]),
    ...(health.shuttingDown ? [{ points: 30, text: 'the daemon is shutting down' }] : []),
    ...(state.embedding.state === 'failing' ? [{ points: 20, text: 'the embedding provider fails; search goes by words alone' }] : []),
    ...(dead > 0 ? [{ points: 10, text: `${dead} background jobs have used up their attempts` }] : []),
    ...(state.index.state === 'building' ? [{ points: 5, text: 'the index of memories is being built' }] : []),
    ...state.config.problems.map((text) => ({ points: 5, text: `configuration: ${text}` })),
  ];
}
