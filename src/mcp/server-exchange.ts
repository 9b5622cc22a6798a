import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { isJSONRPCRequest, type JSONRPCMessage, type RequestId } from '@modelcontextprotocol/sdk/types.js';

/**
 * The transport of one POST: its messages go in, and when every request among them is answered, the answers come out in the order of the
 * requests. It is of no use after that.
 */
export class HttpExchange implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport['onmessage'];
  readonly #answers = new Map<RequestId, JSONRPCMessage | undefined>();
  readonly #done = Promise.withResolvers<JSONRPCMessage[]>();
  #missing = 0;

  async start(): Promise<void> {}

  /** @returns the answers; rejects when the exchange is closed before it is complete */
  run(messages: readonly JSONRPCMessage[]): Promise<JSONRPCMessage[]> {
    for (const message of messages) if (isJSONRPCRequest(message)) this.#answers.set(message.id, undefined);
    this.#missing = this.#answers.size;
    if (this.#missing === 0) this.#done.resolve([]);
    for (const message of messages) this.onmessage?.(message);
    return this.#done.promise;
  }

  /** What is no answer to a request of this exchange has no way to the client. */
  async send(message: JSONRPCMessage): Promise<void> {
    const id = 'id' in message && !('method' in message) ? message.id : undefined;
    if (id === undefined || !this.#answers.has(id) || this.#answers.get(id) !== undefined) return;
    this.#answers.set(id, message);
    this.#missing -= 1;
    if (this.#missing === 0) this.#done.resolve([...this.#answers.values()] as JSONRPCMessage[]);
  }

  async close(): Promise<void> {
    this.#done.reject(new Error('the client has gone'));
    this.onclose?.();
  }
}
