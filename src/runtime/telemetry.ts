import type { TelemetryConfig } from '../contract/config.ts';
import { AppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { createSpanFolding } from '../core/trace-spans.ts';
import type { LiveHub } from './live/live-hub.ts';
import type { TelemetryOptions } from './telemetry-exporter.ts';

/** What waits for the collector at shutdown gets so long; unit: milliseconds. */
const FLUSH_MS_MAX = 2_000;
const SERVICE = 'signet';
const TRACES_PATH = '/v1/traces';

export interface Telemetry {
  /** Sends what waits, within a deadline. Never rejects. */
  close(): Promise<void>;
}

const OFF: Telemetry = { close: async () => undefined };

/**
 * Where spans go, by the standard variables and then agent.yaml; null when nothing says so.
 *
 * @throws AppError `config_invalid` naming the variable
 * @source OpenTelemetry protocol exporter: a general endpoint gets the path of the signal, one for traces is taken as it is
 */
export function telemetryOptions(
  env: Readonly<Record<string, string | undefined>>,
  config: TelemetryConfig,
  version: string,
): TelemetryOptions | null {
  if (env.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true') return null;
  const own = checked('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT);
  const general = checked('OTEL_EXPORTER_OTLP_ENDPOINT', env.OTEL_EXPORTER_OTLP_ENDPOINT) ?? config.otlpEndpoint;
  const url = own ?? (general && `${general.replace(/\/+$/, '')}${TRACES_PATH}`);
  return url ? { url, service: env.OTEL_SERVICE_NAME?.trim() || SERVICE, version, content: config.content } : null;
}

function checked(name: string, value: string | undefined): string | undefined {
  const url = value?.trim();
  if (!url) return undefined;
  if (/^https?:/.test(url) && URL.canParse(url)) return url;
  throw new AppError('config_invalid', { detail: `${name} is "${url}"; give an http or https address` });
}

/** Turns the signals that are committed from now on into spans. The library is loaded only when there is somewhere to send them. */
export async function startTelemetry(hub: LiveHub, options: TelemetryOptions | null, logger: Logger): Promise<Telemetry> {
  if (!options) return OFF;
  const { createSpanExporter } = await import('./telemetry-exporter.ts');
  const exporter = createSpanExporter(options);
  const folding = createSpanFolding(options);
  hub.observe({
    observe: (signal) => {
      try {
        for (const span of folding.take(signal)) exporter.add(span);
      } catch (err) {
        // A fault in here must not become one of the session.
        logger.warn({ err, signal: signal.name }, 'no span could be made of a signal');
      }
    },
    appended: () => undefined,
    lag: () => undefined,
  });
  return { close: () => Promise.race([exporter.close(), elapsed(FLUSH_MS_MAX)]) };
}

function elapsed(ms: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  setTimeout(resolve, ms).unref();
  return promise;
}
