import type { AgentYaml } from '../contract/config.ts';
import { nameHint } from '../core/nearest-name.ts';

/** There without a section of their own when the environment implies them, and by name. */
const BUILT_IN = ['anthropic', 'openai', 'openai-compatible', 'demo'] as const;

/** Names under `runtime:` that no provider can have; whether a built-in one has its key is found out at the start. */
export function strangeProviders({ runtime }: AgentYaml): { readonly path: readonly PropertyKey[]; readonly text: string }[] {
  const named: [readonly PropertyKey[], string | undefined][] = [
    [['runtime', 'default'], runtime.default],
    ...Object.entries(runtime.routing).map(([task, choice]): [string[], string | undefined] => [
      ['runtime', 'routing', task, 'provider'],
      choice?.provider,
    ]),
    ...runtime.fallback.map(({ provider }, index): [PropertyKey[], string | undefined] => [
      ['runtime', 'fallback', index, 'provider'],
      provider,
    ]),
  ];
  const known = [...new Set([...Object.keys(runtime.providers), ...BUILT_IN])];
  return named.flatMap(([path, name]) =>
    name === undefined || known.includes(name)
      ? []
      : [{ path, text: `no provider "${name}"; ${nameHint(name, known, 'known providers')}` }],
  );
}
