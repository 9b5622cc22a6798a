import { setup } from 'xstate';
import { stepAction } from './step-action.ts';
import {
  initialWorkflow,
  isIdle,
  TIMEOUT_TIMER,
  type WorkflowContext,
  type WorkflowEvent,
  type WorkflowInput,
  type WorkflowOutput,
} from './workflow-context.ts';
import { workflowSteps } from './workflow-steps.ts';

/** Raised with every change of the chart or of a step that would fold an old log to another state. */
export const WORKFLOW_MACHINE_VERSION = '2';

const actions = Object.fromEntries(Object.entries(workflowSteps).map(([name, step]) => [name, stepAction(step)])) as {
  [K in keyof typeof workflowSteps]: () => void;
};

const workflowSetup = setup({
  types: { context: {} as WorkflowContext, events: {} as WorkflowEvent, input: {} as WorkflowInput, emitted: {} as WorkflowOutput },
  guards: {
    isLive: ({ context, event }) =>
      event.type === 'workflow:result' &&
      context.live.some(({ activation, attempt }) => activation === event.payload.activation && attempt === event.payload.attempt),
    endsRun: ({ context, event }) =>
      event.type === 'workflow:result' &&
      event.payload.ok &&
      event.payload.ends &&
      context.live.some(({ activation, attempt }) => activation === event.payload.activation && attempt === event.payload.attempt),
    isTimeout: ({ event }) => event.type === 'timer:fired' && event.payload.id === TIMEOUT_TIMER,
    isIdle: ({ context }) => isIdle(context),
  },
  actions,
});

/**
 * The router of one workflow: which agent works on which signal, and which does not and why. Its events are the input signals of the
 * workflow's stream; whatever needs user code has been asked before and stands in them.
 */
export const workflowMachine = workflowSetup.createMachine({
  id: 'workflow',
  version: WORKFLOW_MACHINE_VERSION,
  context: ({ input }) => initialWorkflow(input),
  initial: 'running',
  states: {
    running: {
      description: 'Signals activate agents, within the bounds of the run.',
      on: {
        'workflow:signal': { actions: 'react' },
        'workflow:result': [
          { guard: 'endsRun', target: 'terminating', actions: 'takeResult' },
          { guard: 'isLive', actions: 'takeResult' },
        ],
        'timer:fired': [{ guard: 'isTimeout', target: 'terminating', actions: 'stopLate' }, { actions: 'endDebounce' }],
        'workflow:abort': { target: 'terminating', actions: 'stopAborted' },
        'workflow:fault': { target: 'terminating', actions: 'stopBroken' },
        'workflow:settled': { guard: 'isIdle', target: 'ended', actions: 'end' },
      },
    },
    terminating: {
      description: 'Nothing is activated any more. What runs is waited for, or stopped.',
      on: {
        'workflow:signal': { actions: 'refuse' },
        'workflow:result': { guard: 'isLive', actions: 'takeResult' },
        'timer:fired': { guard: 'isTimeout', actions: 'stopLate' },
        'workflow:abort': { actions: 'stopAborted' },
        'workflow:fault': { actions: 'stopBroken' },
        'workflow:settled': { guard: 'isIdle', target: 'ended', actions: 'end' },
      },
    },
    ended: { type: 'final', description: 'workflow:end is the last signal.' },
  },
});

export type WorkflowMachine = typeof workflowMachine;
