import { type Command, InvalidArgumentError, Option } from 'commander';
import type { OutputOf } from '../contract/operation.ts';
import type { UsageKey, UsagePurpose } from '../contract/usage.ts';
import { UsagePurpose as Purposes, USAGE_ROWS_MAX, type UsageRow, usageOperations } from '../contract/usage.ts';
import { systemClock } from '../core/clock.ts';
import { dayOf } from '../core/usage.ts';
import type { CliContext } from './context.ts';
import { addDaemonAddressOptions, type DaemonFlags, requireDaemonApi } from './daemon-api.ts';
import { wholeNumberArgument } from './options.ts';
import { formatTable } from './terminal.ts';
import { plainLine, safeJson } from './terminal-text.ts';

const DAY_MS = 86_400_000;
const DAYS_MAX = 400;
const ROWS = 100;
/** Of a name in a cell. */
const CELL_CHARS_MAX = 48;
const USD_DIGITS = 6;

type Usage = OutputOf<typeof usageOperations.usage>;
type Flags = DaemonFlags & {
  readonly by: string;
  readonly days: number;
  readonly agent?: string;
  readonly session?: string;
  readonly purpose?: UsagePurpose;
  readonly limit: number;
  readonly json?: boolean;
};

/** `usage`: what calls of providers cost, and for what. */
export function addUsageCommand(program: Command, context: CliContext): void {
  addDaemonAddressOptions(program.command('usage').description('what calls of model and embedding providers used and cost, and for what'))
    .option(
      '--by <keys>',
      'sum by day, purpose, agent, session, workflow, provider, model; separated by commas',
      keysArgument,
      'day,purpose',
    )
    .option('--days <number>', 'how many days of UTC, today included', wholeNumberArgument(1, DAYS_MAX), 1)
    .option('--agent <name>', 'only of this agent')
    .option('--session <key>', 'only of this session, its background jobs included')
    .addOption(new Option('--purpose <purpose>', 'only for this').choices([...Purposes.options]))
    .option('-l, --limit <number>', 'rows, dearest first', wholeNumberArgument(1, USAGE_ROWS_MAX), ROWS)
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  signet usage\n  signet usage --days 7 --by agent,purpose\n  signet usage --by session --json')
    .action((flags: Flags) => showUsage(context, flags));
}

async function showUsage(context: CliContext, flags: Flags): Promise<void> {
  const nowMs = systemClock.now();
  const usage = await requireDaemonApi(context, flags).call(usageOperations.usage, {
    by: flags.by,
    from: dayOf(nowMs - (flags.days - 1) * DAY_MS),
    to: dayOf(nowMs),
    limit: flags.limit,
    ...(flags.agent === undefined ? {} : { agentId: flags.agent }),
    ...(flags.session === undefined ? {} : { sessionKey: flags.session }),
    ...(flags.purpose === undefined ? {} : { purpose: flags.purpose }),
  });
  context.stdout.write(flags.json ? `${safeJson(usage, 2)}\n` : formatUsage(usage, flags.by.split(',') as UsageKey[]));
}

function formatUsage({ from, to, rows, more, total, budget }: Usage, keys: readonly UsageKey[]): string {
  const numbers = (row: Usage['total']) => [
    ...[row.calls, row.retries, row.failed + row.aborted + row.interrupted].map(String),
    ...[row.inputTokens, row.outputTokens].map(String),
    dollars(row.costUsd),
  ];
  const named = (row: UsageRow) => keys.map((key) => plainLine(row[key] || '-', CELL_CHARS_MAX));
  const head = [...keys.map((key) => key.toUpperCase()), 'CALLS', 'RETRIES', 'BROKEN', 'INPUT', 'OUTPUT', 'USD'];
  const last = ['total', ...keys.slice(1).map(() => ''), ...numbers(total)];
  const lines = [formatTable(head, [...rows.map((row) => [...named(row), ...numbers(row)]), last]).trimEnd()];
  if (more) lines.push('There are more rows; see --limit.');
  if (total.unpriced > 0)
    lines.push(`${total.unpriced} calls have no known price; set models.<name>.price of their provider in agent.yaml.`);
  if (total.estimated > 0)
    lines.push(`${total.estimated} calls were not counted by their provider, or not whole; their tokens are estimated.`);
  if (budget) lines.push(budgetLine(budget));
  return `${from === to ? from : `${from} to ${to}`} (UTC)\n${lines.join('\n')}\n`;
}

/** One sentence about the daily budget of background jobs. */
export function budgetLine({ spentUsd, dailyUsd, spentTokens, dailyTokens, met, resumesAt }: NonNullable<Usage['budget']>): string {
  const spent = `${dollars(spentUsd)} of ${dailyUsd} USD and ${spentTokens} of ${dailyTokens} tokens`;
  const waits = met ? `; they wait until ${resumesAt}` : '';
  return `Background jobs used ${spent} today${waits}.`;
}

function dollars(usd: number): string {
  return usd.toFixed(USD_DIGITS);
}

function keysArgument(text: string): string {
  const names = text.split(',').map((name) => name.trim());
  if (names.every((name) => name !== '')) return names.join(',');
  throw new InvalidArgumentError('such as day,purpose');
}
