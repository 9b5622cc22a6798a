import type { AgentDetail, AgentListing, agentOperations } from '../contract/agents.ts';
import type { AgentYaml } from '../contract/config.ts';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { AgentMemories } from '../core/agent-memories.ts';
import { LACKS_GROUP, lacksGroup } from '../core/agent-policy.ts';
import { effectiveSkills, unknownSkills } from '../core/agent-skills.ts';
import { AppError } from '../core/errors.ts';
import { mergeGeneration } from '../core/generation.ts';
import type { Logger } from '../core/logger.ts';
import type { Handlers, RequestContext } from '../core/operation-call.ts';
import type { TokenBook } from '../core/token.ts';
import { deleteAgentFolder, hasAgentFolder, scaffoldAgent, strangeFolders } from './agent-folder.ts';
import { addToRoster, removeFromRoster } from './agent-roster.ts';
import { skillPool } from './agent-skills.ts';
import type { LiveConfig } from './config-live.ts';
import { restCharsMax, skillsInjectChars } from './hooks-session.ts';
import { agentFolders, IDENTITY_FILES, type Identity, loadIdentity } from './identity.ts';
import { fitIdentity, HARNESS_INJECT_CHARS, receiverOf } from './identity-inject.ts';

export interface AgentDeps {
  readonly folder: string;
  readonly config: AgentYaml;
  readonly live: LiveConfig;
  readonly agents: AgentMemories;
  readonly log: Logger;
  readonly tokens: () => Promise<TokenBook>;
  /** Context window of the model an agent's sessions in the runtime begin with; undefined without a runtime. */
  readonly contextTokensOf: (agent: string) => number | undefined;
}

/** Name of our own runtime among those who get an identity. */
const RUNTIME = 'signet';

type RosterAgent = NonNullable<AgentYaml['agents']>['roster'][number];
type CreateInput = ParsedInputOf<(typeof agentOperations)['createAgent']>;
type DeleteInput = ParsedInputOf<(typeof agentOperations)['deleteAgent']>;

/** Handlers of /api/agents. Changes go one after another: each reads agent.yaml and writes it. */
export function createAgentHandlers(deps: AgentDeps): Handlers<typeof agentOperations> {
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(change: () => Promise<T>): Promise<T> => {
    const mine = last.then(change);
    last = mine.catch(() => undefined); // Whoever asked for it is told.
    return mine;
  };
  return {
    listAgents: () => {
      const agents = listAgents(deps);
      return { agents, count: agents.length, problems: strangeFolders(deps.folder) };
    },
    getAgent: async ({ name }) => describeAgent(deps, await requireListed(deps, name)),
    createAgent: (input) => inTurn(() => createAgent(deps, input)),
    deleteAgent: (input, context) => inTurn(() => deleteAgent(deps, input, context)),
  };
}

/** `default` first when the roster does not say otherwise, then the roster, then those with a folder alone. */
export function listAgents({ folder, config }: Pick<AgentDeps, 'folder' | 'config'>): AgentListing[] {
  const pool = skillPool(folder) ?? [];
  const roster = rosterOf(config);
  const folders = agentFolders(folder);
  const listing = (name: string, source: string, entry?: RosterAgent): AgentListing => ({
    ...{ id: name, name, source, folder: folders.includes(name) },
    ...{ model: entry?.model, provider: entry?.provider, limits: entry?.limits },
    ...mergeGeneration(entry),
    skills: effectiveSkills(pool, entry?.skills),
    read_policy: entry?.read_policy ?? 'shared',
    policy_group: entry?.policy_group ?? null,
  });
  const listed = [
    ...roster.map((entry) => listing(entry.name, 'roster', entry)),
    ...folders.filter((name) => !roster.some((entry) => entry.name === name)).map((name) => listing(name, 'folder')),
  ];
  return listed.some(({ name }) => name === DEFAULT_AGENT) ? listed : [listing(DEFAULT_AGENT, 'built-in'), ...listed];
}

async function requireListed(deps: AgentDeps, name: string): Promise<AgentListing> {
  const agents = listAgents(deps);
  const known = agents.find((agent) => agent.name === name);
  if (known) return known;
  const names = agents.map((agent) => agent.name).join(', ');
  throw new AppError('agent_not_found', { detail: `no agent "${name}"; known: ${names}. Set it up with: signet agent add ${name}` });
}

