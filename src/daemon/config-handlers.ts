import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { configOperations } from '../contract/config-operations.ts';
import { REDACTED } from '../core/log-redaction.ts';
import type { Handlers } from '../core/operation-call.ts';
import { CONFIG_FILES } from './agent-yaml.ts';
import { type LiveConfig, problemsOf, RELOADED } from './config-live.ts';
import { IDENTITY_FILES } from './identity.ts';

/** Keys whose value is a secret, or holds some: header values and the environment of MCP servers are where people put theirs. */
const SECRET_KEY = /^(?:.*api[-_]?key|.*token|.*secret|.*password|authorization|headers|env)$/i;
/** `https://user:password@host` */
const URL_LOGIN = /\/\/[^/@\s]+@/g;

export interface ConfigDeps {
  readonly folder: string;
  readonly live: LiveConfig;
}

export function createConfigHandlers({ folder, live }: ConfigDeps): Handlers<typeof configOperations> {
  return {
    getConfig: () => ({
      file: live.read.file,
      config: withoutSecrets(live.loaded.config) as Record<string, unknown>,
      problems: problemsOf(live),
      fault: live.fault,
      reloaded: [...RELOADED],
      waiting: [...live.waiting],
      files: [...CONFIG_FILES, ...IDENTITY_FILES].flatMap((name) => {
        const stats = statSync(join(folder, name), { throwIfNoEntry: false });
        return stats?.isFile() ? [{ name, size: stats.size }] : [];
      }),
    }),
  };
}

function withoutSecrets(value: unknown): unknown {
  if (typeof value === 'string') return value.replace(URL_LOGIN, `//${REDACTED}@`);
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, SECRET_KEY.test(name) && inner !== undefined ? REDACTED : withoutSecrets(inner)]),
  );
}
