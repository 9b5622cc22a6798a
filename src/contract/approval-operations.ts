import { z } from 'zod';
import { AgentName, AskedSession, SessionId } from './ids.ts';
import { defineOperation } from './operation.ts';
import { ONE_SESSION } from './scope.ts';

const sessionId = { id: AskedSession };
const runtime = { tag: 'approvals' } as const;

export const approvalOperations = {
  listApprovals: defineOperation({
    ...runtime,
    id: 'listApprovals',
    method: 'GET',
    path: '/approvals',
    scope: { agent: 'owner', project: 'owner', sessions: ['session'] },
    role: 'readonly',
    summary: 'Tool calls that wait for a person, oldest first.',
    input: z.strictObject({ session: SessionId.optional() }),
    output: z.object({
      items: z.array(
        z.object({
          id: z.string(),
          session: SessionId,
          agent: AgentName,
          tool: z.string(),
          input: z.unknown(),
          /** The whole input as JSON with every character visible, for a screen: controls, bidirectional and zero-width marks, tags as \u escapes. */
          inputText: z.string(),
          reason: z.string(),
          requestedAt: z.string(),
          expiresAt: z.string(),
        }),
      ),
      count: z.int(),
    }),
    errors: [],
  }),
  decideApproval: defineOperation({
    ...runtime,
    id: 'decideApproval',
    method: 'POST',
    path: '/session/:id/approvals/:approvalId',
    scope: ONE_SESSION,
    role: 'operator',
    summary: 'Allow a tool call once, allow the tool for the rest of the session, or deny it.',
    input: z.strictObject({
      ...sessionId,
      approvalId: z.string().min(1).max(256),
      decision: z.enum(['once', 'always', 'deny']),
      message: z.string().max(2_000).optional(),
    }),
    output: z.object({ id: z.string(), decision: z.enum(['once', 'always', 'deny']), seq: z.int() }),
    errors: ['session_not_found', 'approval_not_found', 'approval_decided'],
  }),
};
