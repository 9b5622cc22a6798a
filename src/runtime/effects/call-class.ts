import type { Pending } from '../../../machines/session-context.ts';
import type { OfferedTool } from '../../contract/signal-spec.ts';
import { stricterClass, type ToolClass } from '../../contract/tool.ts';
import type { SessionHost } from '../session-host.ts';
import type { EffectDeps } from './effect-deps.ts';

type Known = Pick<EffectDeps, 'tools' | 'config'>;

/** Class of a call that is about to be recorded: the stricter of what the turn offered and what is registered; `unsafe` of an unknown tool. */
export function classOf(deps: Known, offered: readonly OfferedTool[], name: string): ToolClass {
  const registered = registeredClass(deps, name);
  const said = offered.find((tool) => tool.name === name)?.class ?? registered ?? 'unsafe';
  return stricterClass(said, registered ?? said);
}

/**
 * Class of a call that may have run before: the stricter of what was recorded and what is registered now. Of a tool that was not registered
 * when the model asked for it, what the turn offered counts: earlier versions recorded `pure` for it.
 */
export function restoredClass(deps: Known, host: SessionHost, { key, name, class: recorded }: Pending & { kind: 'tool' }): ToolClass {
  const { calls, turn } = host.core.snapshot.context;
  const wasUnknown = calls.find((call) => call.key === key)?.origin === 'unknown';
  if (wasUnknown && !turn?.tools.some((tool) => tool.name === name)) return deps.config.toolClasses[name] ?? 'unsafe';
  return stricterClass(wasUnknown ? 'pure' : recorded, classOf(deps, turn?.tools ?? [], name));
}

/** The configuration speaks before the tool. Undefined when neither knows it. */
function registeredClass({ tools, config }: Known, name: string): ToolClass | undefined {
  return config.toolClasses[name] ?? tools.get(name)?.class;
}
