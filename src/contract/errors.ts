import { z } from 'zod';

interface ErrorSpec {
  readonly status: number;
  readonly title: string;
  /** May the same request succeed later without a change? */
  readonly retryable: boolean;
}

/** Every code a client can see. docs/errors.md is generated from this table. */
export const ERRORS = {
  invalid_request: { status: 400, title: 'The request does not fit the operation', retryable: false },
  invalid_json: { status: 400, title: 'The body is not valid JSON', retryable: false },
  invalid_pattern: { status: 400, title: 'The signal pattern is not valid', retryable: false },
  invalid_cursor: { status: 400, title: 'The cursor is not one this server gave out', retryable: false },
  unknown_provider: { status: 400, title: 'No provider of this name is configured', retryable: false },
  unknown_model: { status: 400, title: 'The provider does not know this model', retryable: false },
  unknown_agent: { status: 400, title: 'No agent of this name exists', retryable: false },
  unauthorized: { status: 401, title: 'A token is needed', retryable: false },
  forbidden: { status: 403, title: 'The token does not allow this', retryable: false },
  origin_forbidden: { status: 403, title: 'Requests from this web origin are not allowed', retryable: false },
  not_found: { status: 404, title: 'Nothing is here', retryable: false },
  session_not_found: { status: 404, title: 'No session of this id', retryable: false },
  prompt_not_found: { status: 404, title: 'No prompt of this id in the session', retryable: false },
  memory_not_found: { status: 404, title: 'No memory of this id', retryable: false },
  tool_not_found: { status: 404, title: 'No tool of this name is registered', retryable: false },
  provider_not_found: { status: 404, title: 'No provider of this id', retryable: false },
  machine_not_found: { status: 404, title: 'No machine of this id', retryable: false },
  approval_not_found: { status: 404, title: 'No approval of this id', retryable: false },
  id_conflict: { status: 409, title: 'The id was used before with other content', retryable: false },
  session_ended: { status: 409, title: 'The session has ended', retryable: false },
  session_quarantined: { status: 409, title: 'The session crashed again and again and is put aside', retryable: false },
  session_claimed: { status: 409, title: 'Another runtime path owns this session', retryable: false },
  turn_open: { status: 409, title: 'A turn is running', retryable: true },
  nothing_to_compact: { status: 409, title: 'There is nothing to compact', retryable: false },
  prompt_not_queued: { status: 409, title: 'The prompt is not in the queue any more', retryable: false },
  prompt_cancelled: { status: 409, title: 'The prompt was taken out of the queue', retryable: false },
  approval_decided: { status: 409, title: 'The approval was already decided', retryable: false },
  tool_exists: { status: 409, title: 'A tool of this name is registered already', retryable: false },
  version_conflict: { status: 409, title: 'The record changed in the meantime', retryable: false },
  memory_deleted: { status: 409, title: 'The memory is deleted', retryable: false },
  memory_pinned: { status: 409, title: 'The memory is pinned; send force to delete it', retryable: false },
  memory_duplicate: { status: 409, title: 'Another memory has the same content', retryable: false },
  payload_too_large: { status: 413, title: 'The body is larger than the operation takes', retryable: false },
  unsupported_media_type: { status: 415, title: 'Bodies are taken as application/json only', retryable: false },
  host_forbidden: { status: 421, title: 'This server does not answer for that Host', retryable: false },
  output_invalid: { status: 502, title: 'The answer does not fit the requested schema', retryable: true },
  session_busy: { status: 429, title: 'The session holds as many prompts as it may', retryable: true },
  too_many_sessions: { status: 429, title: 'As many sessions are open as may be', retryable: true },
  rate_limited: { status: 429, title: 'Too many requests', retryable: true },
  internal: { status: 500, title: 'A fault of this server', retryable: false },
  provider_failed: { status: 502, title: 'The model provider failed', retryable: true },
  provider_refused: { status: 502, title: 'The model provider refused the request', retryable: false },
  provider_overloaded: { status: 503, title: 'The model provider is overloaded', retryable: true },
  provider_timeout: { status: 504, title: 'The model provider did not answer in time', retryable: true },
  provider_stream_cut: { status: 502, title: 'The answer of the model broke off', retryable: true },
  provider_malformed: { status: 502, title: 'The model provider sent something unreadable', retryable: true },
  context_overflow: { status: 502, title: 'The conversation does not fit the model', retryable: false },
  compaction_failed: { status: 502, title: 'The conversation could not be compacted', retryable: true },
  tool_failed: { status: 502, title: 'The tool failed', retryable: true },
  turn_timeout: { status: 504, title: 'The turn took longer than it may', retryable: true },
  timeout: { status: 504, title: 'It took longer than it may', retryable: true },
  draining: { status: 503, title: 'The server is shutting down', retryable: true },
  overloaded: { status: 503, title: 'The server holds as much work as it may', retryable: true },
  daemon_unreachable: { status: 503, title: 'The daemon does not answer', retryable: true },
  storage_failed: { status: 507, title: 'The store could not write', retryable: true },
  storage_corrupt: { status: 500, title: 'A database file is damaged', retryable: false },
  storage_version: { status: 500, title: 'A database file was written by another version', retryable: false },
  session_fenced: { status: 409, title: 'Another process owns this session now', retryable: true },
  config_invalid: { status: 400, title: 'agent.yaml is not valid', retryable: false },
  workspace_locked: { status: 409, title: 'Another daemon runs on this workspace', retryable: false },
  workspace_unwritable: { status: 500, title: 'The workspace cannot be written', retryable: false },
  port_taken: { status: 409, title: 'The port is taken', retryable: false },
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof ERRORS;
export const ErrorCode = z.enum(Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]]);

/** RFC 9457 problem document. `error` repeats `detail` for clients that read only that. */
export const Problem = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  code: ErrorCode,
  error: z.string(),
  errors: z.array(z.object({ pointer: z.string(), detail: z.string() })).optional(),
  retryAfterMs: z.number().optional(),
  requestId: z.string().optional(),
});
export type Problem = z.output<typeof Problem>;
