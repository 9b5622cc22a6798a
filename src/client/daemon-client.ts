import type { DaemonClient } from '../core/operation-call.ts';
import { createHttpTransport, type HttpTransportOptions } from './http-transport.ts';

/** The daemon over HTTP. Holds no connection of its own and needs no closing. */
export function createDaemonClient(options: HttpTransportOptions): DaemonClient {
  return { baseUrl: options.baseUrl, call: createHttpTransport(options) };
}
