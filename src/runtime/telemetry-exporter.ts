import { type HrTime, SpanKind, SpanStatusCode, TraceFlags } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { BatchSpanProcessor, type ReadableSpan } from '@opentelemetry/sdk-trace';
import type { TraceSpan } from '../core/trace-spans.ts';

/** Spans that wait for the collector, about 4 MiB; more are dropped. */
const QUEUE_SPANS_MAX = 4_096;
const BATCH_SPANS_MAX = 512;
/** From the first span of a batch to its export; unit: milliseconds. */
const BATCH_DELAY_MS = 1_000;
/** Longest wait for the collector, tries included; unit: milliseconds. */
const EXPORT_TIMEOUT_MS = 10_000;
const MS_PER_SECOND = 1_000;
const NS_PER_MS = 1_000_000;
const SCOPE = 'signet';

export interface TelemetryOptions {
  /** Where spans are posted. */
  readonly url: string;
  /** `service.name` of the spans. */
  readonly service: string;
  readonly version: string;
  readonly content: boolean;
}

export interface SpanExporter {
  /** Never throws and never waits. */
  add(span: TraceSpan): void;
  /** Sends what waits, then stops. Resolves, whatever becomes of it. */
  close(): Promise<void>;
}

/** Sends spans to a collector as OTLP/JSON over HTTP, in batches. Headers come from OTEL_EXPORTER_OTLP_HEADERS, which the library reads. */
export function createSpanExporter({ url, service, version }: TelemetryOptions): SpanExporter {
  const processor = new BatchSpanProcessor({
    exporter: new OTLPTraceExporter({ url, timeoutMillis: EXPORT_TIMEOUT_MS }),
    maxQueueSize: QUEUE_SPANS_MAX,
    maxExportBatchSize: BATCH_SPANS_MAX,
    scheduledDelayMillis: BATCH_DELAY_MS,
    exportTimeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const resource = resourceOf(service, version);
  return {
    add: (span) => processor.onEnd(readable(span, resource, version)),
    close: () => processor.shutdown().catch(() => undefined), // A collector that is away is no reason not to stop.
  };
}

/** The library's own makers of resources stand in a package of their own; this is all of one that an exporter reads. */
function resourceOf(service: string, version: string): ReadableSpan['resource'] {
  const attributes = { 'service.name': service, 'service.version': version, 'process.pid': process.pid };
  const resource: ReadableSpan['resource'] = {
    attributes,
    merge: () => resource,
    getRawAttributes: () => Object.entries(attributes),
  };
  return resource;
}

function readable(span: TraceSpan, resource: ReadableSpan['resource'], version: string): ReadableSpan {
  const traceFlags = span.sampled ? TraceFlags.SAMPLED : TraceFlags.NONE;
  const { traceId, spanId, parentSpanId, error } = span;
  return {
    name: span.name,
    kind: span.kind === 'client' ? SpanKind.CLIENT : SpanKind.INTERNAL,
    spanContext: () => ({ traceId, spanId, traceFlags }),
    ...(parentSpanId ? { parentSpanContext: { traceId, spanId: parentSpanId, traceFlags, isRemote: true } } : {}),
    startTime: hrTime(span.startMs),
    endTime: hrTime(span.endMs),
    duration: hrTime(span.endMs - span.startMs),
    ended: true,
    status: error ? { code: SpanStatusCode.ERROR, message: error.message } : { code: SpanStatusCode.UNSET },
    attributes: { ...span.attributes, ...(error ? { 'error.type': error.type } : {}) } as ReadableSpan['attributes'],
    links: [],
    events: [],
    resource,
    instrumentationScope: { name: SCOPE, version },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function hrTime(ms: number): HrTime {
  const whole = Math.max(0, ms);
  return [Math.floor(whole / MS_PER_SECOND), Math.round((whole % MS_PER_SECOND) * NS_PER_MS)];
}
