import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { RuntimeClient } from '../client/runtime-client.ts';
import type { WorkflowSummary, WorkflowView } from '../contract/workflow-operations.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { formatEvent } from './session-display.ts';
import { createStyle, formatDuration, formatTable } from './terminal.ts';
import { plainLine, safeJson } from './terminal-text.ts';
import { type AddressFlags, requireClient } from './workspace.ts';

const VALUE_CHARS_MAX = 400;
const FILE = /\.(ya?ml|json)$/;
const GOOD_ENDS: ReadonlySet<unknown> = new Set(['quiescent', 'end-when']);

type Flags = AddressFlags & { readonly json?: boolean };
type Start = Parameters<RuntimeClient['workflow']['start']>[0];
export type RunFlags = Flags & { readonly input?: string; readonly state?: Record<string, unknown>; readonly detach?: boolean };

export async function runWorkflow(
  context: CliContext,
  workflow: string,
  { json, detach, input, state, ...address }: RunFlags,
): Promise<void> {
  const client = requireClient(context, address);
  const given = FILE.test(workflow) ? await readDefinition(resolve(context.cwd, workflow)) : ({ name: workflow } as Start);
  const started = await client.workflow.start({
    ...given,
    ...(input === undefined ? {} : { input: jsonOrText(input) }),
    ...(state ? { state } : {}),
  });
  if (detach) return void context.stdout.write(json ? `${safeJson(started, 2)}\n` : `${started.id}\n`);
  const unlisten = context.onInterrupt(() => void client.workflow.abort(started.id, 'interrupt').catch(() => undefined)); // The stream tells.
  const style = createStyle(context.stdout, context.env);
  let reason: unknown;
  try {
    for await (const event of client.workflow.stream(started.id)) {
      if (event.seq === undefined) continue;
      context.stdout.write(`${json ? safeJson(event) : formatEvent(event, style)}\n`);
      if (event.name === 'workflow:end') reason = event.payload.reason;
    }
  } finally {
    unlisten();
  }
  if (!GOOD_ENDS.has(reason)) throw new CliExit(EXIT.failure, `workflow ${started.id} ended: ${reason ?? 'the stream broke off'}`);
}

export async function listWorkflows(context: CliContext, { limit, json, ...address }: Flags & { readonly limit: number }): Promise<void> {
  const page = await requireClient(context, address).workflow.list({ limit });
  if (json) return void context.stdout.write(`${safeJson(page, 2)}\n`);
  if (page.items.length === 0) return void context.stderr.write('No workflows. Run one with: signet workflow run <name or file>\n');
  context.stdout.write(formatWorkflows(page.items, Date.now()));
  if (page.items.some(({ damage }) => damage))
    context.stderr.write(
      'A damaged workflow does not go on. What is wrong: signet workflow show <id>; forget it: signet workflow abort <id> --purge\n',
    );
  if (page.next) context.stderr.write('There are more; see them with --limit\n');
}

/** @param now  milliseconds since 1970, what the ages are counted from */
export function formatWorkflows(items: readonly WorkflowSummary[], now: number): string {
  const rows = items.map(({ id, name, status, reason, startedAt, damage }) => [
    id,
    plainLine(name, VALUE_CHARS_MAX),
    statusText(status, reason, damage),
    startedAt === null ? '-' : formatDuration(now - Date.parse(startedAt)),
  ]);
  return formatTable(['WORKFLOW', 'NAME', 'STATUS', 'STARTED'], rows);
}

function statusText(status: string, reason: string | null, damage: WorkflowSummary['damage']): string {
  const detail = damage ? `at signal ${damage.seq}` : reason;
  return detail ? `${status} (${detail})` : status;
}

export async function showWorkflow(context: CliContext, id: string, flags: Flags): Promise<void> {
  print(context, await requireClient(context, flags).workflow.get(id), flags);
}

export async function abortWorkflow(
  context: CliContext,
  id: string,
  flags: Flags & { readonly reason?: string; readonly purge?: boolean },
): Promise<void> {
  print(context, await requireClient(context, flags).workflow.abort(id, flags.reason, { purge: flags.purge }), flags);
  if (flags.purge && !flags.json) context.stderr.write(`The log of ${id} is forgotten\n`);
}

function print(context: CliContext, view: WorkflowView, { json }: Flags): void {
  context.stdout.write(json ? `${safeJson(view, 2)}\n` : formatWorkflow(view));
}

export function formatWorkflow(view: WorkflowView): string {
  const { live, waiting, usage, error } = view;
  const rows: readonly (readonly [string, string])[] = [
    ['workflow', view.id],
    ['name', plainLine(view.name, VALUE_CHARS_MAX)],
    ['status', statusText(view.status, view.reason, view.damage)],
    ...(error ? [['error', plainLine(`${error.code}: ${error.message}`, VALUE_CHARS_MAX)] as const] : []),
    ['agents', view.agents.join(', ')],
    ['activations', `${view.activations}, ${view.skipped} skipped`],
    ...live.map(({ agent, session }) => ['running', `${agent} in ${session}`] as const),
    ...Object.entries(waiting).map(([agent, count]) => ['waiting', `${count} for ${agent}`] as const),
    ['tokens', `${usage.inputTokens} in, ${usage.outputTokens} out`],
    ...Object.entries(view.state).map(([key, value]) => [`state.${key}`, plainLine(safeJson(value), VALUE_CHARS_MAX)] as const),
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${value}\n`).join('');
}

/** A workflow in a file says the same as the body of POST /workflows. */
async function readDefinition(file: string): Promise<Start> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new CliExit(EXIT.failure, `${file} cannot be read: ${(error as Error).message}`);
  }
  try {
    const value: unknown = file.endsWith('.json') ? JSON.parse(text) : (await import('yaml')).parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Start;
  } catch (error) {
    throw new CliExit(EXIT.failure, `${file} cannot be read as a workflow: ${(error as Error).message}`);
  }
  throw new CliExit(EXIT.failure, `${file} holds no workflow; it must say agents, as the body of POST /workflows does`);
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text; // Plain words are an input, too.
  }
}
