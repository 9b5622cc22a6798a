import { tested } from './requirements.row.ts';

/** Promises of spec/signal-system. */
export const SIGNAL_REQUIREMENTS = {
  'Core Principle': {
    'signals.source-of-truth': tested('The state of a session can be rebuilt from its signals alone'),
    'signals.observability': tested('Everything that a session did can be read from its signals in order'),
    'signals.replay': tested('Replaying recorded signals gives the same state every time'),
    'signals.decoupling': tested('Agents reach each other through signals only and name no other agent'),
    'signals.replay.no-provider': tested('A recorded run replays without calling a provider or a tool'),
  },
  'Signal Structure': {
    'signals.id': tested('Every signal has an id of its own that starts with sig_'),
    'signals.name': tested('Every signal has a name of segments joined by colons'),
    'signals.payload': tested('Every signal carries a payload of its own shape'),
    'signals.timestamp': tested('Every signal carries an ISO timestamp'),
    'signals.source.agent': tested('source.agent names the agent that emitted the signal'),
    'signals.source.parent': tested('source.parent is the id of the signal that caused this one'),
    'signals.source.optional': tested(
      'A signal without a cause or an agent has neither parent nor agent in its source (docs/decisions/0014)',
    ),
  },
  'Signal Categories': {
    'signals.workflow.start': tested('workflow:start opens a run and carries the initial state'),
    'signals.workflow.end': tested('workflow:end closes a run and carries the final state and metrics'),
    'signals.agent.activated': tested('agent:activated names the agent that starts to work'),
    'signals.agent.skipped': tested('agent:skipped names the agent and the reason it did not run'),
    'signals.agent.skipped.guard': tested('An agent whose when guard is false is skipped with that reason'),
    'signals.agent.completed': tested('agent:completed names the agent and carries its output'),
    'signals.harness.start': tested('harness:start opens a provider call and names the model'),
    'signals.harness.end': tested('harness:end closes a provider call and carries input and output tokens'),
    'signals.harness.error': tested('harness:error carries the text of a failed provider call'),
    'signals.text.delta': tested('text:delta carries each piece of the answer as it streams'),
    'signals.text.complete': tested('text:complete carries the whole answer, equal to its deltas joined'),
    'signals.thinking.delta': tested('thinking:delta carries each piece of the thinking as it streams'),
    'signals.thinking.complete': tested('thinking:complete carries the whole thinking text'),
    'signals.tool.call': tested('tool:call carries the name and input of a tool'),
    'signals.tool.result': tested('tool:result carries the name and output of a tool'),
    'signals.state.changed': tested('Changing a state key emits state:<key>:changed with the new value'),
    'signals.custom.emits': tested('An agent emits the custom signals listed in its emits when it completes'),
  },
  'Subscribing to Signals': {
    'signals.activate-on.workflow': tested('An agent with activateOn workflow:start runs when the workflow starts'),
    'signals.activate-on.custom': tested('An agent can activate on a custom signal of another agent'),
    'signals.activate-on.several': tested('An agent with several patterns activates on any of them'),
    'signals.activate-on.harness': tested('An agent can activate on harness:end'),
    'signals.activate-on.state': tested('An agent can activate on the change of a state key'),
  },
  'Pattern Matching': {
    'signals.pattern.exact': tested('A pattern without wildcard matches that name and no other'),
    'signals.pattern.single-segment': tested('agent:* matches agent:activated but no name with more or fewer segments'),
    'signals.pattern.multi-segment': tested('harness:** matches every name below harness, however many segments'),
    'signals.pattern.leading-wildcard': tested('*:complete matches analysis:complete and review:complete'),
  },
  'Causality Tracking': {
    'signals.causality.activation': tested('The parent of agent:activated is the signal that triggered the agent'),
    'signals.causality.chain': tested('Following parents from any signal leads back to the start of its run'),
  },
  'Signal Trace': {
    'signals.run-reactive.signals': tested('runReactive returns every signal of its run in order'),
    'signals.agent.function': tested('agent() declares an agent that runReactive runs'),
    'signals.run-reactive.order': tested('A trace runs workflow:start, agent, harness, text, custom, workflow:end'),
  },
} as const;
