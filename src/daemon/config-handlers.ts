import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isAlias, isNode, isScalar, parseDocument, visit } from 'yaml';
import type { configOperations } from '../contract/config-operations.ts';
import { REDACTED } from '../core/log-redaction.ts';
import type { Handlers } from '../core/operation-call.ts';
import { redactSecrets } from '../core/transcript-redact.ts';
import { CONFIG_FILES } from './agent-yaml.ts';
import { type LiveConfig, problemsOf, RELOADED } from './config-live.ts';
import { IDENTITY_FILES } from './identity.ts';

/** Keys whose value is a secret, or holds some: header values and the environment of MCP servers are where people put theirs. */
const SECRET_KEY = /^(?:.*api[-_]?key|.*token|.*secret|.*password|authorization|headers|env)$/i;
/** Largest file whose content is shown. */
const CONTENT_BYTES_MAX = 262_144;
/** `https://user:password@host` */
const URL_LOGIN = /\/\/[^/@\s]+@/g;

export interface ConfigDeps {
  readonly folder: string;
  readonly live: LiveConfig;
}

export function createConfigHandlers({ folder, live }: ConfigDeps): Handlers<typeof configOperations> {
  return {
    getConfig: () => {
      live.look();
      return {
        file: live.read.file,
        config: withoutSecrets(live.loaded.config) as Record<string, unknown>,
        problems: problemsOf(live),
        fault: live.fault,
        reloaded: [...RELOADED],
        waiting: [...live.waiting],
        files: [...CONFIG_FILES, ...IDENTITY_FILES].flatMap((name) => {
          const stats = statSync(join(folder, name), { throwIfNoEntry: false });
          return stats?.isFile() ? [{ name, size: stats.size, content: contentOf(join(folder, name), stats.size) }] : [];
        }),
      };
    },
  };
}

function contentOf(path: string, size: number): string | null {
  if (size > CONTENT_BYTES_MAX) return null;
  try {
    const text = readFileSync(path, 'utf8');
    return redactSecrets(path.endsWith('.md') ? text : yamlWithoutSecrets(text));
  } catch {
    return null; // Gone meanwhile, not readable, or broken: `fault` says what is wrong with the configuration.
  }
}

/** Comments stay, layout may change. @throws Error for text that is no YAML: what is secret in it nobody knows */
function yamlWithoutSecrets(text: string): string {
  const document = parseDocument(text);
  if (document.errors.length > 0) throw document.errors[0];
  const clear = (node: unknown): void => {
    if (isAlias(node)) clear(node.resolve(document));
    else if (isScalar(node)) node.value = REDACTED;
    else if (isNode(node))
      visit(node, { Scalar: (key, scalar) => void (key === 'key' || clear(scalar)), Alias: (_, alias) => clear(alias) });
  };
  visit(document, {
    Pair: (_, { key, value }) => void (isScalar(key) && SECRET_KEY.test(String(key.value)) && clear(value)),
    Scalar: (_, scalar) => {
      if (typeof scalar.value === 'string') scalar.value = scalar.value.replace(URL_LOGIN, `//${REDACTED}@`);
    },
  });
  return String(document).replace(URL_LOGIN, `//${REDACTED}@`);
}

function withoutSecrets(value: unknown): unknown {
  if (typeof value === 'string') return value.replace(URL_LOGIN, `//${REDACTED}@`);
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, SECRET_KEY.test(name) && inner !== undefined ? REDACTED : withoutSecrets(inner)]),
  );
}
