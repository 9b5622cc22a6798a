import { setup } from 'xstate';
import { sessionSteps } from './session-actions.ts';
import { type InputEvent, initialContext, type OutputEvent, type SessionContext, type SessionInput } from './session-context.ts';
import { sessionGuards } from './session-guards.ts';
import { stepAction } from './step-action.ts';

/** Raised with every change of the chart or of a step that would fold an old log to another state. */
export const SESSION_MACHINE_VERSION = '1';

/** Most microsteps one event may cause; more is an endless loop of eventless edges. */
const ITERATIONS_MAX = 100;

const actions = Object.fromEntries(Object.entries(sessionSteps).map(([name, step]) => [name, stepAction(step)])) as {
  [K in keyof typeof sessionSteps]: () => void;
};

const sessionSetup = setup({
  types: {
    context: {} as SessionContext,
    events: {} as InputEvent,
    input: {} as SessionInput,
    emitted: {} as OutputEvent,
  },
  guards: sessionGuards,
  actions,
});

/**
 * One agent session. Its events are input signals; it never calls out, waits or reads a clock. What a state owes is
 * derived from its context (`pending`) and done outside; the outcome comes back as a signal.
 * @source docs/machines.md
 */
export const sessionMachine = sessionSetup.createMachine({
  id: 'session',
  version: SESSION_MACHINE_VERSION,
  context: ({ input }) => initialContext(input),
  initial: 'starting',
  options: { maxIterations: ITERATIONS_MAX },
  on: {
    'prompt:received': [
      { guard: 'refusesToWait', actions: 'refuseBusy' },
      { guard: 'mailboxFull', actions: 'refuseFull' },
      { actions: 'queuePrompt' },
    ],
    'prompt:cancelled': { guard: 'isQueued', actions: 'dropQueued' },
    'session:updated': { actions: 'keepSettings' },
    'session:bypass:changed': { actions: 'keepBypass' },
    'message:arrived': { actions: 'keepArrival' },
  },
  states: {
    starting: {
      description: 'The session-start hook brings identity and memories; without the daemon the session starts degraded.',
      entry: 'askStart',
      on: {
        'hook:end': [
          { guard: 'endWanted', target: 'ending', actions: 'keepStart' },
          { target: 'idle', actions: 'keepStart' },
        ],
        'hook:error': [
          { guard: 'endWanted', target: 'ending', actions: 'startDegraded' },
          { target: 'idle', actions: 'startDegraded' },
        ],
        'session:end': { actions: 'rememberEnd' },
      },
    },
    idle: {
      description: 'Nothing is owed. The first waiting prompt opens a turn.',
      entry: 'enterIdle',
      always: { guard: 'hasPrompt', target: 'turn.researching', actions: 'openTurn' },
      on: {
        'prompt:received': { actions: 'takePrompt' },
        'compaction:requested': 'turn.compacting',
        'session:end': { target: 'ending', actions: 'rememberEnd' },
        'timer:fired': { guard: 'isIdleTimer', target: 'passivated' },
      },
    },
    turn: {
      description: 'A prompt is being answered, or the conversation is being compacted.',
      initial: 'researching',
      on: {
        'prompt:received': [
          { guard: 'steersFull', actions: 'refuseFull' },
          { guard: 'steersOpenTurn', actions: 'keepSteer' },
          { guard: 'refusesToWait', actions: 'refuseBusy' },
          { guard: 'interrupts', target: 'aborting', actions: ['queuePromptFirst', 'noteInterrupt'] },
          { guard: 'mailboxFull', actions: 'refuseFull' },
          { actions: 'queuePrompt' },
        ],
        'turn:cancel': { target: 'aborting', actions: 'noteClientAbort' },
        'session:end': { target: 'aborting', actions: ['endWhenSettled', 'noteEndAbort'] },
        'timer:fired': { guard: 'isTurnTimer', target: 'aborting', actions: 'noteDeadline' },
      },
      states: {
        researching: {
          description: 'The daemon and the tools that run before generation are asked, in parallel, within a budget.',
          exit: 'endResearch',
          always: { guard: 'settled', target: 'generating' },
          on: {
            'hook:end': { guard: 'answersPending', actions: 'keepFindings' },
            'hook:error': { guard: 'answersPending', actions: 'missFindings' },
            'tool:result': { guard: 'answersPending', actions: 'keepResearch' },
          },
        },
        generating: {
          description: 'The model is called with the assembled context.',
          entry: 'enterGenerating',
          initial: 'checking',
          states: {
            checking: {
              always: [
                { guard: 'roundsExhausted', target: '#session.idle', actions: 'endTurnOutOfRounds' },
                { guard: 'overThreshold', target: '#session.turn.compacting' },
                { target: 'calling' },
              ],
            },
            calling: {
              entry: 'callModel',
              on: {
                'text:complete': { guard: 'answersPending' },
                'thinking:complete': { guard: 'answersPending' },
                'harness:end': [
                  { guard: 'wantsTools', target: '#session.turn.tool-looping', actions: ['keepAnswer', 'planCalls'] },
                  { guard: 'wasSteered', target: 'checking', actions: 'keepAnswer' },
                  { guard: 'outputInvalid', target: '#session.idle', actions: ['keepAnswer', 'failTurnOutput'] },
                  { guard: 'answersPending', target: '#session.idle', actions: ['keepAnswer', 'endTurn'] },
                ],
                'harness:error': [
                  { guard: 'overflowsAndCompactable', target: '#session.turn.compacting', actions: 'noteOverflow' },
                  { guard: 'mayRetry', target: 'backoff', actions: 'planRetry' },
                  { guard: 'hasFallback', target: 'checking', actions: 'takeFallback' },
                  { guard: 'answersPending', target: '#session.idle', actions: 'failTurnModel' },
                ],
              },
            },
            backoff: {
              description: 'The provider failed in a way that may pass; the call is made again when the wait is over.',
              on: { 'timer:fired': { guard: 'isBackoffTimer', target: 'calling' } },
            },
          },
        },
        'tool-looping': {
          description: 'The tools the model asked for run in parallel; the model gets their results in call order.',
          entry: 'enterToolLooping',
          exit: 'clearCalls',
          initial: 'planning',
          states: {
            planning: {
              always: [
                { guard: 'needsApproval', target: 'awaiting-approval' },
                { guard: 'awaitsApproval', target: 'awaiting-approval' },
                { target: 'running' },
              ],
            },
            'awaiting-approval': {
              description: 'A person must agree; silence counts as no.',
              entry: 'askApprovals',
              on: { 'tool:approval:resolved': { guard: 'decidesWaiting', target: 'planning', actions: 'keepDecision' } },
            },
            running: {
              entry: 'runCalls',
              always: { guard: 'allCallsDone', target: '#session.turn.generating' },
              on: { 'tool:result': { guard: 'answersPending', actions: 'keepResult' } },
            },
          },
        },
        compacting: {
          description: 'The model summarises the conversation; the summary takes its place and becomes a memory.',
          entry: 'openCompaction',
          initial: 'guidelines',
          states: {
            guidelines: {
              on: {
                'hook:end': { guard: 'answersPending', target: 'summarizing', actions: 'keepGuidelines' },
                'hook:error': { guard: 'answersPending', target: 'summarizing', actions: 'keepGuidelines' },
              },
            },
            summarizing: {
              entry: 'callSummary',
              on: {
                'text:complete': { guard: 'answersPending' },
                'thinking:complete': { guard: 'answersPending' },
                'harness:end': [
                  { guard: 'summaryEmpty', target: 'failed', actions: 'failCompaction' },
                  { guard: 'answersPending', target: 'saving', actions: 'keepSummary' },
                ],
                'harness:error': [
                  { guard: 'mayRetrySummary', target: 'backoff', actions: 'planSummaryRetry' },
                  { guard: 'answersPending', target: 'failed', actions: 'failCompaction' },
                ],
              },
            },
            backoff: { on: { 'timer:fired': { guard: 'isBackoffTimer', target: 'summarizing' } } },
            saving: {
              on: {
                'hook:end': [
                  { guard: 'savedInTurn', target: '#session.turn.generating', actions: 'closeCompaction' },
                  { guard: 'answersPending', target: '#session.idle', actions: 'closeCompaction' },
                ],
                'hook:error': [
                  { guard: 'savedInTurn', target: '#session.turn.generating', actions: 'closeCompaction' },
                  { guard: 'answersPending', target: '#session.idle', actions: 'closeCompaction' },
                ],
              },
            },
            failed: {
              always: [
                { guard: 'compactionHopeless', target: '#session.idle', actions: 'failTurnCompaction' },
                { guard: 'turnOpen', target: '#session.turn.compacting' },
                { target: '#session.idle' },
              ],
            },
          },
        },
      },
    },
    aborting: {
      description: 'What runs is stopped; the turn ends when all of it has settled, or when the grace time is over.',
      entry: 'enterAborting',
      always: [
        { guard: 'settledAndEnding', target: 'ending', actions: 'closeAborted' },
        { guard: 'settled', target: 'idle', actions: 'closeAborted' },
      ],
      on: {
        'hook:end': { guard: 'answersPending', actions: 'keepSettled' },
        'hook:error': { guard: 'answersPending', actions: 'keepSettled' },
        'text:complete': { guard: 'answersPending' },
        'thinking:complete': { guard: 'answersPending' },
        'harness:end': { guard: 'answersPending', actions: 'keepSettled' },
        'harness:error': { guard: 'answersPending', actions: 'keepSettled' },
        'tool:result': { guard: 'answersPending', actions: 'keepSettled' },
        'session:end': { actions: 'endWhenSettled' },
        'timer:fired': [
          { guard: 'isAbortTimerAndEnding', target: 'ending', actions: 'closeAborted' },
          { guard: 'isAbortTimer', target: 'idle', actions: 'closeAborted' },
        ],
      },
    },
    passivated: {
      description: 'The actor is out of memory; the log stays and the next event brings it back.',
      entry: 'leaveMemory',
      on: { 'session:activated': 'idle' },
    },
    ending: {
      description: 'The session-end hook keeps the transcript.',
      entry: 'askEnd',
      on: {
        'prompt:received': { actions: 'refuseEnded' },
        'hook:end': { guard: 'answersPending', target: 'ended' },
        'hook:error': { guard: 'answersPending', target: 'ended' },
      },
    },
    ended: { type: 'final', description: 'Nothing can happen any more.', entry: 'enterEnded' },
  },
});

export type SessionMachine = typeof sessionMachine;
