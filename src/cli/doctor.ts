import { accessSync, constants, statSync } from 'node:fs';
import { agentOperations } from '../contract/agents.ts';
import { isAppError } from '../core/errors.ts';
import { cutLines } from './agent-actions.ts';
import { type CliContext, CliExit, describeFailure, EXIT } from './context.ts';
import { daemonAt } from './daemon-api.ts';
import { formatProvider, readStatus, type Status } from './daemon-status.ts';
import { createStyle } from './terminal.ts';
import { plainLine, safeJson } from './terminal-text.ts';
import { type AddressFlags, clientAt, workspaceFolder } from './workspace.ts';

/** Deadline of each question, in ms. */
const ANSWER_TIMEOUT_MS = 5_000;
/** Agents whose identity is looked at. */
const AGENTS_MAX = 100;
const LINE_CHARS_MAX = 1_000;

export type DoctorFlags = { readonly path?: string; readonly json?: boolean };

/** What one check found. A `problem` makes the command fail, a `note` does not. */
export interface Finding {
  readonly check: string;
  readonly level: 'ok' | 'note' | 'problem';
  readonly text: string;
  /** What to do about it. */
  readonly fix?: string;
}

export interface Patient {
  readonly context: CliContext;
  readonly flags: AddressFlags;
  readonly status: Status;
}

type Check = (patient: Patient) => Finding[] | Promise<Finding[]>;

/** In the order in which they are shown; a new one is a line here. */
const CHECKS: Readonly<Record<string, Check>> = {
  workspace: checkWorkspace,
  configuration: checkConfiguration,
  daemon: checkDaemon,
  provider: checkProvider,
  identity: checkIdentity,
};

/** What is wrong with this installation, and what to do about it. @throws CliExit when there is a problem */
export async function examine(context: CliContext, { json, ...flags }: DoctorFlags): Promise<void> {
  const patient = { context, flags, status: await readStatus(context, flags) };
  const findings: Finding[] = [];
  for (const [check, look] of Object.entries(CHECKS)) findings.push(...(await safely(check, () => look(patient))));
  context.stdout.write(json ? `${safeJson({ findings }, 2)}\n` : describe(findings, context));
  if (findings.some(({ level }) => level === 'problem')) throw new CliExit(EXIT.failure);
}

/** A check that fails is a finding like any other: the rest is looked at all the same. */
async function safely(check: string, look: () => Finding[] | Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await look();
  } catch (error) {
    if (!isAppError(error)) throw error;
    return [{ check, level: 'problem', text: describeFailure(error) }];
  }
}

function describe(findings: readonly Finding[], { stdout, env }: CliContext): string {
  const style = createStyle(stdout, env);
  const marks = { ok: style.green('ok'), note: style.yellow('note'), problem: style.red('problem') };
  const lines = findings.flatMap(({ check, level, text, fix }) => [
    `${marks[level]}  ${check}: ${plainLine(text, LINE_CHARS_MAX)}`,
    ...(fix === undefined ? [] : [`    fix: ${plainLine(fix, LINE_CHARS_MAX)}`]),
  ]);
  return `${lines.join('\n')}\n`;
}

function checkWorkspace({ context, flags }: Patient): Finding[] {
  const folder = workspaceFolder(context, flags.path);
  const check = 'workspace';
  const stats = statSync(folder, { throwIfNoEntry: false });
  if (!stats) return [{ check, level: 'problem', text: `${folder} is not there`, fix: 'signet start makes it' }];
  if (!stats.isDirectory()) return [{ check, level: 'problem', text: `${folder} is no folder`, fix: 'name another one with SIGNET_PATH' }];
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return [{ check, level: 'problem', text: `${folder} cannot be written by this user`, fix: `chown -R "$USER" ${folder}` }];
  }
  return [{ check, level: 'ok', text: folder }];
}

async function checkConfiguration({ context, flags, status }: Patient): Promise<Finding[]> {
  const check = 'configuration';
  const fix = 'correct agent.yaml; docs/configuration.md has every key';
  try {
    await context.checkStart({ ...context.env, SIGNET_PATH: workspaceFolder(context, flags.path) });
  } catch (error) {
    return [{ check, level: 'problem', text: describeFailure(error), fix }];
  }
  const odd = (status.configProblems ?? []).map((text): Finding => ({ check, level: 'note', text, fix }));
  return odd.length > 0 ? odd : [{ check, level: 'ok', text: 'agent.yaml is in order' }];
}

function checkDaemon({ status }: Patient): Finding[] {
  const check = 'daemon';
  if (status.unanswered)
    return [
      {
        check,
        level: 'problem',
        text: `pid ${status.pid} runs but does not answer`,
        fix: 'signet stop --force, signet logs, signet start',
      },
    ];
  if (!status.running) return [{ check, level: 'problem', text: status.problem ?? 'not running', fix: 'signet start' }];
  if (!status.daemonReachable)
    return [{ check, level: 'problem', text: `the runtime does not reach ${status.daemonUrl}`, fix: 'signet restart, then signet logs' }];
  const level = status.health === 'healthy' ? 'ok' : 'note';
  return [
    {
      check,
      level,
      text: [`${status.health}, version ${status.version}, pid ${status.pid}`, ...status.reasons].join('; '),
      ...(level === 'ok' ? {} : { fix: 'signet logs' }),
    },
  ];
}

async function checkProvider({ context, flags, status }: Patient): Promise<Finding[]> {
  const check = 'provider';
  if (!status.running || !status.provider || !status.runtimeUrl) return [];
  const named = formatProvider(status.provider);
  if (status.provider.offlineDemo)
    return [
      {
        check,
        level: 'note',
        text: 'no key is set: the offline demo answers',
        fix: 'set ANTHROPIC_API_KEY or OPENAI_API_KEY, or runtime.providers in agent.yaml; then signet restart',
      },
    ];
  const { available, detail } = await clientAt(context, status.runtimeUrl, flags.path).providers.status(status.provider.id);
  if (available) return [{ check, level: 'ok', text: named }];
  return [
    {
      check,
      level: 'problem',
      text: `${named} does not answer${detail ? `: ${detail}` : ''}`,
      fix: 'check its key, its baseUrl and the network',
    },
  ];
}

async function checkIdentity({ context, flags, status }: Patient): Promise<Finding[]> {
  if (!status.running || !status.daemonUrl) return [];
  const daemon = daemonAt(context, status.daemonUrl, flags.path);
  const { agents } = await daemon.call(agentOperations.listAgents, {}, { timeoutMs: ANSWER_TIMEOUT_MS });
  const findings: Finding[] = [];
  for (const { name } of agents.slice(0, AGENTS_MAX)) {
    const { identity, warnings } = await daemon.call(agentOperations.getAgent, { name }, { timeoutMs: ANSWER_TIMEOUT_MS });
    const check = `identity of ${name}`;
    const fix =
      'shorten the file, move parts of it into skills, or raise hooks.sessionStart.maxInjectChars (harnesses) or identity.maxTokens';
    findings.push(...cutLines(identity.cuts).map((text): Finding => ({ check, level: 'note', text, fix })));
    findings.push(...warnings.map((text): Finding => ({ check, level: 'note', text })));
  }
  return findings.length > 0 ? findings : [{ check: 'identity', level: 'ok', text: 'the files of every agent reach all who ask, whole' }];
}
