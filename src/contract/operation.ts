import { z } from 'zod';
import type { ErrorCode } from './errors.ts';
import type { FieldOf, OperationScope } from './scope.ts';

export type Method = 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';

/** Least role a caller needs when tokens are in use. */
export type Role = 'readonly' | 'agent' | 'operator' | 'admin';

export interface Operation<I extends z.ZodType = z.ZodType, O extends z.ZodType = z.ZodType> {
  /** Stable camelCase id: OpenAPI operationId, method name of the client, key of the handler table. */
  readonly id: string;
  readonly method: Method;
  /** `/session/:id/prompt`; every `:name` is a field of `input`. */
  readonly path: string;
  readonly summary: string;
  readonly tag: string;
  readonly role: Role;
  /** What of it a token limited to one agent or project may reach. */
  readonly scope: OperationScope;
  /** Path fields, and the query (GET, DELETE) or body (others), in one flat object. */
  readonly input: I;
  readonly output: O;
  readonly errors: readonly ErrorCode[];
  /** Status of success, default 200; a handler may answer another 2xx by `reply.status`. */
  readonly status?: number;
  /** Unknown fields: refused with a pointer (default), or ignored for clients that already exist. */
  readonly unknownFields?: 'refuse' | 'ignore';
  /** Largest body, default BODY_BYTES_MAX. */
  readonly bodyBytesMax?: number;
  /** Most values of a body (numbers, texts, members, lists, objects), default BODY_VALUES_MAX. */
  readonly bodyValuesMax?: number;
  /** Where fields travel when method alone does not say: query fields of a POST. */
  readonly queryFields?: readonly string[];
  /** Body fields whose name on the wire differs, because a path field took it: `{ promptId: 'id' }`. Both names are read; documents show the wire name. */
  readonly wireNames?: Readonly<Record<string, string>>;
  /** Answers a stream instead of JSON; its handler stands beside the operation handlers. */
  readonly stream?: 'sse' | 'websocket';
  /** Answers text of this type instead of JSON; `output` is then a string. */
  readonly contentType?: string;
  /** In spec/ or only ours: shown in the documents. */
  readonly source?: string;
}

export type InputOf<Op extends Operation> = z.input<Op['input']>;
export type ParsedInputOf<Op extends Operation> = z.output<Op['input']>;
export type OutputOf<Op extends Operation> = z.output<Op['output']>;

/** Default limit of a JSON body in bytes. */
export const BODY_BYTES_MAX = 1_048_576;
/** Default limit of the values in a JSON body: to parse and check so many takes some 20 ms. */
export const BODY_VALUES_MAX = 20_000;

/** @param operation  its scope names fields of its own input: anything else does not compile */
export function defineOperation<I extends z.ZodType, O extends z.ZodType>(
  operation: Operation<I, O> & { readonly scope: OperationScope<FieldOf<I>> },
): Operation<I, O> {
  return operation;
}

/** Whole number in a query string or a JSON body. */
export const wholeNumber = (min: number, max: number) => z.coerce.number().int().min(min).max(max);

/** `1`, `true`, `yes` and their opposites in a query string, or a JSON boolean. */
export const flag = z.union([z.boolean(), z.stringbool()]);

/** Names between braces of a path. */
export function pathFields(path: string): string[] {
  return [...path.matchAll(/:([A-Za-z]+)/g)].map((match) => match[1]!);
}
