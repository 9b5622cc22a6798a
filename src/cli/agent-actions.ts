import { createInterface } from 'node:readline';
import type { AgentDetail, AgentListing } from '../contract/agents.ts';
import { agentOperations, SOUL_CHARS_MAX } from '../contract/agents.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { type DaemonFlags, requireDaemonApi } from './daemon-api.ts';
import { readStdinText } from './stdin-text.ts';
import { formatTable } from './terminal.ts';
import { plainLine, plainText, safeJson } from './terminal-text.ts';

const CELL_CHARS_MAX = 60;

type Flags = DaemonFlags & { readonly json?: boolean };
export type AddFlags = Flags & {
  readonly soul?: string;
  readonly model?: string;
  readonly provider?: string;
  /** False for --no-skills; true when nothing is said. */
  readonly skills?: string | boolean;
  readonly policy?: AgentListing['read_policy'];
  readonly group?: string;
  readonly roster: boolean;
};

export async function listAgents(context: CliContext, flags: Flags): Promise<void> {
  const answer = await requireDaemonApi(context, flags).call(agentOperations.listAgents, {});
  if (flags.json) return print(context, answer);
  const rows = answer.agents.map((agent) => [
    agent.name,
    agent.source,
    agent.folder ? `agents/${agent.name}` : '-',
    plainLine([agent.provider, agent.model].filter(Boolean).join(' ') || '-', CELL_CHARS_MAX),
    policyOf(agent),
    plainLine(agent.skills.join(', ') || '-', CELL_CHARS_MAX),
  ]);
  context.stdout.write(formatTable(['AGENT', 'FROM', 'FOLDER', 'MODEL', 'READS', 'SKILLS'], rows));
  for (const problem of answer.problems) context.stderr.write(`${plainLine(problem, Number.MAX_SAFE_INTEGER)}\n`);
}

export async function addAgent(context: CliContext, name: string, flags: AddFlags): Promise<void> {
  const daemon = requireDaemonApi(context, flags);
  const { model, provider, policy, group, roster } = flags;
  const soul = await personality(context, name, flags.soul);
  const skills = skillsOf(flags.skills);
  const agent = await daemon.call(agentOperations.createAgent, {
    name,
    roster,
    ...(soul === undefined ? {} : { soul }),
    ...(model === undefined ? {} : { model }),
    ...(provider === undefined ? {} : { provider }),
    ...(skills === undefined ? {} : { skills }),
    ...(policy === undefined ? {} : { read_policy: policy }),
    ...(group === undefined ? {} : { policy_group: group }),
  });
  if (flags.json) return print(context, agent);
  const written = agent.created.length === 0 ? 'its files were there already' : agent.created.join(', ');
  context.stdout.write(`${agent.name} is set up: ${plainText(written)}${roster ? ', agents.roster in agent.yaml' : ''}\n`);
  warn(context, agent);
}

export async function removeAgent(context: CliContext, name: string, flags: Flags & { readonly folder?: boolean }): Promise<void> {
  const asked = { name, folder: flags.folder ?? false };
  const answer = await requireDaemonApi(context, flags).call(agentOperations.deleteAgent, asked);
  if (flags.json) return print(context, answer);
  const roster = answer.roster ? 'out of the roster' : 'was not in the roster';
  const folder = answer.folder ? 'its folder is deleted' : `its folder agents/${answer.name} stays where it is`;
  context.stdout.write(`${answer.name}: ${roster}, ${memories(answer.archived)} archived, ${folder}\n`);
}

export async function purgeAgent(context: CliContext, name: string, flags: Flags & { readonly yes?: boolean }): Promise<void> {
  const daemon = requireDaemonApi(context, flags);
  if (!flags.yes) await confirmPurge(context, name);
  const answer = await daemon.call(agentOperations.deleteAgent, { name, purge: true });
  if (flags.json) return print(context, answer);
  context.stdout.write(`${answer.name}: ${memories(answer.purged)} deleted for good${answer.folder ? ', with its folder' : ''}\n`);
}

