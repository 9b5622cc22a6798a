import type { LookupAddress } from 'node:dns';
import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { DeliveryReceipt } from '../contract/cross-agent.ts';
import { VERSION } from '../contract/version.ts';
import { addressKind } from '../core/address-kind.ts';
import type { DeliveryOutcome } from '../core/cross-agent.ts';
import { AppError } from '../core/errors.ts';
import { mayCall, type Resolve, resolveAll } from './cross-agent-address.ts';
import { cutText, oneLine } from './inject-text.ts';

/** Largest answer of the other server; unit: bytes. */
const ANSWER_BYTES_MAX = 1_048_576;
/** Of what the other agent answered; unit: characters. */
const REPLY_CHARS_MAX = 8_000;
/** Of what the other server says went wrong; unit: characters. */
const FAULT_CHARS_MAX = 300;
/** Statuses of a run that did not come to anything. */
const RUN_FAILED = ['failed', 'cancelled', 'cancelling'];

export interface RelayTarget {
  readonly baseUrl: string;
  readonly agentName: string;
  readonly timeoutMs: number;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

/** A way to the other server, checked: the addresses are those that will be called, whatever the name leads to by then. */
export interface RelayRoute {
  readonly url: URL;
  readonly receipt: DeliveryReceipt;
  readonly addresses: readonly LookupAddress[];
  /** Why there is no way, when that is nobody's refusal. */
  readonly fault?: { readonly code: string; readonly message: string };
}

export interface RelayedMessage {
  readonly id: string;
  readonly fromAgentId: string;
  readonly type: string;
  readonly content: string;
}

/**
 * @param signal  ends the wait for the resolver
 * @throws AppError relay_forbidden: not on the allow-list, or a name that leads to an address it must not lead to; invalid_request
 */
export async function findRoute(
  { baseUrl, agentName }: RelayTarget,
  allowedOrigins: readonly string[],
  signal: AbortSignal,
  resolve: Resolve = resolveAll,
): Promise<RelayRoute> {
  const url = relayUrl(baseUrl);
  const allowed = allowedOrigins.some((origin) => new URL(origin).origin === url.origin);
  if (!allowed) {
    throw new AppError('relay_forbidden', {
      detail: `messages may not be relayed to ${url.origin}; add it to crossAgent.acp.allowedOrigins in agent.yaml to allow it`,
    });
  }
  const receipt = { origin: url.origin, agentName };
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  let addresses: readonly LookupAddress[];
  try {
    addresses = isIP(host) ? [{ address: host, family: isIP(host) }] : await within(resolve(host), signal);
  } catch (error) {
    const code = signal.aborted ? 'timeout' : 'unresolved';
    return { url, receipt, addresses: [], fault: { code, message: `${host} does not resolve: ${reasonOf(error)}` } };
  }
  const foreign = addresses.find(({ address }) => !mayCall(host, address));
  if (foreign) {
    const where = host === foreign.address ? host : `${host} leads to ${foreign.address}, which`;
    throw new AppError('relay_forbidden', {
      detail: `${where} is a ${addressKind(foreign.address)} address; no message is relayed there. To reach a server of your own network, allow it by its address in crossAgent.acp.allowedOrigins`,
    });
  }
  return { url, receipt, addresses };
}

/** `<base>/runs`. @throws AppError invalid_request */
function relayUrl(baseUrl: string): URL {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  const problem =
    url === undefined || !/^https?:$/.test(url.protocol)
      ? 'must be a URL that begins with https:// or http://'
      : url.username || url.password
        ? 'must not hold a user or password'
        : url.search || url.hash
          ? 'must not hold a query or fragment'
          : undefined;
  if (url === undefined || problem !== undefined) {
    const detail = `acp_base_url ${problem}`;
    throw new AppError('invalid_request', { detail, errors: [{ pointer: '/acp_base_url', detail }] });
  }
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/runs`;
  return url;
}

/**
 * One run of the Agent Communication Protocol: POST <base>/runs, answered when the other agent is done. Never throws; redirects are not followed.
 *
 * @source https://agentcommunicationprotocol.dev, RunCreateRequest
 */
export async function relayMessage(
  route: RelayRoute,
  message: RelayedMessage,
  metadata: RelayTarget['metadata'],
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  const { receipt, fault } = route;
  if (fault) return { status: 'failed', error: fault, receipt };
  const { id, fromAgentId, type, content } = message;
  const body = JSON.stringify({
    agent_name: receipt.agentName,
    mode: 'sync',
    input: [{ role: 'user', parts: [{ content_type: 'text/plain', content }] }],
    metadata: { ...metadata, message_id: id, from_agent_id: fromAgentId, type },
  });
  try {
    const { status, text } = await post(route, body, signal);
    return outcomeOf(receipt, status, text);
  } catch (error) {
    return { status: 'failed', error: faultOf(error, signal), receipt };
  }
}

function faultOf(error: unknown, signal: AbortSignal): { code: string; message: string } {
  if (error instanceof RelayFault) return { code: error.code, message: error.message };
  if (signal.aborted) return { code: 'timeout', message: 'no answer in time; the message may have arrived' };
  return { code: 'unreachable', message: reasonOf(error) };
}

class RelayFault extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

async function post({ url, addresses }: RelayRoute, body: string, signal: AbortSignal): Promise<{ status: number; text: string }> {
  // The name is not asked for again: the addresses that were checked are the ones that are called.
  const lookup: LookupFunction = (_host, options, callback) => {
    if (options.all) callback(null, [...addresses]);
    else callback(null, addresses[0]!.address, addresses[0]!.family);
  };
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const send = url.protocol === 'https:' ? requestHttps : requestHttp;
  const request = send(url, {
    method: 'POST',
    agent: false,
    lookup,
    signal,
    headers: {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      accept: 'application/json',
      'user-agent': `signet/${VERSION}`,
    },
  });
  request.once('response', resolve);
  request.on('error', reject);
  request.end(body);
  try {
    const response = await promise;
    return { status: response.statusCode ?? 0, text: await readAnswer(response) };
  } finally {
    request.destroy();
  }
}

async function readAnswer(response: IncomingMessage): Promise<string> {
  const status = response.statusCode ?? 0;
  if (status >= 300 && status < 400) throw new RelayFault('redirected', `it answered ${status}; redirects are not followed`);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) throw new RelayFault('answer_too_large', `its answer is larger than ${ANSWER_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

interface Run {
  readonly run_id?: unknown;
  readonly status?: unknown;
  /** The first public version of the protocol says `outputs`. */
  readonly output?: unknown;
  readonly outputs?: unknown;
  readonly error?: { readonly message?: unknown } | null;
  readonly message?: unknown;
}

function outcomeOf(asked: DeliveryReceipt, status: number, text: string): DeliveryOutcome {
  const run = parseRun(text);
  const fault = oneLine(cutText(String(run?.error?.message ?? run?.message ?? ''), FAULT_CHARS_MAX));
  if (status < 200 || status > 299) {
    const error = { code: 'refused', message: `it answered ${status}${fault && `: ${fault}`}` };
    return { status: 'failed', error, receipt: asked };
  }
  if (run === undefined || typeof run.run_id !== 'string') {
    return { status: 'failed', error: { code: 'answer_invalid', message: 'its answer is not a run' }, receipt: asked };
  }
  const runStatus = oneLine(cutText(String(run.status), FAULT_CHARS_MAX));
  const reply = replyOf(run);
  const receipt = { ...asked, runId: oneLine(cutText(run.run_id, FAULT_CHARS_MAX)), runStatus, ...(reply ? { reply } : {}) };
  if (!RUN_FAILED.includes(runStatus)) return { status: 'delivered', receipt };
  return { status: 'failed', error: { code: 'run_failed', message: `the run is ${runStatus}${fault && `: ${fault}`}` }, receipt };
}

function parseRun(text: string): Run | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Run) : undefined;
  } catch {
    return undefined; // Said below: it is not a run.
  }
}

/** The text parts of what the other agent said. */
function replyOf({ output, outputs }: Run): string {
  const messages = [output, outputs].find(Array.isArray) ?? [];
  const parts = messages.flatMap((message: { parts?: unknown } | null) => (Array.isArray(message?.parts) ? message.parts : []));
  const texts = parts.flatMap((part: { content?: unknown; content_type?: unknown } | null) =>
    typeof part?.content === 'string' && String(part.content_type ?? 'text/plain').startsWith('text/') ? [part.content] : [],
  );
  return cutText(texts.join('\n'), REPLY_CHARS_MAX);
}

/** The resolver of the system takes no signal; its late answer is of no interest. */
async function within<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const late = Promise.withResolvers<never>();
  const abort = (): void => late.reject(new Error('no answer in time'));
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function reasonOf(error: unknown): string {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return typeof code === 'string' && code !== 'ABORT_ERR' ? code : oneLine(cutText(String(message ?? error), FAULT_CHARS_MAX));
}
