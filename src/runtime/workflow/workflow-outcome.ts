import type { Activation } from '../../../machines/workflow-context.ts';
import type { Signal } from '../../contract/signal.ts';
import { deepFreeze } from '../../core/deep-freeze.ts';
import type { SignalLog } from '../../core/signal-log.ts';
import { PAYLOAD_DEPTH_MAX, signalId } from '../../core/signal-seal.ts';
import type { WorkflowAgent, WorkflowDefinition } from '../../core/workflow.ts';
import type { Outcome } from './activation.ts';
import type { WorkflowCore, WorkflowDraft } from './workflow-core.ts';
import { faultOf, type WorkflowMatcher } from './workflow-matcher.ts';

/** All values of a run's state together, as JSON: workflow:end carries them in one signal; unit: UTF-16 code units. */
export const STATE_CHARS_MAX = 4 * 1_048_576;
/** Deepest nesting of an output: in workflow:end it stands two levels deep. */
const OUTPUT_DEPTH_MAX = PAYLOAD_DEPTH_MAX - 2;

interface Asked {
  readonly definition: WorkflowDefinition;
  readonly matcher: WorkflowMatcher;
  readonly activation: Activation;
  readonly outcome: Outcome;
  /** Null when it was trimmed away, or nobody asks for it. */
  readonly trigger: Signal | null;
}

/**
 * The inputs that tell how an activation ended. `emitWhen` and `endWhen` are asked of the state as it will be; results are decided one
 * by one, so that is known.
 */
export function resultDrafts(core: WorkflowCore, { definition, matcher, activation, outcome, trigger }: Asked): WorkflowDraft[] {
  const result = { activation: activation.activation, attempt: activation.attempt, emits: [], ends: false, ...outcome };
  const agent = definition.agents.find(({ name }) => name === activation.agent);
  if (!outcome.ok || !agent) return [{ name: 'workflow:result', payload: result }];
  const { state } = core.snapshot.context;
  const next = agent.updates === undefined ? state : { ...state, [agent.updates]: outcome.output };
  const refused = (error: { code: string; message: string }): WorkflowDraft[] => [
    { name: 'workflow:result', payload: { ...result, ok: false, output: null, error } },
  ];
  const tooMuch = refusalOf(outcome.output, agent.updates === undefined ? null : next);
  if (tooMuch) return refused({ code: 'payload_too_large', message: tooMuch });
  let emits: string[];
  try {
    emits = chosenEmits(agent, () => ({
      ...matcher.scopeOf(trigger ?? missing(activation), structuredClone(next)),
      output: deepFreeze(structuredClone(outcome.output)),
    }));
  } catch (error) {
    return refused(faultOf(error, 'emitWhen'));
  }
  try {
    const ends = definition.endWhen?.(deepFreeze(structuredClone(next))) === true;
    return [{ name: 'workflow:result', payload: { ...result, emits, ends } }];
  } catch (error) {
    return [
      { name: 'workflow:result', payload: { ...result, emits } },
      { name: 'workflow:fault', payload: faultOf(error, 'endWhen') },
    ];
  }
}

/** Why an output is not taken; null when it is. Answers of a model may be of any shape. */
function refusalOf(output: unknown, state: Readonly<Record<string, unknown>> | null): string | null {
  if (isDeeper(output, OUTPUT_DEPTH_MAX)) return `the output is nested deeper than ${OUTPUT_DEPTH_MAX} levels; ask for a flatter one`;
  if (state === null) return null;
  const chars = JSON.stringify(state).length;
  if (chars <= STATE_CHARS_MAX) return null;
  return `the state would have ${chars} characters, more than ${STATE_CHARS_MAX}; write less to it`;
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((member) => isDeeper(member, levels - 1));
}

/** The signal an activation works on, read from the log again: only `emitWhen` looks at it. */
export async function readTrigger(log: SignalLog, workflow: string, { trigger }: Activation): Promise<Signal | null> {
  const seq = Number(trigger.signal.slice(trigger.signal.lastIndexOf('_') + 1));
  const own = `workflow:${workflow}`;
  const elsewhere = trigger.session === null ? 'daemon' : `session:${trigger.session}`;
  const [found] = await log.read(trigger.signal === signalId(own, seq) ? own : elsewhere, seq - 1, 1);
  return found?.id === trigger.signal ? found : null;
}

/** The names that follow a success. @throws what an `emitWhen` throws */
function chosenEmits({ emits, emitWhen }: WorkflowAgent, scope: () => Parameters<NonNullable<typeof emitWhen>[string]>[0]): string[] {
  if (!emitWhen) return [...emits];
  const seen = scope();
  const always = emits.filter((name) => !Object.hasOwn(emitWhen, name));
  const chosen = Object.entries(emitWhen).filter(([, holds]) => holds(seen));
  return [...always, ...chosen.map(([name]) => name)];
}

function missing({ trigger }: Activation): never {
  throw new Error(`the signal ${trigger.signal} is no longer in the log`);
}
