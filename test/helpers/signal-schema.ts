import { isDeepStrictEqual } from 'node:util';
import { Signal } from '../../src/contract/signal.ts';
import { isCustomName, signalSpec } from '../../src/contract/workflow-signals.ts';

/** What is wrong with a signal by its schemas: envelope, name, kind, payload, members nobody declared. Empty when nothing is. */
export function schemaFaults(signal: Signal): string[] {
  const at = `${signal.name} ${signal.id}`;
  const envelope = Signal.safeParse(signal);
  if (!envelope.success) return [`${at}: ${envelope.error.message}`];
  const spec = signalSpec(signal.name);
  if (signal.source.workflow === undefined && isCustomName(signal.name)) return [`${at}: the catalogue has no such name`];
  if (spec.kind !== signal.source.kind) return [`${at}: is of kind ${signal.source.kind}, not ${spec.kind}`];
  const payload = spec.payload.safeParse(signal.payload);
  if (!payload.success) return [`${at}: ${payload.error.message}`];
  // A schema drops what it does not know.
  if (!isDeepStrictEqual(payload.data, signal.payload)) return [`${at}: holds members that are not declared`];
  return [];
}
