import { z } from 'zod';
import { SESSION_SIGNALS } from './session-signals.ts';
import type { SignalKind } from './signal.ts';
import { count, MachineRef, ms, type SignalSpec, spec, text } from './signal-spec.ts';
import { TURN_SIGNALS } from './turn-signals.ts';

/**
 * Every signal of this program by name. docs/signals.md and /schemas/signals are generated from it.
 * @source spec/signal-system (names), and what a running session needs beside them
 */
export const SIGNALS = {
  'daemon:start': spec(
    'system',
    z.object({ version: text, node: text, pid: count, machines: z.array(MachineRef) }),
    'The process started.',
  ),
  'daemon:stop': spec('system', z.object({ reason: text, uptimeMs: ms }), 'The process stops after draining.'),
  'config:changed': spec(
    'system',
    z.object({ keys: z.array(text) }),
    'Keys of agent.yaml took other values, at once; values are not told.',
  ),
  'supervisor:child:started': spec(
    'system',
    z.object({ session: text, agent: text, attempt: count }),
    'The supervisor started an actor for the session.',
  ),
  'supervisor:child:stopped': spec('system', z.object({ session: text, reason: text }), 'The actor has ended.'),
  'supervisor:child:restarted': spec(
    'system',
    z.object({ session: text, attempt: count, delayMs: ms, error: text }),
    'A crashed actor was restarted from its log.',
  ),
  'supervisor:limit': spec(
    'system',
    z.object({
      kind: z.enum(['provider-calls', 'agent-provider-calls', 'children', 'depth']),
      limit: count,
      current: count,
      action: z.enum(['queued', 'rejected']),
    }),
    'A limit was met: the work waits for its turn, or was refused.',
  ),
  ...SESSION_SIGNALS,
  ...TURN_SIGNALS,
} as const satisfies Record<string, SignalSpec>;

export type SignalName = keyof typeof SIGNALS;
export type PayloadOf<N extends SignalName> = z.output<(typeof SIGNALS)[N]['payload']>;
/** Names of the signals of a kind; `NamesOfKind<'input'>` are the events of the session machine. */
export type NamesOfKind<K extends SignalKind> = { [N in SignalName]: (typeof SIGNALS)[N]['kind'] extends K ? N : never }[SignalName];
