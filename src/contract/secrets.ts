import { z } from 'zod';
import { defineOperation } from './operation.ts';
import { WHOLE_WORKSPACE } from './scope.ts';

/** Names one workspace may hold. */
export const SECRETS_MAX = 1_000;
export const SECRET_NAME_CHARS_MAX = 128;
/** A shorter value would be found everywhere in an output, so it cannot be kept out of it; unit: characters. */
export const SECRET_CHARS_MIN = 4;
/** Room for keys and certificates; unit: characters. */
export const SECRET_CHARS_MAX = 32_768;
/** Secrets one command may be given. */
export const EXEC_SECRETS_MAX = 32;
/** Longest command line; unit: characters. */
export const EXEC_COMMAND_CHARS_MAX = 65_536;
/** A command is given up after this; unit: milliseconds. */
export const EXEC_TIMEOUT_MS = 30_000;
/** Deadline for a call of `execWithSecrets`: the answer about a command that was given up must still arrive; unit: milliseconds. */
export const EXEC_CALL_TIMEOUT_MS = 40_000;

const TOO_SHORT = `must have at least ${SECRET_CHARS_MIN} characters: a shorter value could not be kept out of an output`;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const VARIABLE_RULE = 'must be letters, digits and _, not starting with a digit';

/** A name that can be a variable of a shell. `exec` is a route. */
export const SecretName = z
  .string()
  .max(SECRET_NAME_CHARS_MAX)
  .regex(VARIABLE, VARIABLE_RULE)
  .refine((name) => name !== 'exec' && name !== '__proto__', { message: 'cannot be exec or __proto__; choose another name' });
export type SecretName = z.output<typeof SecretName>;

/** `op://vault/item/field`, read by the command line of 1Password when it is needed. */
export const OnePasswordReference = z
  .string()
  .max(1_024)
  // Anything but control characters: the reference is one argument, no shell sees it.
  .regex(/^op:\/\/[^/\p{Cc}]+\/[^/\p{Cc}]+\/[^\p{Cc}]+$/u, 'must be op://vault/item/field');

export const SecretReference = z.union([SecretName, OnePasswordReference], {
  error: 'must be the name of a stored secret or op://vault/item/field',
});
export type SecretReference = z.output<typeof SecretReference>;

const VariableName = z
  .string()
  .max(SECRET_NAME_CHARS_MAX)
  .regex(VARIABLE, VARIABLE_RULE)
  .refine((name) => name !== '__proto__', { message: 'cannot be __proto__' });

/** Variable of the environment → which secret it holds. */
export const SecretMap = z
  .record(VariableName, SecretReference)
  .refine((map) => Object.keys(map).length >= 1 && Object.keys(map).length <= EXEC_SECRETS_MAX, {
    message: `must name 1 to ${EXEC_SECRETS_MAX} secrets`,
  });
export type SecretMap = z.output<typeof SecretMap>;

export const ExecAnswer = z.object({
  /** What the command wrote, as UTF-8, with `[REDACTED]` wherever one of its secrets stood. */
  stdout: z.string(),
  stderr: z.string(),
  /** Exit code; 128 and the number of the signal that ended it; 124 when it was given up. */
  code: z.int(),
  /** It ran into its deadline. */
  timedOut: z.boolean(),
  /** It wrote more than is kept. */
  truncated: z.boolean(),
});
export type ExecAnswer = z.output<typeof ExecAnswer>;

const secrets = { tag: 'secrets', unknownFields: 'ignore' } as const;
const NO_ZERO = 'must hold no zero byte';
const command = z
  .string()
  .min(1)
  .max(EXEC_COMMAND_CHARS_MAX)
  .regex(/^[^\0]*$/, NO_ZERO);
const limits = {
  /** Where it runs: an absolute path of the daemon's machine; the home folder when left out. */
  cwd: z
    .string()
    .min(1)
    .max(4_096)
    .regex(/^[^\0]*$/, NO_ZERO)
    .optional(),
  /** Give up earlier; at most EXEC_TIMEOUT_MS. */
  timeoutMs: z.int().min(1).max(EXEC_TIMEOUT_MS).default(EXEC_TIMEOUT_MS),
};

export const secretOperations = {
  listSecrets: defineOperation({
    ...secrets,
    id: 'listSecrets',
    method: 'GET',
    path: '/api/secrets',
    scope: WHOLE_WORKSPACE,
    role: 'operator',
    summary: 'Names of the stored secrets, sorted. No operation answers a value.',
    input: z.object({}),
    output: z.object({ secrets: z.array(z.string()) }),
    errors: ['storage_corrupt'],
    source: 'spec/mcp-server',
  }),
  hasSecret: defineOperation({
    ...secrets,
    id: 'hasSecret',
    method: 'GET',
    path: '/api/secrets/:name',
    scope: WHOLE_WORKSPACE,
    role: 'operator',
    summary: 'Is there a secret of this name, and since when?',
    input: z.object({ name: SecretName }),
    output: z.object({ name: z.string(), createdAt: z.string(), updatedAt: z.string() }),
    errors: ['secret_not_found', 'storage_corrupt'],
  }),
  putSecret: defineOperation({
    ...secrets,
    id: 'putSecret',
    method: 'POST',
    path: '/api/secrets/:name',
    scope: WHOLE_WORKSPACE,
    role: 'operator',
    summary: 'Store a secret, or replace its value. It is encrypted on disk.',
    input: z.object({ name: SecretName, value: z.string().min(SECRET_CHARS_MIN, TOO_SHORT).max(SECRET_CHARS_MAX) }),
    output: z.object({ success: z.literal(true), name: z.string() }),
    errors: ['storage_corrupt', 'storage_failed', 'secrets_locked', 'overloaded'],
  }),
  deleteSecret: defineOperation({
    ...secrets,
    id: 'deleteSecret',
    method: 'DELETE',
    path: '/api/secrets/:name',
    scope: WHOLE_WORKSPACE,
    role: 'operator',
    summary: 'Forget a secret.',
    input: z.object({ name: SecretName }),
    output: z.object({ success: z.literal(true), name: z.string() }),
    errors: ['secret_not_found', 'storage_corrupt', 'storage_failed'],
  }),
  execWithSecrets: defineOperation({
    ...secrets,
    id: 'execWithSecrets',
    method: 'POST',
    path: '/api/secrets/exec',
    scope: WHOLE_WORKSPACE,
    role: 'operator',
    summary: 'Run a shell command with secrets in its environment; their values are taken out of what it writes.',
    input: z.object({ command, secrets: SecretMap, ...limits }),
    output: ExecAnswer,
    errors: ['secret_not_found', 'secret_reference_failed', 'secrets_locked', 'storage_corrupt', 'overloaded'],
    source: 'spec/mcp-server',
  }),
  execWithSecret: defineOperation({
    ...secrets,
    id: 'execWithSecret',
    method: 'POST',
    path: '/api/secrets/:name/exec',
    scope: WHOLE_WORKSPACE,
    role: 'operator',
    summary: 'The same with one secret under its own name, unless `secrets` says otherwise.',
    input: z.object({ name: SecretName, command, secrets: SecretMap.optional(), ...limits }),
    output: ExecAnswer,
    errors: ['secret_not_found', 'secret_reference_failed', 'secrets_locked', 'storage_corrupt', 'overloaded'],
  }),
};
