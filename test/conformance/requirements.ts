import { AGENT_SURFACE_REQUIREMENTS } from './requirements.agent-surfaces.ts';
import { AGENT_REQUIREMENTS } from './requirements.agents.ts';
import { CONNECTOR_REQUIREMENTS } from './requirements.connectors.ts';
import { HOOK_REQUIREMENTS } from './requirements.hooks.ts';
import { MCP_SERVER_REQUIREMENTS } from './requirements.mcp-server.ts';
import { MCP_TOOL_REQUIREMENTS } from './requirements.mcp-tools.ts';
import { NATIVE_RUNTIME_REQUIREMENTS } from './requirements.native-runtime.ts';
import { type IdOf, listRequirements, type Requirement } from './requirements.row.ts';
import { RUNTIME_SERVER_REQUIREMENTS } from './requirements.runtime-server.ts';
import { SIGNAL_REQUIREMENTS } from './requirements.signals.ts';

/**
 * Every promise of the five specification documents, in the order of the documents.
 * A row turns from `open` to `tested` in the commit that adds the test which cites it.
 */
export const REQUIREMENTS: readonly Requirement[] = [
  ...listRequirements('spec/native-runtime', NATIVE_RUNTIME_REQUIREMENTS),
  ...listRequirements('spec/native-runtime', RUNTIME_SERVER_REQUIREMENTS),
  ...listRequirements('spec/hooks', HOOK_REQUIREMENTS),
  ...listRequirements('spec/hooks', CONNECTOR_REQUIREMENTS),
  ...listRequirements('spec/mcp-server', MCP_TOOL_REQUIREMENTS),
  ...listRequirements('spec/mcp-server', MCP_SERVER_REQUIREMENTS),
  ...listRequirements('spec/multi-agent', AGENT_REQUIREMENTS),
  ...listRequirements('spec/multi-agent', AGENT_SURFACE_REQUIREMENTS),
  ...listRequirements('spec/signal-system', SIGNAL_REQUIREMENTS),
];

/** The id of a promise; a citation that is not one of these does not type-check. */
export type RequirementId =
  | IdOf<typeof NATIVE_RUNTIME_REQUIREMENTS>
  | IdOf<typeof RUNTIME_SERVER_REQUIREMENTS>
  | IdOf<typeof HOOK_REQUIREMENTS>
  | IdOf<typeof CONNECTOR_REQUIREMENTS>
  | IdOf<typeof MCP_TOOL_REQUIREMENTS>
  | IdOf<typeof MCP_SERVER_REQUIREMENTS>
  | IdOf<typeof AGENT_REQUIREMENTS>
  | IdOf<typeof AGENT_SURFACE_REQUIREMENTS>
  | IdOf<typeof SIGNAL_REQUIREMENTS>;

const BY_ID: ReadonlyMap<string, Requirement> = new Map(REQUIREMENTS.map((row) => [row.id, row]));

/**
 * The row of a cited id. The type already refuses unknown ids; this holds for casts and computed ids too.
 *
 * @throws Error when no row has this id
 */
export function requirementOf(id: RequirementId): Requirement {
  const row = BY_ID.get(id);
  if (!row) throw new Error(`no requirement has the id "${id}"; see npm run requirements for the list`);
  return row;
}

/*
 * Left out on purpose.
 *
 * Internals of the implementation that the documents describe:
 * - spec/native-runtime "Package Structure", "Critical Files" and spec/multi-agent "Critical files": paths, line numbers and package
 *   names of another repository. Only what they promise to users is listed (signet chat; the runtime does not import the daemon).
 * - spec/multi-agent "Verification" 1 to 3 and the runtime on bun: build commands of that repository; `npm run check` stands for them.
 * - spec/multi-agent phases 1 to 9, names of internal functions and interface components: their observable outcome is listed instead.
 * - spec/multi-agent "Updates and migrations", update checker: said to be unaffected, so there is nothing to prove.
 * - spec/mcp-server "Tool Reference" and "Transports", source file and web framework: only the protocol is a promise.
 * - The libraries named for the Rust and Python SDKs (axum, aiohttp, FastAPI): a means, not a promise.
 * - spec/mcp-server "memory_search" graph boost and reranking, and "memory_feedback" predictor training: optional or internal to the
 *   ranking of that implementation; the order of results and the stored rating are listed.
 *
 * Not promises:
 * - spec/native-runtime "Build Sequence" phase 5: a later rewrite in Rust with goals for size, start and memory of that binary.
 * - spec/native-runtime "Open Questions" 2 and the sandbox of 4: deferred by the document.
 * - spec/native-runtime "What this enables": terminal interface, editor extension and community tools, which others may build.
 * - spec/native-runtime "Channel": the first interface shape (receive, send, onClose); "Channel model revision" replaces it.
 * - spec/mcp-server "Roadmap": candidates that are not implemented; secret_get would also break mcp.secret_list.no-values.
 * - spec/multi-agent "What we are NOT doing": refusals; those with a visible side are agents.one-daemon, agents.claude-code.single
 *   and agents.schema.fts-unchanged.
 *
 * Where the documents disagree:
 * - spec/multi-agent phase 2 reads an empty skill list as all skills, its "Edge cases" as none. The edge case is the later and more
 *   precise text: agents.skills.missing-list and agents.skills.empty-list.
 * - spec/native-runtime stores by POST /api/hooks/remember and edits by POST /api/memory/modify and /forget, spec/mcp-server by
 *   POST /api/memory/remember, PATCH and DELETE /api/memory/:id. All of them are listed.
 * - spec/multi-agent lets a call without agentId act for the default agent, and lets a query without agentId see global memories only.
 *   Writes follow the first (agents.param.remember), reads the second (agents.scope.without-agent).
 * - spec/native-runtime step 6 calls user-prompt-submit after the tool loop, spec/hooks before the model. runtime.turn.records asks for
 *   one call per turn; hooks.user-prompt-submit says what it returns.
 */
