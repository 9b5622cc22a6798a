import { isDeepStrictEqual } from 'node:util';
import { type JSONPath, type ParseError, parse, printParseErrorCode } from 'jsonc-parser';
import { JsonText } from './json-text.ts';

/** An agent as OpenClaw is told of it. */
export interface OpenclawAgent {
  readonly id: string;
  /** Absolute path. */
  readonly workspace: string;
  /** Undefined leaves it to OpenClaw: all. */
  readonly skills?: readonly string[] | undefined;
  readonly displayName: string;
  /** Text of its SOUL.md; OpenClaw calls it the theme. */
  readonly soul?: string | undefined;
}

export interface OpenclawPlan {
  /** The workspace of all agents. */
  readonly folder: string;
  readonly agents: readonly OpenclawAgent[];
  /** `agents` is the whole roster: entries of agents that are gone are taken out, or lose our keys when they hold others. Otherwise only these entries are touched. */
  readonly isWhole: boolean;
  /** Undefined leaves the bindings alone. */
  readonly bindings?: readonly { readonly agent: string; readonly match: Readonly<Record<string, unknown>> }[] | undefined;
  /** Is this the workspace of an agent of ours, as we write it? */
  readonly isOurs: (workspace: string) => boolean;
}

export type Patched = { readonly text: string } | { readonly problem: string };

/** What we write into an entry beside its id and its identity, and into that. */
const OWN_KEYS = ['name', 'workspace', 'skills'];
const OWN_IDENTITY_KEYS = ['name', 'theme'];

type Json = Readonly<Record<string, unknown>>;

/**
 * Tell an openclaw.json of the roster. Only what differs is written: comments, order and unknown keys stay, and the same plan again
 * changes nothing. A text that is no JSON with comments, or has something else in these places, is left alone.
 *
 * @source spec/multi-agent, phase 8
 */
export function patchOpenclaw(text: string, plan: OpenclawPlan): Patched {
  const errors: ParseError[] = [];
  const root: unknown = parse(text, errors, { allowTrailingComma: true });
  const first = errors[0];
  if (first) return { problem: `is no JSON with comments: ${printParseErrorCode(first.error)} at character ${first.offset}` };
  if (!isObject(root)) return { problem: 'holds no object' };
  const agents = root.agents ?? {};
  if (!isObject(agents)) return { problem: 'has something else than an object under "agents"' };
  const { defaults = {}, list = [] } = agents;
  const { bindings = [] } = root;
  if (!isObject(defaults)) return { problem: 'has something else than an object under "agents.defaults"' };
  if (!isList(list)) return { problem: 'has something else than a list of objects under "agents.list"' };
  if (!isList(bindings)) return { problem: 'has something else than a list of objects under "bindings"' };

  const edited = new JsonText(text);
  // Somebody's own choice of a workspace stays.
  if (plan.agents.length > 0 && defaults.workspace === undefined) edited.set(['agents', 'defaults', 'workspace'], plan.folder);
  const gone = plan.isWhole ? goneFrom(list, plan) : [];
  patchList(edited, list, plan, gone);
  patchBindings(
    edited,
    bindings,
    plan,
    gone.filter((entry) => !hasMore(entry)).map(({ id }) => id),
  );
  return { text: edited.text };
}

/** Entries that are ours, of agents that are in the roster no more. */
function goneFrom(list: readonly Json[], { agents, isOurs }: OpenclawPlan): Json[] {
  const isGone = (entry: Json): boolean =>
    typeof entry.workspace === 'string' && isOurs(entry.workspace) && !agents.some(({ id }) => id === entry.id);
  return list.filter(isGone);
}

/** Did somebody write into an entry what we never write? Then it was theirs before it was ours, or became theirs. */
function hasMore(entry: Json): boolean {
  const { identity = {} } = entry;
  if (Object.keys(entry).some((key) => key !== 'id' && key !== 'identity' && !OWN_KEYS.includes(key))) return true;
  return !isObject(identity) || Object.keys(identity).some((key) => !OWN_IDENTITY_KEYS.includes(key));
}

/** Without what we wrote into it. */
function stripEntry(edited: JsonText, path: JSONPath, entry: Json): void {
  for (const key of OWN_KEYS) if (key in entry) edited.set([...path, key], undefined);
  const { identity } = entry;
  if (!isObject(identity)) return;
  const own = OWN_IDENTITY_KEYS.filter((key) => key in identity);
  if (own.length === Object.keys(identity).length) edited.set([...path, 'identity'], undefined);
  else for (const key of own) edited.set([...path, 'identity', key], undefined);
}

function patchList(edited: JsonText, list: readonly Json[], { agents }: OpenclawPlan, gone: readonly Json[]): void {
  // From behind, so that the places of those before stay what they are.
  for (let place = list.length - 1; place >= 0; place -= 1) {
    const entry = list[place]!;
    const path: JSONPath = ['agents', 'list', place];
    if (gone.includes(entry)) {
      if (hasMore(entry)) stripEntry(edited, path, entry);
      else edited.remove(path);
      continue;
    }
    const agent = agents.find(({ id }) => id === entry.id);
    if (!agent) continue;
    for (const [key, value] of Object.entries(entryOf(agent))) {
      if (key !== 'identity' && !isDeepStrictEqual(entry[key], value)) edited.set([...path, key], value);
    }
    const identity = isObject(entry.identity) ? entry.identity : {};
    for (const [key, value] of Object.entries(entryOf(agent).identity)) {
      if (value !== undefined && identity[key] !== value) edited.set([...path, 'identity', key], value);
    }
  }
  for (const agent of agents) {
    if (!list.some((entry) => entry.id === agent.id)) edited.append(['agents', 'list'], withoutUndefined(entryOf(agent)));
  }
}

/** `name`, `theme` and so on are OpenClaw's own keys: it refuses a file with others. */
function entryOf({ id, workspace, skills, displayName, soul }: OpenclawAgent) {
  return { id, name: id, workspace, skills, identity: withoutUndefined({ name: displayName, theme: soul }) };
}

/** Those of the roster's agents are what agent.yaml says; all others stay. */
function patchBindings(edited: JsonText, bindings: readonly Json[], plan: OpenclawPlan, gone: readonly unknown[]): void {
  const wanted = (plan.bindings ?? []).map(({ agent, match }) => ({ agentId: agent, match }));
  const managed = plan.bindings === undefined ? [] : plan.agents.map(({ id }) => id);
  const isWanted = (binding: Json): boolean => wanted.some((other) => isDeepStrictEqual(other, binding));
  for (let place = bindings.length - 1; place >= 0; place -= 1) {
    const binding = bindings[place]!;
    const isManaged = managed.includes(String(binding.agentId)) || gone.includes(binding.agentId);
    if (isManaged && !isWanted(binding)) edited.remove(['bindings', place]);
  }
  for (const binding of wanted) if (!bindings.some((other) => isDeepStrictEqual(other, binding))) edited.append(['bindings'], binding);
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isList(value: unknown): value is readonly Json[] {
  return Array.isArray(value) && value.every(isObject);
}

function withoutUndefined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== undefined)) as T;
}
