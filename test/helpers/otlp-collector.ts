import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** How long a test waits for a span; unit: milliseconds. */
const SPAN_TIMEOUT_MS = 15_000;
const POLL_MS = 10;

export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  readonly kind: number;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly status: { readonly code?: number; readonly message?: string };
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly resource: Readonly<Record<string, unknown>>;
}

/** A collector that takes OTLP/JSON over real HTTP and keeps the spans. */
export interface OtlpCollector {
  readonly url: string;
  readonly spans: readonly CollectedSpan[];
  /** Paths of the requests, and whether each was JSON. */
  readonly requests: readonly string[];
  until(fits: (span: CollectedSpan) => boolean): Promise<CollectedSpan>;
  close(): Promise<void>;
}

/** @param answer  status of every answer; null never answers */
export async function startOtlpCollector(answer: number | null = 200): Promise<OtlpCollector> {
  const spans: CollectedSpan[] = [];
  const requests: string[] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    requests.push(`${request.method} ${request.url} ${request.headers['content-type']}`);
    if (answer === null) return;
    if (answer === 200) spans.push(...spansOf(JSON.parse(Buffer.concat(parts).toString('utf8'))));
    response.writeHead(answer, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests,
    until: async (fits) => {
      const deadline = performance.now() + SPAN_TIMEOUT_MS;
      for (;;) {
        const found = spans.find(fits);
        if (found) return found;
        if (performance.now() > deadline) throw new Error(`no such span; there are ${spans.map(({ name }) => name).join(', ')}`);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface OtlpValue {
  stringValue?: string;
  boolValue?: boolean;
  intValue?: string | number;
  doubleValue?: number;
  arrayValue?: { values: OtlpValue[] };
}
type OtlpAttributes = { key: string; value: OtlpValue }[];
type OtlpSpan = Omit<CollectedSpan, 'attributes' | 'resource' | 'startNs' | 'endNs'> & {
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: OtlpAttributes;
};
export interface OtlpBody {
  resourceSpans: { resource: { attributes: OtlpAttributes }; scopeSpans: { spans: OtlpSpan[] }[] }[];
}

export function spansOf({ resourceSpans }: OtlpBody): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap((scope) =>
      scope.spans.map(({ startTimeUnixNano, endTimeUnixNano, attributes, ...span }) => ({
        ...span,
        startNs: BigInt(startTimeUnixNano),
        endNs: BigInt(endTimeUnixNano),
        attributes: plain(attributes),
        resource: plain(resource.attributes),
      })),
    ),
  );
}

function plain(attributes: OtlpAttributes): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, plainValue(value)]));
}

function plainValue({ stringValue, boolValue, intValue, doubleValue, arrayValue }: OtlpValue): unknown {
  if (arrayValue) return arrayValue.values.map(plainValue);
  return stringValue ?? boolValue ?? doubleValue ?? Number(intValue);
}
