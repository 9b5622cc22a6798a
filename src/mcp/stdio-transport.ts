import type { Readable } from 'node:stream';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  DEFAULT_NEGOTIATED_PROTOCOL_VERSION,
  ErrorCode,
  isJSONRPCRequest,
  type JSONRPCMessage,
  type RequestId,
} from '@modelcontextprotocol/sdk/types.js';
import { createLineReader } from './line-reader.ts';
import { isFault, type ReadMessages, type RpcFault, readMessages, rpcFault } from './server-messages.ts';

/** Longest line a client may send: a document of the longest kind; unit: bytes. */
const LINE_BYTES_MAX = 8 * 1_048_576;
/** Requests at work at once; further lines are read when one of them is answered. */
const IN_FLIGHT_MAX = 64;

export interface StdioStreams {
  readonly stdin: Readable;
  readonly stdout: { write(text: string): unknown };
}

interface Batch {
  missing: number;
  readonly answers: unknown[];
}

/**
 * JSON-RPC over a pair of pipes, one message a line. What is no message gets an error as its answer; nothing but JSON-RPC is written.
 * The end of the input ends it once every request is answered, so that `echo '...' | signet-mcp` answers.
 */
export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport['onmessage'];
  /** Resolves when it is closed. */
  readonly closed: Promise<void>;
  readonly #streams: StdioStreams;
  readonly #closed = Promise.withResolvers<void>();
  readonly #linesOf = createLineReader(LINE_BYTES_MAX);
  readonly #inFlight = new Map<RequestId, Batch | undefined>();
  #version = DEFAULT_NEGOTIATED_PROTOCOL_VERSION;
  #hasEnded = false;
  #isClosed = false;

  constructor(streams: StdioStreams) {
    this.#streams = streams;
    this.closed = this.#closed.promise;
  }

  async start(): Promise<void> {
    const { stdin } = this.#streams;
    stdin.on('data', this.#read);
    stdin.once('end', this.#end);
    stdin.once('close', this.#end);
    stdin.once('error', this.#end);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if ('method' in message || message.id === undefined) return this.#write(message);
    const { id } = message;
    if ('result' in message && typeof message.result.protocolVersion === 'string') this.#version = message.result.protocolVersion;
    const batch = this.#inFlight.get(id);
    this.#inFlight.delete(id);
    if (batch) this.#collect(batch, message);
    else this.#write(message);
    this.#settle();
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { stdin } = this.#streams;
    stdin.off('data', this.#read);
    stdin.pause();
    this.onclose?.();
    this.#closed.resolve();
  }

  readonly #read = (chunk: Buffer | string): void => {
    try {
      for (const line of this.#linesOf(typeof chunk === 'string' ? Buffer.from(chunk) : chunk)) if (line.trim() !== '') this.#take(line);
    } catch (error) {
      // Where the next message begins cannot be known any more.
      this.#write(rpcFault(ErrorCode.InvalidRequest, `Invalid Request: ${(error as Error).message}`));
      void this.close();
    }
  };

  #take(line: string): void {
    const read = this.#parse(line);
    if (isFault(read)) {
      this.#write(read);
      return;
    }
    const requests = read.messages.filter((message) => isJSONRPCRequest(message));
    const batch = read.isBatch ? { missing: requests.length, answers: [...read.faults] } : undefined;
    for (const message of read.messages) this.#deliver(message, batch);
    if (batch?.missing === 0 && batch.answers.length > 0) this.#write(batch.answers);
    this.#settle();
  }

  #parse(line: string): ReadMessages | RpcFault {
    let body: unknown;
    try {
      body = JSON.parse(line);
    } catch {
      return rpcFault(ErrorCode.ParseError, 'Parse error: the line is not valid JSON');
    }
    return readMessages(body, this.#version);
  }

  #deliver(message: JSONRPCMessage, batch: Batch | undefined): void {
    if (isJSONRPCRequest(message)) this.#inFlight.set(message.id, batch);
    this.onmessage?.(message);
    // A request that was taken back is not answered.
    if ('method' in message && message.method === 'notifications/cancelled') this.#inFlight.delete(message.params?.requestId as RequestId);
  }

  #collect(batch: Batch, answer: JSONRPCMessage): void {
    batch.answers.push(answer);
    batch.missing -= 1;
    if (batch.missing === 0) this.#write(batch.answers);
  }

  #settle(): void {
    if (this.#isClosed) return;
    const { stdin } = this.#streams;
    if (this.#inFlight.size >= IN_FLIGHT_MAX) stdin.pause();
    else if (stdin.isPaused() && !this.#hasEnded) stdin.resume();
    if (this.#hasEnded && this.#inFlight.size === 0) void this.close();
  }

  readonly #end = (): void => {
    this.#hasEnded = true;
    this.#settle();
  };

  #write(message: unknown): void {
    this.#streams.stdout.write(`${JSON.stringify(message)}\n`);
  }
}
