import type { ServerResponse } from 'node:http';
import { setImmediate as nextTick, setTimeout as wait } from 'node:timers/promises';
import { encodeFrame, type Frame, framesUntil, jsonFrame, type WireAnswer, type WireError } from './frames.ts';
import type { Fault, Reply, Wire } from './reply.ts';
import { ANTHROPIC_OVERFLOW, anthropicError } from './wire-anthropic.ts';
import { CHAT_OVERFLOW, openaiError } from './wire-chat.ts';
import { RESPONSES_OVERFLOW } from './wire-responses.ts';

const OVERFLOWS: Readonly<Record<Wire, WireError>> = { anthropic: ANTHROPIC_OVERFLOW, chat: CHAT_OVERFLOW, responses: RESPONSES_OVERFLOW };
const EVENT_STREAM = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' };

export interface Delivery {
  readonly wire: Wire;
  readonly stream: boolean;
  readonly reply: Reply;
  readonly answer: WireAnswer;
}

/** Write one reply with its fault. Resolves when there is nothing left to write; a stalled socket stays open. */
export async function sendReply(response: ServerResponse, delivery: Delivery): Promise<void> {
  const fault = delivery.reply.fault;
  if (fault?.kind === 'stall-before-headers') return;
  if (fault?.kind === 'cut-before-headers') {
    response.socket?.destroy();
    return;
  }
  if (fault?.kind === 'html') return sendBody(response, 200, 'text/html', '<!doctype html><html><body>Sign in to the proxy</body></html>');
  if (fault?.kind === 'empty') return sendBody(response, 200, delivery.stream ? 'text/event-stream' : 'application/json', '');
  if (fault?.kind === 'overflow') return sendError(response, delivery.wire, OVERFLOWS[delivery.wire]);
  if (fault?.kind === 'status') return sendError(response, delivery.wire, fault, fault.headers, fault.body);
  if (!delivery.stream) return sendBody(response, 200, 'application/json', JSON.stringify(delivery.answer.body()));
  response.writeHead(200, EVENT_STREAM);
  await sendFrames(response, delivery, fault);
}

function sendBody(
  response: ServerResponse,
  status: number,
  type: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': type, ...headers });
  response.end(body);
}

function sendError(
  response: ServerResponse,
  wire: Wire,
  error: WireError,
  headers?: Readonly<Record<string, string>>,
  body?: string,
): void {
  const json = wire === 'anthropic' ? anthropicError(error) : openaiError(error);
  const type = body?.startsWith('<') ? 'text/html' : 'application/json';
  sendBody(response, error.status, type, body ?? JSON.stringify(json), headers);
}

async function sendFrames(response: ServerResponse, delivery: Delivery, fault: Fault | undefined): Promise<void> {
  const all = delivery.answer.frames();
  if (!fault || !('after' in fault || ['cut', 'end', 'stall', 'bad-json', 'error-event'].includes(fault.kind))) {
    await writeFrames(response, all, delivery.reply);
    if (!response.destroyed) response.end();
    return;
  }
  const frames = framesUntil(all, ('after' in fault ? fault.after : undefined) ?? 0);
  if (fault.kind === 'bad-json') frames.push({ event: all[0]?.event, data: fault.data ?? '{"type": "broken', delta: false });
  if (fault.kind === 'error-event') frames.push(errorFrame(delivery.wire, fault));
  // Silence after the headers needs them on the wire although nothing follows.
  response.flushHeaders();
  await writeFrames(response, frames, delivery.reply);
  if (fault.kind === 'pings') {
    for (; !response.destroyed; await wait(fault.everyMs)) response.write(fault.text);
    return;
  }
  if (fault.kind === 'stall' || response.destroyed) return;
  if (fault.kind === 'cut') {
    // The bytes must have left before the socket goes, or the client would see a cut before the headers.
    await nextTick();
    response.socket?.destroy();
  } else response.end();
}

function errorFrame(wire: Wire, fault: Extract<Fault, { kind: 'error-event' }>): Frame {
  const kind = fault.error ?? 'overloaded';
  const message = fault.message ?? (kind === 'overflow' ? OVERFLOWS[wire].message : 'scripted error');
  if (wire === 'anthropic') {
    const type = { overloaded: 'overloaded_error', server: 'api_error', overflow: 'invalid_request_error' }[kind];
    return jsonFrame('error', { type: 'error', error: { type, message } });
  }
  const code = { overloaded: 'rate_limit_exceeded', server: 'server_error', overflow: 'context_length_exceeded' }[kind];
  if (wire === 'chat') return jsonFrame(undefined, { error: { message, type: code, param: null, code } });
  return jsonFrame('response.failed', {
    type: 'response.failed',
    sequence_number: 99,
    response: { id: 'resp_failed', object: 'response', status: 'failed', error: { code, message }, output: [], usage: null },
  });
}

async function writeFrames(response: ServerResponse, frames: readonly Frame[], reply: Reply): Promise<void> {
  const crlf = reply.crlf ?? false;
  if (reply.delayMs === undefined) {
    await writeBytes(response, frames.map((frame) => encodeFrame(frame, crlf)).join(''), reply.bytesPerWrite);
    return;
  }
  for (const frame of frames) {
    if (frame.delta) await wait(reply.delayMs);
    if (response.destroyed) return;
    await writeBytes(response, encodeFrame(frame, crlf), reply.bytesPerWrite);
  }
}

async function writeBytes(response: ServerResponse, text: string, bytesPerWrite: number | undefined): Promise<void> {
  if (text === '') return;
  if (bytesPerWrite === undefined) {
    response.write(text);
    return;
  }
  const bytes = Buffer.from(text);
  for (let start = 0; start < bytes.length && !response.destroyed; start += bytesPerWrite) {
    response.write(bytes.subarray(start, start + bytesPerWrite));
    await nextTick();
  }
}
