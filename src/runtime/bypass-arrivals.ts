import { isAppError } from '../core/errors.ts';
import type { BypassChange } from '../core/memory-store.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import type { SessionHost } from './session-host.ts';

/**
 * Takes a bypass that the daemon was told of into the logs of the sessions in memory that it silences, or lets speak. Nobody is woken for it:
 * a session that sleeps learns of it with its next hook, as does one that could not note it.
 *
 * @returns never rejects; settled once the sessions show it
 */
export function createBypassArrivals({ supervisor, logger }: Pick<RuntimeDeps, 'supervisor' | 'logger'>) {
  const note = async (host: SessionHost, { bypassed, by }: BypassChange): Promise<void> => {
    try {
      await host.handle(({ snapshot: { value, context } }) =>
        value === 'passivated' || context.bypassed === bypassed
          ? []
          : [{ name: 'session:bypass:changed', payload: { bypassed, by }, client: by }],
      );
    } catch (error) {
      // Ended or gone in the same moment is no fault.
      if (isAppError(error, 'session_ended') || host.closed) return;
      logger.warn({ err: error, session: host.id }, 'a bypass could not be noted; it shows with the next hook');
    }
  };
  return async (change: BypassChange): Promise<void> => {
    const hosts = [...supervisor.hosts()].filter(({ view }) => change.isFor(view.session.sessionKey));
    await Promise.all(hosts.map((host) => note(host, change)));
  };
}
