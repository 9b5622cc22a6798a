import type { ReadPolicy } from '../contract/agent-config.ts';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import type { Reader } from './memory-store.ts';

/** What the roster says of one agent's reading. */
export interface PolicyEntry {
  readonly name: string;
  readonly read_policy?: ReadPolicy | undefined;
  readonly policy_group?: string | undefined;
}

/** Whose global memories each agent sees beside its own. */
export interface ReadPolicies {
  /** Sorted, itself included; undefined means everybody's. */
  circleOf(agentId: string): readonly string[] | undefined;
  /** Agents that stand in any circle, sorted. */
  readonly apart: readonly string[];
}

/** Every agent sees the global memories of all. @source spec/multi-agent, "buildAgentScopeClause" */
export const OPEN_POLICIES: ReadPolicies = { circleOf: () => undefined, apart: [] };

export function readPolicies(roster: readonly PolicyEntry[]): ReadPolicies {
  const circles = new Map(
    roster.flatMap((entry) => {
      const circle = circleIn(roster, entry);
      return circle === undefined ? [] : [[entry.name, circle] as const];
    }),
  );
  if (circles.size === 0) return OPEN_POLICIES;
  const apart = [...new Set([...circles.values()].flat())].sort();
  return { circleOf: (agentId) => circles.get(agentId), apart };
}

/** The policies of a roster that may change: reckoned anew only when it does. */
export function followPolicies(roster: () => readonly PolicyEntry[]): () => ReadPolicies {
  let known: readonly PolicyEntry[] = [];
  let policies = OPEN_POLICIES;
  return () => {
    const now = roster();
    if (now !== known) {
      known = now;
      policies = readPolicies(now);
    }
    return policies;
  };
}

/** Who names no agent reads as `default` does. */
export function underPolicies(reader: Reader, policies: ReadPolicies): Reader {
  if (policies.apart.length === 0) return reader;
  return { ...reader, circle: policies.circleOf(reader.agentId ?? DEFAULT_AGENT), apart: policies.apart };
}

/** What is said of an agent with the policy `group` that names none. */
export const LACKS_GROUP = 'read_policy "group" without policy_group: it sees its own memories alone; name a group, or say isolated';

export function lacksGroup({ read_policy, policy_group }: Pick<PolicyEntry, 'read_policy' | 'policy_group'>): boolean {
  return read_policy === 'group' && policy_group === undefined;
}

function circleIn(roster: readonly PolicyEntry[], { name, read_policy, policy_group }: PolicyEntry): readonly string[] | undefined {
  if (read_policy === undefined || read_policy === 'shared') return undefined;
  if (read_policy === 'isolated' || policy_group === undefined) return [name];
  const members = roster.filter((other) => other.policy_group === policy_group).map((other) => other.name);
  return [...new Set([name, ...members])].sort();
}
