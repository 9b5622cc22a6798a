import { recordOutside } from '../recording/record-outside.ts';
import type { RunEffect } from '../session-host.ts';
import type { EffectDeps } from './effect-deps.ts';
import { runHook } from './hook-effect.ts';
import { runModel } from './model-effect.ts';
import { runToolCall } from './tool-effect.ts';

/** One effect a kind of pending work. */
export function createRunEffect(live: EffectDeps): RunEffect {
  return (host, pending, signal, restored) => {
    const { recorder } = live;
    const deps = recorder ? recordOutside(live, recorder, { agent: host.core.agent, session: host.id, key: pending.key }) : live;
    switch (pending.kind) {
      case 'hook':
        return runHook(deps, host, pending, signal);
      case 'model':
        return runModel(deps, host, pending, signal);
      case 'tool':
        return runToolCall(deps, host, pending, signal, restored);
    }
  };
}
