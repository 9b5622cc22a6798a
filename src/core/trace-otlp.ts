import type { TraceSignal } from './trace-facts.ts';
import { createSpanFolding, type SpanAttributes, type TraceSpan } from './trace-spans.ts';

const KINDS = { internal: 1, client: 3 } as const;
const STATUS_ERROR = 2;
const NS_PER_MS = 1_000_000n;

/**
 * Signals as the body of an OTLP/JSON request: what a collector would have got, with the same ids. Work that is still open is left out.
 *
 * @source OpenTelemetry protocol, ExportTraceServiceRequest in its JSON form: ids in hex, times and integers as text
 */
export function toOtlpTrace(signals: readonly TraceSignal[], { content, version }: { content: boolean; version: string }) {
  const folding = createSpanFolding({ content });
  const spans = signals.flatMap((signal) => folding.take(signal)).map(otlpSpan);
  return {
    resourceSpans: [
      {
        resource: { attributes: attributesOf({ 'service.name': 'signet', 'service.version': version }) },
        scopeSpans: [{ scope: { name: 'signet', version }, spans }],
      },
    ],
  };
}

function otlpSpan({ traceId, spanId, parentSpanId, name, kind, startMs, endMs, attributes, error }: TraceSpan) {
  return {
    traceId,
    spanId,
    ...(parentSpanId ? { parentSpanId } : {}),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(endMs),
    attributes: attributesOf(error ? { ...attributes, 'error.type': error.type } : attributes),
    status: error ? { code: STATUS_ERROR, message: error.message } : {},
  };
}

function nanoseconds(ms: number): string {
  return String(BigInt(Math.round(ms)) * NS_PER_MS);
}

function attributesOf(attributes: SpanAttributes) {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: attributeValue(value) }));
}

function attributeValue(value: SpanAttributes[string]): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'number') return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  return { arrayValue: { values: value.map((entry) => ({ stringValue: entry })) } };
}
