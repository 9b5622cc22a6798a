import { isAlias, isNode, isScalar, isSeq, parseDocument, visit } from 'yaml';
import type { configOperations } from '../contract/config-operations.ts';
import { SECRET_KEY, shownArgument, textWithoutSecrets, withoutSecrets } from '../core/config-redaction.ts';
import { REDACTED, redactKeys } from '../core/log-redaction.ts';
import type { Handlers } from '../core/operation-call.ts';
import { CONFIG_FILES } from './agent-yaml.ts';
import { type LiveConfig, problemsOf, RELOADED } from './config-live.ts';
import { IDENTITY_FILES } from './identity.ts';
import { readInside, statInside } from './workspace-file.ts';

/** Largest file whose content is shown. */
const CONTENT_BYTES_MAX = 262_144;
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
        problems: problemsOf(live).map(redactKeys),
        fault: live.fault === null ? null : redactKeys(live.fault),
        reloaded: [...RELOADED],
        waiting: [...live.waiting],
        files: [...CONFIG_FILES, ...IDENTITY_FILES].flatMap((name) => {
          // What a link leads to is another file's, and shown to nobody.
          const stats = statInside(folder, name);
          return stats ? [{ name, size: stats.size, content: contentOf(folder, name, stats.size) }] : [];
        }),
      };
    },
  };
}

function contentOf(folder: string, name: string, size: number): string | null {
  if (size > CONTENT_BYTES_MAX) return null;
  try {
    const text = readInside(folder, name, CONTENT_BYTES_MAX);
    return textWithoutSecrets(name.endsWith('.md') ? text : yamlWithoutSecrets(text));
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
    Pair: (_, { key, value }) => {
      const name = isScalar(key) ? String(key.value) : '';
      if (SECRET_KEY.test(name)) clear(value);
      else if (name === 'args' && isSeq(value)) for (const item of value.items) if (isScalar(item)) item.value = shownArgument(item.value);
    },
    Scalar: (_, scalar) => {
      if (typeof scalar.value === 'string') scalar.value = redactKeys(scalar.value);
    },
  });
  return String(document);
}
