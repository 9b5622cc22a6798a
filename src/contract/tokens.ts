import { z } from 'zod';
import { AuthMode } from './auth-config.ts';
import { AgentName } from './ids.ts';
import { defineOperation } from './operation.ts';
import { NEUTRAL, WHOLE_WORKSPACE } from './scope.ts';

/** Tokens one workspace may hold. */
export const TOKENS_MAX = 1_000;
/** A token lives this long unless it is told otherwise; unit: days. */
export const TOKEN_DAYS = 90;
export const TOKEN_DAYS_MAX = 3_650;

export const TokenRole = z.enum(['admin', 'operator', 'agent', 'readonly']);
export type TokenRole = z.output<typeof TokenRole>;

export const TokenId = z.string().regex(/^[a-z0-9]{12}$/, 'must be the 12 characters that signet token list shows');

/** What is known of a token; the token itself is shown once, when it is made. */
export const TokenInfo = z.object({
  id: z.string(),
  /** What its maker calls it. */
  name: z.string(),
  role: TokenRole,
  /** The only agent it may act for; null for any. */
  agent: z.string().nullable(),
  /** The only project it may reach; null for any. */
  project: z.string().nullable(),
  createdAt: z.string(),
  /** Null for one that does not expire. */
  expiresAt: z.string().nullable(),
});
export type TokenInfo = z.output<typeof TokenInfo>;

export const NewToken = z.strictObject({
  name: z
    .string()
    .min(1)
    .max(128)
    .regex(/^[^\p{Cc}]*$/u, 'must hold no control characters'),
  role: TokenRole.default('agent'),
  agent: AgentName.optional(),
  project: z.string().min(1).max(4_096).optional(),
  /** Null for a token that does not expire. */
  expiresInDays: z.int().min(1).max(TOKEN_DAYS_MAX).nullable().default(TOKEN_DAYS),
});
export type NewToken = z.output<typeof NewToken>;

const tokens = { tag: 'auth' } as const;

export const tokenOperations = {
  listTokens: defineOperation({
    ...tokens,
    id: 'listTokens',
    method: 'GET',
    path: '/api/tokens',
    scope: WHOLE_WORKSPACE,
    role: 'admin',
    summary: 'Tokens that are valid, oldest first. The tokens themselves are not known any more.',
    input: z.strictObject({}),
    output: z.object({ tokens: z.array(TokenInfo) }),
    errors: ['storage_corrupt'],
  }),
  createToken: defineOperation({
    ...tokens,
    id: 'createToken',
    method: 'POST',
    path: '/api/tokens',
    scope: { agent: ['agent'], project: ['project'] },
    role: 'admin',
    summary: 'Make a token. `token` is shown this once.',
    status: 201,
    input: NewToken,
    output: TokenInfo.extend({ token: z.string() }),
    errors: ['storage_corrupt', 'storage_failed', 'overloaded'],
  }),
  revokeToken: defineOperation({
    ...tokens,
    id: 'revokeToken',
    method: 'DELETE',
    path: '/api/tokens/:id',
    scope: WHOLE_WORKSPACE,
    role: 'admin',
    summary: 'End a token at once, and with it the streams it has opened.',
    input: z.strictObject({ id: TokenId }),
    output: TokenInfo,
    errors: ['token_not_found', 'storage_corrupt', 'storage_failed'],
  }),
  whoami: defineOperation({
    ...tokens,
    id: 'whoami',
    method: 'GET',
    path: '/api/auth/whoami',
    scope: NEUTRAL,
    role: 'readonly',
    summary: 'What the caller may do. `authenticated` is false for a call that needed no token.',
    input: z.strictObject({}),
    output: z.object({
      mode: AuthMode,
      authenticated: z.boolean(),
      tokenId: z.string().nullable(),
      role: TokenRole,
      agent: z.string().nullable(),
      project: z.string().nullable(),
      expiresAt: z.string().nullable(),
    }),
    errors: [],
  }),
};
