import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Document, isAlias, isMap, isNode, isPair, isScalar, LineCounter, type Node, parseDocument, visit } from 'yaml';
import { AgentYaml } from '../contract/config.ts';
import { LACKS_GROUP, lacksGroup } from '../core/agent-policy.ts';
import { unknownSkills } from '../core/agent-skills.ts';
import { AppError } from '../core/errors.ts';
import { skillPool, skillsOutside } from './agent-skills.ts';
import { keysAt, nearestKey } from './agent-yaml-keys.ts';
import { strangeProviders } from './agent-yaml-providers.ts';
import { isSchedule, NO_SCHEDULES, strangersIn, workflowFaults } from './agent-yaml-workflows.ts';
import { readConfigFile } from './config-file.ts';

/** Looked for in this order; the first one counts. */
export const CONFIG_FILES = ['agent.yaml', 'AGENT.yaml', 'config.yaml'] as const;
/** A configuration beyond this is a mistake; unit: bytes. */
const CONFIG_BYTES_MAX = 1_048_576;
/** Aliases a file may resolve, against files that unfold to gigabytes. */
const ALIASES_MAX = 100;
const LEADS_OUT = 'is a link that leads out of the workspace; put the folder itself into skills/';
/** Skills that are named when one is unknown. */
const SKILLS_TOLD_MAX = 20;

export interface LoadedAgentYaml {
  /** Absolute path; null when there is none and the defaults hold. */
  readonly file: string | null;
  readonly config: AgentYaml;
  /** What is odd but not wrong, for the status page and the log. */
  readonly problems: readonly string[];
}

interface Finding {
  readonly pointer: string;
  /** `agent.yaml:12:3 unknown key "modle" in runtime; did you mean "model"?` */
  readonly detail: string;
}

/** Where things stand in the file, by path. */
interface Source {
  readonly name: string;
  readonly document: Document;
  readonly lines: LineCounter;
}

type Path = readonly PropertyKey[];

/**
 * Read and check the configuration of a workspace.
 *
 * @throws AppError config_invalid with every problem at once: file, line, column, JSON pointer and, for an unknown key, the nearest valid one
 */
export function readAgentYaml(folder: string): LoadedAgentYaml {
  // On file systems that ignore case the first two names are one file.
  const names = CONFIG_FILES.filter((name) => existsSync(join(folder, name)));
  const name = names[0];
  if (name === undefined) return { file: null, config: AgentYaml.parse({}), problems: [] };
  const file = join(folder, name);
  const { config, problems } = checkAgentYaml(folder, name, readConfigText(folder, name));
  const ignored = names.slice(1).filter((other) => statSync(join(folder, other)).ino !== statSync(file).ino);
  return { file, config, problems: [...ignored.map((other) => `${other} is ignored because ${name} is there`), ...problems] };
}

/**
 * The same of a text that is about to become the configuration of a workspace.
 *
 * @param name  of its file, for messages
 * @throws AppError config_invalid
 */
export function checkAgentYaml(folder: string, name: string, text: string): Pick<LoadedAgentYaml, 'config' | 'problems'> {
  const source = parse(name, text);
  const value = withoutNulls(toValue(source) ?? {});
  const checked = AgentYaml.safeParse(value);
  if (!checked.success) throw invalid(inOrder(checked.error.issues.flatMap((issue) => describe(source, issue))));
  const pool = skillPool(folder);
  const outside = skillsOutside(folder);
  const unknown = absentSkills(source, checked.data, pool ?? [], outside);
  const findings = [
    ...repeatedNames(source, checked.data),
    ...(pool === undefined ? [] : unknown),
    ...strangeBindings(source, checked.data),
    ...[...workflowFaults(folder, value, checked.data), ...strangeProviders(checked.data)].map(({ path, text }) =>
      finding(source, path, text),
    ),
  ];
  if (findings.length > 0) throw invalid(inOrder(findings));
  const warnings = source.document.warnings.map((warning) => `${at(source, warning.pos[0])} ${firstLine(warning.message)}`);
  const roster = checked.data.agents?.roster ?? [];
  const groupless = roster.filter(lacksGroup).map((entry) => `${name}: agent "${entry.name}": ${LACKS_GROUP}`);
  const strangers = strangersIn(checked.data).map(({ path, text }) => finding(source, path, text).detail);
  // Without a pool nothing can be said to be missing from it; it may be on its way.
  return {
    config: checked.data,
    problems: [
      ...warnings,
      ...groupless,
      ...strangers,
      ...outside.map((skill) => `skills/${skill} ${LEADS_OUT}`),
      ...(pool === undefined ? unknown : []).map(({ detail }) => detail),
    ],
  };
}

