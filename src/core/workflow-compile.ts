import type { StoredWorkflow, WorkflowAgentRules } from '../contract/workflow.ts';
import { isCustomName } from '../contract/workflow-signals.ts';
import { AppError } from './errors.ts';
import { compileExpression } from './expression.ts';
import { compilePatterns, type NameMatcher } from './signal-pattern.ts';
import { compileTemplate } from './template.ts';
import type { OutcomeScope, TriggerScope, WorkflowAgent, WorkflowDefinition } from './workflow.ts';

const TRIGGER_NAMES = ['signal', 'state', 'input', 'workflow'];
const OUTCOME_NAMES = ['output', ...TRIGGER_NAMES];

/**
 * A workflow given as data, ready to run.
 *
 * @throws AppError `invalid_workflow`, `invalid_expression`, `invalid_pattern`, naming the field
 */
export function compileWorkflow(source: StoredWorkflow): WorkflowDefinition {
  const { name, state, input, endWhen, timeoutMs, limits, project = null } = source;
  const agents = source.agents.map((agent, index) => compileAgent(agent, `/agents/${index}`));
  const ends = endWhen === undefined ? undefined : compileExpression(endWhen, { names: ['state'], pointer: '/endWhen' });
  const definition = {
    name,
    agents,
    state,
    input,
    ...(ends ? { endWhen: (now: WorkflowDefinition['state']) => Boolean(ends({ state: now })) } : {}),
    timeoutMs,
    limits,
    project,
    source,
  };
  checkWorkflow(definition);
  return definition;
}

/**
 * What no schema says, for definitions from data and from code alike.
 *
 * @throws AppError `invalid_workflow`, `invalid_pattern`
 */
export function checkWorkflow({ agents }: WorkflowDefinition): void {
  if (agents.length === 0) throw refusal('/agents', 'a workflow needs at least one agent');
  const names = new Set<string>();
  agents.forEach(({ name, activateOn, emits, emitWhen = {} }, index) => {
    const pointer = `/agents/${index}`;
    if (names.has(name)) throw refusal(`${pointer}/name`, `two agents are called "${name}"; give each a name of its own`);
    names.add(name);
    compileListener(activateOn, `${pointer}/activateOn`);
    for (const emitted of [...emits, ...Object.keys(emitWhen)]) {
      if (isCustomName(emitted)) continue;
      throw refusal(`${pointer}/emits`, `"${emitted}" is a name of Signet's own signals; choose another, such as "${name}:done"`);
    }
  });
}

/** What an agent listens to. @throws AppError `invalid_pattern` */
export function compileListener(activateOn: WorkflowAgentRules['activateOn'], pointer: string): NameMatcher {
  const patterns = activateOn.map((pattern) => (typeof pattern === 'string' ? pattern : new RegExp(pattern.regexp, pattern.flags)));
  return compilePatterns(patterns, pointer);
}

function compileAgent(source: StoredWorkflow['agents'][number], pointer: string): WorkflowAgent {
  const { prompt, when, emitWhen, ...rules } = source;
  const template = compileTemplate(prompt, { names: TRIGGER_NAMES, pointer: `${pointer}/prompt` });
  const guard = when === undefined ? undefined : compileExpression(when, { names: TRIGGER_NAMES, pointer: `${pointer}/when` });
  const chosen = Object.entries(emitWhen ?? {}).map(([name, text]) => {
    const holds = compileExpression(text, { names: OUTCOME_NAMES, pointer: `${pointer}/emitWhen/${name}` });
    return [name, (scope: OutcomeScope) => Boolean(holds(scope))] as const;
  });
  return {
    ...rules,
    prompt: (scope) => template(scope),
    ...(guard ? { when: (scope: TriggerScope) => Boolean(guard(scope)) } : {}),
    ...(chosen.length > 0 ? { emitWhen: Object.fromEntries(chosen) } : {}),
  };
}

function refusal(pointer: string, detail: string): AppError {
  return new AppError('invalid_workflow', { detail, errors: [{ pointer, detail }] });
}
