import { z } from 'zod';
import { AgentName, DEVICE_NAMES } from './ids.ts';

const NO_DEVICE_NAME = new RegExp(`^(?!${DEVICE_NAMES}$)`);

/** The name of an agent somebody sets up; what was written under any AgentName stays readable. */
export const NewAgentName = AgentName.regex(NO_DEVICE_NAME, 'must not be the name of a device on Windows, such as con, nul or com1');

/**
 * Which global memories an agent sees beside its own: `shared` those of all agents, `isolated` none, `group` those of the agents with the
 * same `policy_group`. Without a group, `group` is `isolated`.
 */
export const ReadPolicy = z.enum(['isolated', 'shared', 'group']);
export type ReadPolicy = z.output<typeof ReadPolicy>;

export const PolicyGroup = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'must be 1 to 64 characters of a-z, 0-9, _ and -');

/** Bindings of one configuration. */
const BINDINGS_MAX = 1_000;

/** Which chats an agent answers in OpenClaw; `match` is taken as it is. */
export const OpenclawBinding = z.strictObject({
  agent: AgentName.describe('Agent of the roster'),
  match: z.record(z.string(), z.unknown()).describe('`channel` and what else OpenClaw matches by'),
});
export type OpenclawBinding = z.output<typeof OpenclawBinding>;

export const OpenclawConfig = z.strictObject({
  sync: z.boolean().default(true).describe('Keep openclaw.json even with the roster, where there is such a file'),
  config: z.string().min(1).optional().describe('Path of openclaw.json; absent means its usual places'),
  bindings: z
    .array(OpenclawBinding)
    .max(BINDINGS_MAX)
    .optional()
    .describe('Channel routing of the agents of the roster; absent leaves what openclaw.json says'),
});
export type OpenclawConfig = z.output<typeof OpenclawConfig>;
