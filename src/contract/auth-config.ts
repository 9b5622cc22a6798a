import { z } from 'zod';

/**
 * `local` asks no caller of the daemon's user for a token and answers this machine only, `team` asks everybody, `hybrid` asks callers from other machines.
 *
 * @source spec/mcp-server, "Authentication"
 */
export const AuthMode = z.enum(['local', 'team', 'hybrid']);
export type AuthMode = z.output<typeof AuthMode>;

/** Other Signet software keeps keys of its own here as well; they are left alone. */
export const AuthConfig = z.looseObject({
  mode: AuthMode.default('local').describe(
    'Who needs a token: `local` other users of this machine for what executes or decides, `hybrid` callers from other machines as well, `team` everybody (SIGNET_AUTH_MODE)',
  ),
  requestsPerMinute: z.int().min(1).max(1_000_000).default(6_000).describe('Requests of one token in a minute; not asked in mode local'),
  failuresPerMinute: z.int().min(1).max(10_000).default(30).describe('Refused tokens of one address in a minute; not asked in mode local'),
});
export type AuthConfig = z.output<typeof AuthConfig>;

export const SecretsConfig = z.strictObject({
  keyring: z
    .boolean()
    .default(true)
    .describe('Keep the key of the secrets in the keyring of the operating system when it has one; otherwise in a file'),
});
export type SecretsConfig = z.output<typeof SecretsConfig>;