export async function showAgent(context: CliContext, name: string, flags: Flags): Promise<void> {
  const agent = await requireDaemonApi(context, flags).call(agentOperations.getAgent, { name });
  if (flags.json) return print(context, agent);
  const { identity, memories: held } = agent;
  const facts = [
    ['Agent', [agent.name, identity.name && identity.name !== agent.name ? `(${identity.name})` : ''].join(' ').trim()],
    ['From', agent.source],
    ['Model', [agent.provider, agent.model].filter(Boolean).join(' ') || 'as configured for all'],
    ['Reads', policyOf(agent)],
    ['Skills', skillsText(agent)],
    ['Memories', `${held.global} global, ${held.private} private, ${held.archived} archived`],
  ] as const;
  for (const [label, value] of facts) context.stdout.write(`${label.padEnd(10)}${plainLine(value, Number.MAX_SAFE_INTEGER)}\n`);
  const rows = [
    ...identity.files.map((file) => [
      file.name,
      file.origin === 'agent' ? 'overridden' : 'inherited',
      plainLine(file.path, CELL_CHARS_MAX),
    ]),
    ...identity.missing.map((file) => [file, 'missing', '-']),
  ];
  context.stdout.write(`\n${formatTable(['FILE', 'ORIGIN', 'PATH'], rows)}`);
  for (const line of cutLines(identity.cuts)) context.stderr.write(`${plainLine(line, Number.MAX_SAFE_INTEGER)}\n`);
  warn(context, agent);
}

/** One line for each file that is cut, with all who get as much of it. */
export function cutLines(cuts: AgentDetail['identity']['cuts']): string[] {
  const receivers = new Map<string, string[]>();
  for (const { receiver, file, given, of } of cuts) {
    const what = `about ${given} of the ${of} characters of ${file}, and the path to the rest`;
    receivers.set(what, [...(receivers.get(what) ?? []), receiver === 'signet' ? 'the runtime' : receiver]);
  }
  return [...receivers].map(([what, names]) => `sessions of ${names.join(', ')} begin with ${what}`);
}

function policyOf({ read_policy, policy_group }: AgentListing): string {
  return policy_group === null ? read_policy : `${read_policy} ${policy_group}`;
}

function skillsText({ skills, skills_allowed }: AgentDetail): string {
  const listed = skills.join(', ') || 'none';
  return skills_allowed === null ? `${listed} (all there are)` : listed;
}

function skillsOf(said: string | boolean | undefined): string[] | undefined {
  if (typeof said === 'string') {
    return said
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '');
  }
  return said === false ? [] : undefined;
}

function memories(count: number): string {
  return count === 1 ? '1 memory' : `${count} memories`;
}

function warn(context: CliContext, { warnings }: AgentDetail): void {
  for (const warning of warnings) context.stderr.write(`${plainLine(warning, Number.MAX_SAFE_INTEGER)}\n`);
}

/** As told, from stdin, or asked for where somebody can answer; undefined takes the template. */
async function personality(context: CliContext, name: string, told: string | undefined): Promise<string | undefined> {
  if (told === '-') return (await readStdinText(context, 'a personality', SOUL_CHARS_MAX)).trim() || undefined;
  if (told !== undefined || !context.stdin.isTTY) return told;
  return (await ask(context, `Personality of ${plainText(name)}, in a few words (Enter for a template): `)) || undefined;
}

async function confirmPurge(context: CliContext, name: string): Promise<void> {
  if (!context.stdin.isTTY) throw new CliExit(EXIT.usage, `purging deletes the memories of ${name} for good; say --yes when that is meant`);
  const question = `Memories, transcripts and folder of ${plainText(name)} will be deleted for good. Type its name to go on: `;
  if ((await ask(context, question)) !== name) throw new CliExit(EXIT.failure, 'nothing was deleted');
}

/** One line from the terminal; '' at its end. */
async function ask(context: CliContext, question: string): Promise<string> {
  context.stderr.write(question);
  const lines = createInterface({ input: context.stdin, terminal: false });
  try {
    for await (const line of lines) return line.trim();
    return '';
  } finally {
    lines.close();
    context.stdin.pause();
  }
}

function print(context: CliContext, value: unknown): void {
  context.stdout.write(`${safeJson(value, 2)}\n`);
}
