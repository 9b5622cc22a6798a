import { z } from 'zod';
import type { SignalKind } from './signal.ts';
import { ToolClass } from './tool.ts';

export interface SignalSpec {
  readonly kind: SignalKind;
  readonly payload: z.ZodType;
  readonly description: string;
}

export const text = z.string();
export const optionalText = z.string().optional();
export const count = z.int().min(0);
export const ms = z.number().min(0);
export const MachineRef = z.object({ id: text, version: text, digest: text });
export const HookName = z.enum(['session-start', 'user-prompt-submit', 'session-end', 'pre-compaction', 'compaction-complete']);
export type HookName = z.output<typeof HookName>;

/** How a tool that runs before generation takes the prompt, where that is not `{query: <the prompt>}`. */
export const ResearchInput = z.object({
  field: text,
  /** Longer prompts are cut to it. */
  charsMax: count.optional(),
  /** Other fields it requires, with values its schema names. */
  fixed: z.record(z.string(), z.unknown()).optional(),
});
export type ResearchInput = z.output<typeof ResearchInput>;

/** A tool the model may call in a turn, as far as the machine must know it. */
export const OfferedTool = z.object({
  name: text,
  class: ToolClass,
  origin: z.enum(['builtin', 'custom', 'mcp']),
  tokens: count,
  research: ResearchInput.optional(),
});
export type OfferedTool = z.output<typeof OfferedTool>;

/** A call the model asked for, with what the registry and the policy said of it at that moment. */
export const RequestedCall = z.object({
  id: text,
  name: text,
  input: z.unknown(),
  class: ToolClass,
  origin: z.enum(['builtin', 'custom', 'mcp', 'unknown']),
  approval: z.enum(['allow', 'ask', 'deny']),
  reason: optionalText,
  onExpiry: z.enum(['deny', 'allow']).optional(), // Absent means deny.
});
export type RequestedCall = z.output<typeof RequestedCall>;

export const MessageFacts = { messageId: text, type: text, from: text, fromSession: optionalText, broadcast: z.boolean() };

export const ErrorFields = { code: text, message: text };

export const spec = <K extends SignalKind, P extends z.ZodType>(kind: K, payload: P, description: string) => ({
  kind,
  payload,
  description,
});
export const state = (description: string) =>
  spec('machine', z.object({ turn: count.optional(), round: count.optional(), reason: optionalText }), description);

/** On whose behalf it came about, where that is a token for one agent or one project: all it causes is held to it. */
export const Limit = z.object({ agent: optionalText, project: optionalText });
