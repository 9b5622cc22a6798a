import { isLoopbackName } from '../contract/loopback.ts';
import { AppError } from '../core/errors.ts';

export interface TokenTarget {
  readonly baseUrl: string;
  readonly token?: string | undefined;
  /** Send the token in clear to another machine too; SIGNET_ALLOW_INSECURE=1 says the same. */
  readonly allowInsecure?: boolean | undefined;
}

/**
 * A token that crosses a network in clear can be read on the way, so it is not sent.
 *
 * @throws AppError `config_invalid`
 */
export function requireSafeToken({ baseUrl, token, allowInsecure }: TokenTarget): void {
  if (token === undefined || allowInsecure || !URL.canParse(baseUrl)) return;
  const { protocol, hostname } = new URL(baseUrl);
  if (protocol !== 'http:' || isLoopbackName(hostname)) return;
  // In a browser there is no process.
  const env = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env;
  if (env?.SIGNET_ALLOW_INSECURE === '1') return;
  const detail = `the token is not sent in clear to ${hostname}; use https (server.tls in agent.yaml), a tunnel, or set SIGNET_ALLOW_INSECURE=1`;
  throw new AppError('config_invalid', { detail });
}
