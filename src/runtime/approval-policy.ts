import type { ApprovalRule, RuntimeConfig } from '../contract/config.ts';
import type { RequestedCall } from '../contract/signal-spec.ts';
import { fitsGlob } from './text-glob.ts';

export type PolicyAnswer = Pick<RequestedCall, 'approval' | 'reason' | 'onExpiry'>;

interface PolicyCall {
  readonly tool: string;
  readonly input: unknown;
  readonly agent: string;
  readonly needsApproval: boolean;
}

/** The first rule that fits decides; without one a tool runs unless it was registered as needing approval. Pure. */
export function callPolicy(config: Pick<RuntimeConfig, 'approvals' | 'approvalExpiry'>, call: PolicyCall): PolicyAnswer {
  const rule = config.approvals.find((candidate) => fits(candidate, call));
  const approval = rule?.decision ?? (call.needsApproval ? 'ask' : 'allow');
  if (approval === 'allow') return { approval };
  const reason = rule ? `agent.yaml says ${rule.decision} for ${describe(rule)}` : 'this tool was registered as needing approval';
  const allows = approval === 'ask' && (rule?.onExpiry ?? config.approvalExpiry) === 'allow';
  return { approval, reason, ...(allows ? { onExpiry: 'allow' } : {}) };
}

function fits({ tool, agent, input = {} }: ApprovalRule, call: PolicyCall): boolean {
  if (agent !== undefined && agent !== call.agent) return false;
  return fitsGlob(tool, call.tool) && Object.entries(input).every(([path, wanted]) => fitsValue(wanted, valueAt(call.input, path)));
}

/** A text is compared with what a number or truth value is written as, too: a model may send either. */
function fitsValue(wanted: string | number | boolean, value: unknown): boolean {
  if (typeof wanted !== 'string') return value === wanted || value === String(wanted);
  if (typeof value === 'string') return fitsGlob(wanted, value);
  return (typeof value === 'number' || typeof value === 'boolean') && fitsGlob(wanted, String(value));
}

/** Own members only; undefined when there is none. */
function valueAt(input: unknown, path: string): unknown {
  let value = input;
  for (const key of keysOf(path)) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** @source RFC 6901 for a path that begins with a slash */
function keysOf(path: string): string[] {
  if (!path.startsWith('/')) return path.split('.');
  return path
    .slice(1)
    .split('/')
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function describe({ tool, input }: ApprovalRule): string {
  const fields = Object.entries(input ?? {}).map(([path, wanted]) => `${path} ${JSON.stringify(wanted)}`);
  return fields.length === 0 ? tool : `${tool} with ${fields.join(' and ')}`;
}
