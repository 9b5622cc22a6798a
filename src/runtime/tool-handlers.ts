import { DEFAULT_AGENT } from '../contract/ids.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { toolOperations } from '../contract/tool.ts';
import { bothLimits, limitOf } from '../core/caller-scope.ts';
import { newId } from '../core/clock.ts';
import type { RequestContext } from '../core/operation-call.ts';
import type { RuntimeDeps } from './runtime-deps.ts';

/** A tool called by hand runs as the session that is named, else as nobody's: default agent, no project. */
export async function callToolDirectly(
  deps: RuntimeDeps,
  input: ParsedInputOf<(typeof toolOperations)['callTool']>,
  context: RequestContext,
) {
  const view = input.sessionId ? await deps.supervisor.view(input.sessionId) : null;
  // What was limited when it was opened stays so, whoever calls.
  const limit = bothLimits(view?.limit, limitOf(context.caller));
  const callKey = newId('call');
  return deps.toolService.call(
    input.name,
    input.input,
    {
      sessionKey: view?.session.sessionKey ?? callKey,
      sessionId: view?.session.id ?? callKey,
      agent: view?.session.agent ?? DEFAULT_AGENT,
      project: view?.session.project ?? '',
      limit,
      daemonUrl: deps.daemon.baseUrl,
      callKey,
      signal: context.signal,
      progress: () => {},
    },
    input.timeoutMs,
  );
}