async function describeAgent(deps: AgentDeps, listing: AgentListing): Promise<AgentDetail> {
  const identity = loadIdentity(deps, listing.name);
  const entry = rosterOf(deps.config).find(({ name }) => name === listing.name);
  const absent = unknownSkills(skillPool(deps.folder) ?? [], entry?.skills);
  const files = IDENTITY_FILES.flatMap((name) => {
    const content = identity.files[name];
    return content === undefined ? [] : [{ name, origin: identity.origins[name]!, path: identity.paths[name]!, content }];
  });
  return {
    ...listing,
    identity: {
      name: identity.name ?? null,
      description: identity.description ?? null,
      files,
      missing: IDENTITY_FILES.filter((name) => identity.files[name] === undefined),
      cuts: cutsOf(deps, listing.name, identity),
    },
    skills_allowed: entry?.skills ?? null,
    memories: await deps.agents.counts(listing.name),
    warnings: [
      ...identity.warnings,
      ...absent.map((skill) => `the roster allows "${skill}", which is not in skills/`),
      ...(entry && lacksGroup(entry) ? [LACKS_GROUP] : []),
    ],
  };
}

/** For the runtime and each harness that is known. */
function cutsOf({ folder, config, contextTokensOf }: AgentDeps, agent: string, identity: Identity): AgentDetail['identity']['cuts'] {
  const contextTokens = contextTokensOf(agent);
  const askers = [
    ...(contextTokens === undefined ? [] : [{ harness: RUNTIME, contextTokens }]),
    ...Object.keys(HARNESS_INJECT_CHARS).map((harness) => ({ harness, contextTokens: undefined })),
  ];
  return askers.flatMap((asker) => {
    const restChars = restCharsMax(skillsInjectChars(asker.contextTokens));
    const receiver = receiverOf(config, asker, identity, restChars);
    const { truncated } = fitIdentity(folder, identity, IDENTITY_FILES, receiver, restChars);
    return truncated.map((cut) => ({ receiver: asker.harness, ...cut }));
  });
}

async function createAgent(deps: AgentDeps, input: CreateInput) {
  const { name, soul, roster: joins, ...said } = input;
  const { folder, log } = deps;
  const inRoster = rosterOf(deps.config).some((entry) => entry.name === name);
  if (inRoster) throw new AppError('agent_exists', { detail: `agent "${name}" is in the roster already; change its entry in agent.yaml` });
  // A template in a folder of its own would take the place of the workspace's SOUL.md.
  if (name === DEFAULT_AGENT)
    throw new AppError('agent_exists', {
      detail: '"default" is always there and lives in the workspace itself; what the roster says of it goes into agent.yaml',
    });
  if (!joins && hasAgentFolder(folder, name)) {
    throw new AppError('agent_exists', {
      detail: `agent "${name}" has a folder already; leave out roster: false to put it into the roster`,
    });
  }
  const isNew = !hasAgentFolder(folder, name);
  const created = await scaffoldAgent(folder, name, soul);
  try {
    if (joins) await addToRoster(folder, { name, ...said });
  } catch (error) {
    // An agent that is refused leaves nothing behind; a folder that was there before stays.
    if (isNew) await deleteAgentFolder(folder, name);
    throw error;
  }
  deps.live.reload();
  log.info({ category: 'agents', agent: name, files: created, roster: joins }, 'an agent was set up');
  return { ...(await describeAgent(deps, await requireListed(deps, name))), created };
}

async function deleteAgent(deps: AgentDeps, { name, purge, folder: withFolder }: DeleteInput, context: RequestContext) {
  if (name === DEFAULT_AGENT)
    throw new AppError('agent_protected', { detail: '"default" stands for whoever names no agent; it is always there' });
  // Memories of an agent that was removed before can still be purged.
  if (!(await deps.agents.hasAny(name))) await requireListed(deps, name);
  const roster = await removeFromRoster(deps.folder, name);
  // First: nobody writes as an agent that is being erased, nor as one of the same name later.
  const revoked = purge ? await revokeTokens(deps, name) : 0;
  const changedBy = context.header('x-signet-actor') || context.client || 'daemon';
  const archived = purge ? 0 : await deps.agents.archive(name, { reason: `agent ${name} was removed`, changedBy });
  const purged = purge ? await deps.agents.purge(name) : 0;
  const folder = (purge || withFolder) && (await deleteAgentFolder(deps.folder, name));
  deps.live.reload();
  deps.log.info(
    { category: 'agents', agent: name, archived, purged, revoked, roster, folder },
    purge ? 'an agent was purged' : 'an agent was removed',
  );
  return { success: true as const, name, archived, purged, roster, folder };
}

/** Those that are limited to this agent. Answers how many there were. */
async function revokeTokens({ tokens }: AgentDeps, agent: string): Promise<number> {
  const book = await tokens();
  const own = (await book.list()).filter((token) => token.agent === agent);
  for (const { id } of own) await book.revoke(id);
  return own.length;
}

function rosterOf(config: AgentYaml): readonly RosterAgent[] {
  return config.agents?.roster ?? [];
}