/** @throws AppError config_invalid when it cannot be read, is too long, or is not to be trusted */
export function readConfigText(folder: string, name: string): string {
  try {
    const text = readConfigFile(folder, name, CONFIG_BYTES_MAX);
    if (typeof text === 'string') return text;
    throw invalid([{ pointer: '', detail: `${name} has ${text.bytes} bytes; at most ${CONFIG_BYTES_MAX} are read` }]);
  } catch (error) {
    if (error instanceof AppError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new AppError('config_invalid', { detail: `cannot read ${join(folder, name)}: ${reason}`, cause: error });
  }
}

function parse(name: string, text: string): Source {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const source = { name, document, lines };
  if (document.errors.length > 0) {
    throw invalid(document.errors.map((error) => ({ pointer: '', detail: `${at(source, error.pos[0])} ${firstLine(error.message)}` })));
  }
  const circles = circularAliases(source);
  if (circles.length > 0) throw invalid(circles);
  return source;
}

/** An alias can lead back to itself only from inside the thing it names: what is named earlier is complete before the alias comes. */
function circularAliases(source: Source): Finding[] {
  const named = new Map<string, Node>();
  const findings: Finding[] = [];
  visit(source.document, (_key, node, path) => {
    if (isAlias(node)) {
      const target = named.get(node.source);
      if (target === undefined || !path.includes(target)) return;
      findings.push({ pointer: '', detail: `${at(source, node.range?.[0] ?? 0)} the alias *${node.source} stands inside what it names` });
    } else if (isNode(node) && node.anchor) named.set(node.anchor, node);
  });
  return findings;
}

function toValue({ name, document }: Source): unknown {
  try {
    return document.toJS({ maxAliasCount: ALIASES_MAX });
  } catch (error) {
    // The parser reports what aliases do wrong only here, and without a place.
    throw invalid([{ pointer: '', detail: `${name}: ${firstLine(error instanceof Error ? error.message : String(error))}` }]);
  }
}

function invalid(findings: readonly Finding[]): AppError {
  const detail = findings.map((finding) => finding.detail).join('\n');
  return new AppError('config_invalid', { detail, errors: findings });
}

interface Issue {
  readonly code?: string;
  readonly path: Path;
  readonly message: string;
  readonly keys?: readonly string[];
}

function describe(source: Source, issue: Issue): Finding[] {
  if (issue.code !== 'unrecognized_keys') {
    const detail = `${position(source, issue.path)} ${where(issue.path)}: ${lowerFirst(issue.message)}`;
    return [{ pointer: pointerOf(issue.path), detail }];
  }
  const valid = keysAt(AgentYaml, issue.path);
  return (issue.keys ?? []).map((key) => {
    const near = nearestKey(key, valid);
    const hint = near === undefined ? `; valid keys: ${valid.join(', ')}` : `; did you mean "${near}"?`;
    const path = [...issue.path, key];
    if (isSchedule(path)) return finding(source, path, NO_SCHEDULES);
    return { pointer: pointerOf(path), detail: `${position(source, path)} unknown key "${key}" in ${where(issue.path)}${hint}` };
  });
}

/** As they stand in the file. */
function inOrder(findings: readonly Finding[]): Finding[] {
  const place = (finding: Finding): number => {
    const [, line, column] = /:(\d+):(\d+) /.exec(finding.detail) ?? [];
    return Number(line) * CONFIG_BYTES_MAX + Number(column);
  };
  return [...findings].sort((a, b) => place(a) - place(b));
}

/** Two agents of one name would share memories without anybody meaning it. */
function repeatedNames(source: Source, config: AgentYaml): Finding[] {
  const seen = new Set<string>();
  return (config.agents?.roster ?? []).flatMap((agent, index) => {
    const path = ['agents', 'roster', index, 'name'];
    const isRepeated = seen.has(agent.name);
    seen.add(agent.name);
    return isRepeated ? [finding(source, path, `the name "${agent.name}" is taken already`)] : [];
  });
}

/** An allow-list that names a skill nobody has was meant to allow another one. */
function absentSkills(source: Source, config: AgentYaml, pool: readonly string[], outside: readonly string[]): Finding[] {
  const known = pool.length === 0 ? 'there are no skills in skills/' : `skills in skills/: ${pool.slice(0, SKILLS_TOLD_MAX).join(', ')}`;
  return (config.agents?.roster ?? []).flatMap((agent, index) =>
    unknownSkills(pool, agent.skills).map((skill) => {
      const path = ['agents', 'roster', index, 'skills', (agent.skills ?? []).indexOf(skill)];
      return finding(source, path, outside.includes(skill) ? `skill "${skill}" ${LEADS_OUT}` : `no skill "${skill}"; ${known}`);
    }),
  );
}

/** A binding to nobody would leave a chat without an answer. */
function strangeBindings(source: Source, config: AgentYaml): Finding[] {
  const names = (config.agents?.roster ?? []).map(({ name }) => name);
  return (config.agents?.openclaw?.bindings ?? []).flatMap(({ agent }, index) => {
    const path = ['agents', 'openclaw', 'bindings', index, 'agent'];
    const known = `agents of the roster: ${names.join(', ') || 'none'}`;
    return names.includes(agent) ? [] : [finding(source, path, `no agent "${agent}"; ${known}`)];
  });
}

function finding(source: Source, path: Path, text: string): Finding {
  return { pointer: pointerOf(path), detail: `${position(source, path)} ${where(path)}: ${text}` };
}

function where(path: Path): string {
  return path.length === 0 ? 'the file' : path.join('.');
}

function pointerOf(path: Path): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** The key's place if there is one, else the nearest enclosing thing that has a place. */
function position(source: Source, path: Path): string {
  for (let length = path.length; length > 0; length -= 1) {
    const offset = offsetOf(source.document, path.slice(0, length));
    if (offset !== undefined) return at(source, offset);
  }
  return at(source, 0);
}

function offsetOf(document: Document, path: Path): number | undefined {
  const last = path.at(-1);
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (isMap(parent)) {
    const pair = parent.items.find((item) => isPair(item) && isScalar(item.key) && String(item.key.value) === String(last));
    return (pair?.key as Node | undefined)?.range?.[0];
  }
  return (document.getIn(path, true) as Node | undefined)?.range?.[0];
}

function at(source: Source, offset: number): string {
  const { line, col } = source.lines.linePos(offset);
  return `${source.name}:${line}:${col}`;
}

/** Here a null is a value like any other. */
const DATA = /^\/workflows\/[^/]+\/(?:state|input)$|^\/agents\/roster\/\*\/reactive\/output$/;

/** `hooks:` with nothing below means the same as no `hooks:`; people comment sections out like that. */
function withoutNulls(value: unknown, path = ''): unknown {
  if (DATA.test(path)) return value;
  if (Array.isArray(value)) return value.map((inner) => withoutNulls(inner, `${path}/*`));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== null)
      .map(([key, inner]) => [key, withoutNulls(inner, `${path}/${key}`)]),
  );
}

function firstLine(text: string): string {
  return lowerFirst(text.split('\n')[0] ?? text);
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
