import { REDACTED, redactKeys } from './log-redaction.ts';
import { redactSecrets } from './transcript-redact.ts';

/** Keys whose value is a secret, or holds some: header values and the environment of MCP servers are where people put theirs. */
export const SECRET_KEY = /^(?:.*api[-_]?key|.*token|.*secret|.*password|authorization|headers|env)$/i;

/**
 * A copy of configuration for somebody to look at: values of secret keys taken out, addresses without logins and keys, of arguments the names
 * of options alone, for any of their values may be a key.
 */
export function withoutSecrets(value: unknown): unknown {
  if (typeof value === 'string') return redactKeys(value);
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withoutSecret(name, inner)]));
}

function withoutSecret(name: string, value: unknown): unknown {
  if (SECRET_KEY.test(name) && value !== undefined) return REDACTED;
  if (name === 'args' && Array.isArray(value)) return value.map(shownArgument);
  return withoutSecrets(value);
}

/** `--token=abc` becomes `--token=[redacted]`, `abc` becomes `[redacted]`. */
export function shownArgument(argument: unknown): string {
  const option = /^(--?[A-Za-z][\w-]{0,63})(=|$)/.exec(String(argument));
  if (!option) return REDACTED;
  return option[2] === '=' ? `${option[1]}=${REDACTED}` : option[1]!;
}

/** Text of a configuration file. */
export function textWithoutSecrets(text: string): string {
  return redactKeys(redactSecrets(text));
}
