import type { InputOf, Operation, OutputOf, ParsedInputOf } from '../contract/operation.ts';
import type { CallerLimit } from '../contract/scope.ts';
import type { Caller } from './caller.ts';

/** What a handler may know of a request besides its validated input. */
export interface RequestContext {
  /** From `x-request-id`, else made up; answered in the same header and in problems. */
  readonly requestId: string;
  /** Who asks: `x-signet-actor`, else the kind of transport (http, websocket, in-process). For the record, never for rights. */
  readonly client: string;
  /** Aborts when the caller has gone. Work that must outlive the caller does not listen to it. */
  readonly signal: AbortSignal;
  /** Lower-case request header, undefined when absent. */
  header(name: string): string | undefined;
  /** Whose token it is; undefined where none is asked for: such a caller may do everything. */
  readonly caller?: Caller | undefined;
  /**
   * Rights of this caller to another operation than the one it called: its role, and the agent and project of its token.
   *
   * @returns the input as the caller may send it, agent and project filled in
   * @throws AppError `forbidden`
   */
  readonly admit?: ((operation: Operation, input: Readonly<Record<string, unknown>>) => Promise<Record<string, unknown>>) | undefined;
  /** Counts further requests that came with this one: commands on a socket, messages of a batch. @throws AppError `rate_limited` */
  readonly charge?: ((requests: number) => void) | undefined;
  readonly reply: {
    /** Another 2xx than the operation's own. */
    status(code: number): void;
    header(name: string, value: string): void;
  };
}

/** Answers an operation; its input is validated already. Throws AppError for what the operation lists in `errors`. */
export type Handler<Op extends Operation> = (input: ParsedInputOf<Op>, context: RequestContext) => OutputOf<Op> | Promise<OutputOf<Op>>;

export type Operations = Readonly<Record<string, Operation>>;

/** One handler an operation, no more and no less: the whole of an app's `routes.ts`. */
export type Handlers<T extends Operations> = { readonly [K in keyof T]: Handler<T[K]> };

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** Deadline of the call in ms; a transport has its own default. */
  readonly timeoutMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** On whose behalf it is made, where that is not everybody: the operation is held to it as to the token itself. */
  readonly limit?: CallerLimit | undefined;
}

/**
 * One call of an operation, over HTTP or within the process; both validate the input and answer the same.
 *
 * @throws AppError with the code of the answer; `daemon_unreachable` when nobody answers; `timeout` past the deadline
 */
export type Call = <Op extends Operation>(operation: Op, input: InputOf<Op>, options?: CallOptions) => Promise<OutputOf<Op>>;

/** The only way from the runtime to memories, hooks, session registry and config. */
export interface DaemonClient {
  readonly baseUrl: string;
  readonly call: Call;
}
