import type { SignalLog } from '../../src/core/signal-log.ts';

/** A log that behaves as the given one does, but for these methods. */
export function replaceInLog(log: SignalLog, methods: Partial<SignalLog>): SignalLog {
  return new Proxy(log, {
    get(target, name) {
      const value: unknown = Reflect.get(methods, name) ?? Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
