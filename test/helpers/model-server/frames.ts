/** One server-sent event. `delta` marks the ones that carry a piece of the answer, which faults count. */
export interface Frame {
  readonly event?: string;
  readonly data: string;
  readonly delta: boolean;
}

/** What a wire module makes of one reply. */
export interface WireAnswer {
  /** Events of the streamed answer, the final one included. */
  frames(): Frame[];
  /** Body of the answer to a request without `stream`. */
  body(): unknown;
}

export interface WireError {
  readonly status: number;
  readonly type?: string;
  readonly code?: string;
  readonly message?: string;
}

export function jsonFrame(event: string | undefined, data: unknown, delta = false): Frame {
  return { event, data: JSON.stringify(data), delta };
}

/** The frames up to and with the n-th delta; with n = 0 those before the first. */
export function framesUntil(frames: readonly Frame[], deltas: number): Frame[] {
  const kept: Frame[] = [];
  let seen = 0;
  for (const frame of frames) {
    if (frame.delta && seen === deltas) break;
    kept.push(frame);
    if (frame.delta) seen += 1;
    if (seen === deltas && deltas > 0) break;
  }
  return kept;
}

export function encodeFrame(frame: Frame, crlf: boolean): string {
  const end = crlf ? '\r\n' : '\n';
  return `${frame.event === undefined ? '' : `event: ${frame.event}${end}`}data: ${frame.data}${end}${end}`;
}
