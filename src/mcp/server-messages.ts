import {
  ErrorCode,
  isInitializeRequest,
  isJSONRPCRequest,
  type JSONRPCMessage,
  JSONRPCMessageSchema,
  type RequestId,
} from '@modelcontextprotocol/sdk/types.js';

/** Messages of one batch. */
const BATCH_MESSAGES_MAX = 100;
/** Versions whose clients may send several messages in one body; 2025-06-18 took that out. */
const BATCH_VERSIONS = ['2025-03-26', '2024-11-05', '2024-10-07'];
const CANCELLED = 'notifications/cancelled';

export interface RpcFault {
  readonly jsonrpc: '2.0';
  readonly id: RequestId | null;
  readonly error: { readonly code: number; readonly message: string };
}

export interface ReadMessages {
  readonly messages: readonly JSONRPCMessage[];
  /** Answers to what was no message, or not one for a batch. */
  readonly faults: readonly RpcFault[];
  readonly isBatch: boolean;
}

/**
 * The messages of a body, each checked.
 *
 * @param version  of the header MCP-Protocol-Version, or what its absence stands for
 * @returns        a fault when the body as a whole is refused
 */
export function readMessages(body: unknown, version: string): ReadMessages | RpcFault {
  if (body === undefined) return rpcFault(ErrorCode.ParseError, 'Parse error: the body is empty; send one JSON-RPC message');
  if (!Array.isArray(body)) {
    const message = readMessage(body);
    if (isFault(message)) return message;
    const fault = paramsFault(message);
    return { messages: fault ? [] : [message], faults: fault ? [fault] : [], isBatch: false };
  }
  if (!BATCH_VERSIONS.includes(version))
    return rpcFault(
      ErrorCode.InvalidRequest,
      `Invalid Request: version ${version} of the protocol has no batches; send one message a body`,
    );
  if (body.length === 0) return rpcFault(ErrorCode.InvalidRequest, 'Invalid Request: the batch is empty');
  if (body.length > BATCH_MESSAGES_MAX)
    return rpcFault(
      ErrorCode.InvalidRequest,
      `Invalid Request: a batch takes at most ${BATCH_MESSAGES_MAX} messages, this one has ${body.length}`,
    );
  return readBatch(body);
}

function readBatch(body: readonly unknown[]): ReadMessages {
  const messages: JSONRPCMessage[] = [];
  const faults: RpcFault[] = [];
  const ids = new Set<RequestId>();
  for (const item of body) {
    const read = readMessage(item);
    const message = isFault(read) ? read : (paramsFault(read) ?? read);
    if (isFault(message)) faults.push(message);
    else if (isInitializeRequest(message) && 'id' in message)
      faults.push(rpcFault(ErrorCode.InvalidRequest, 'Invalid Request: initialize must not be part of a batch', message.id as RequestId));
    else if (isJSONRPCRequest(message) && ids.has(message.id))
      faults.push(rpcFault(ErrorCode.InvalidRequest, 'Invalid Request: the id is used twice in the batch', message.id));
    // Requests of one batch run at once; taking one of them back in the same breath would leave it without an answer.
    else if (!('method' in message && message.method === CANCELLED)) {
      if (isJSONRPCRequest(message)) ids.add(message.id);
      messages.push(message);
    }
  }
  return { messages, faults, isBatch: true };
}

function readMessage(value: unknown): JSONRPCMessage | RpcFault {
  const read = JSONRPCMessageSchema.safeParse(value);
  if (read.success) return read.data;
  const id = (value as { id?: unknown } | null)?.id;
  const hint = 'send an object with jsonrpc "2.0", a method, and an id when an answer is wanted';
  return rpcFault(
    ErrorCode.InvalidRequest,
    `Invalid Request: ${hint}`,
    typeof id === 'string' || Number.isInteger(id) ? (id as RequestId) : null,
  );
}

/** What the SDK would refuse as a fault of its own, in the words of its schemas. */
function paramsFault(message: JSONRPCMessage): RpcFault | undefined {
  if (!('method' in message) || !('id' in message)) return undefined;
  const { method, id, params = {} } = message;
  const refuse = (what: string) => rpcFault(ErrorCode.InvalidParams, `Invalid params: ${method} needs ${what}`, id);
  if (method === 'initialize' && !isInitializeRequest(message))
    return refuse('params.protocolVersion, capabilities and clientInfo {name, version}');
  if (method === 'tools/call') {
    const { name, arguments: given = {} } = params as { name?: unknown; arguments?: unknown };
    if (typeof name !== 'string') return refuse('params.name, the name of a tool');
    if (typeof given !== 'object' || given === null || Array.isArray(given)) return refuse('params.arguments to be an object');
  }
  if (/^resources\/(?:read|subscribe|unsubscribe)$/.test(method) && typeof params.uri !== 'string')
    return refuse('params.uri, the address of a resource');
  return undefined;
}

export function isFault(value: ReadMessages | JSONRPCMessage | RpcFault): value is RpcFault {
  return 'error' in value && 'id' in value && !('result' in value) && faults.has(value);
}

/** A client may send an error response of its own, which looks the same. */
const faults = new WeakSet<object>();

export function rpcFault(code: number, message: string, id: RequestId | null = null): RpcFault {
  const fault: RpcFault = { jsonrpc: '2.0', id, error: { code, message } };
  faults.add(fault);
  return fault;
}
