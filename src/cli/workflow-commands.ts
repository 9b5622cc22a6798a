import { type Command, InvalidArgumentError } from 'commander';
import type { CliContext } from './context.ts';
import { addAddressOptions, wholeNumberArgument } from './options.ts';

const LIST_LIMIT = 50;
/** As many as the runtime gives at once. */
const LIST_LIMIT_MAX = 1_000;

/** `workflow run|list|show|abort`. */
export function addWorkflowCommands(program: Command, context: CliContext): void {
  const group = program.command('workflow').description('run agents that react to signals, look at their runs, stop them');
  const add = (name: string, description: string) =>
    addAddressOptions(group.command(name).description(description)).option('--json', 'print JSON');
  const display = () => import('./workflow-display.ts');

  add('run', 'start a workflow and show its signals until it ends; Ctrl-C stops it')
    .argument('<workflow>', 'name of a workflow of agent.yaml, or a file: workflow.yaml, workflow.json')
    .option('--input <json>', 'what {{ input }} is; text that is no JSON is taken as it is')
    .option('--state <json>', 'state it begins with, a JSON object', jsonObject)
    .option('--detach', 'only start it, and print its id')
    .addHelpText(
      'after',
      '\nThe exit code is 0 when the run ends as quiescent or end-when, else 1. With --json each signal is a line.\n' +
        '\nExamples:\n  signet workflow run nightly\n  signet workflow run review.yaml --input \'{"topic": "tea"}\'',
    )
    .action(async (workflow, flags) => (await display()).runWorkflow(context, workflow, flags));

  add('list', 'workflows, the newest first')
    .option('--limit <number>', 'how many', wholeNumberArgument(1, LIST_LIMIT_MAX), LIST_LIMIT)
    .addHelpText('after', '\nExamples:\n  signet workflow list --limit 10')
    .action(async (flags) => (await display()).listWorkflows(context, flags));

  add('show', 'status, state and running agents of one workflow')
    .argument('<id>', 'workflow id')
    .addHelpText('after', '\nExamples:\n  signet workflow show wfl_abcdefghijklmnopqrst')
    .action(async (id, flags) => (await display()).showWorkflow(context, id, flags));

  add('abort', 'stop a workflow: the turns of its agents are cancelled')
    .argument('<id>', 'workflow id')
    .option('--reason <text>', 'why, for the record')
    .option('--purge', 'forget its log as well, also a damaged one; this cannot be undone')
    .addHelpText(
      'after',
      '\nExamples:\n  signet workflow abort wfl_abcdefghijklmnopqrst\n  signet workflow abort wfl_abcdefghijklmnopqrst --purge',
    )
    .action(async (id, flags) => (await display()).abortWorkflow(context, id, flags));
}

function jsonObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Told below, like any other text that is not an object.
  }
  throw new InvalidArgumentError('It must be a JSON object.');
}
