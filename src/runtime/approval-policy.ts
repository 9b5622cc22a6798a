import type { ApprovalRule } from '../contract/config.ts';

export interface PolicyAnswer {
  readonly approval: 'allow' | 'ask' | 'deny';
  readonly reason?: string;
}

/** The first rule that fits decides; without one a tool runs unless it was registered as needing approval. Pure. */
export function callPolicy(rules: readonly ApprovalRule[], call: { tool: string; agent: string; needsApproval: boolean }): PolicyAnswer {
  const rule = rules.find(
    (candidate) => (candidate.agent === undefined || candidate.agent === call.agent) && fits(candidate.tool, call.tool),
  );
  if (rule)
    return rule.decision === 'allow'
      ? { approval: 'allow' }
      : { approval: rule.decision, reason: `agent.yaml says ${rule.decision} for ${rule.tool}` };
  return call.needsApproval ? { approval: 'ask', reason: 'this tool was registered as needing approval' } : { approval: 'allow' };
}

/** `*` stands for any run of characters; linear, without backtracking beyond the last star. */
function fits(pattern: string, name: string): boolean {
  let p = 0;
  let n = 0;
  let star = -1;
  let mark = 0;
  while (n < name.length) {
    if (pattern[p] === '*') {
      star = p++;
      mark = n;
    } else if (p < pattern.length && pattern[p] === name[n]) {
      p += 1;
      n += 1;
    } else if (star >= 0) {
      p = star + 1;
      n = ++mark;
    } else return false;
  }
  while (pattern[p] === '*') p += 1;
  return p === pattern.length;
}
