import { AppError } from './errors.ts';

/** Longest event a server may send; unit: characters. */
export const SSE_EVENT_CHARS_MAX = 16 * 1_048_576;

export interface SseEvent {
  /** The last id seen so far, '' before the first: what to send as Last-Event-ID. */
  readonly id: string;
  /** `message` when the server names none. */
  readonly event: string;
  readonly data: string;
}

/** Incremental reader of the event-stream format (WHATWG HTML, "Server-sent events"): any line end, split characters, several data lines. */
export class SseParser {
  /** As the server asked by `retry`; unit: milliseconds. */
  retryMs: number | undefined;
  lastEventId: string;
  readonly #decoder = new TextDecoder();
  #rest = '';
  /** Where the search for a line end goes on, so that a long line is not searched again with every chunk. */
  #searched = 0;
  #event = '';
  #data: string[] = [];
  #dataChars = 0;

  constructor(lastEventId = '') {
    this.lastEventId = lastEventId;
  }

  /** @throws AppError `payload_too_large` for an event over SSE_EVENT_CHARS_MAX */
  push(chunk: Uint8Array): SseEvent[] {
    this.#rest += this.#decoder.decode(chunk, { stream: true });
    const events: SseEvent[] = [];
    for (let line = this.#nextLine(); line !== undefined; line = this.#nextLine()) {
      const event = this.#take(line);
      if (event) events.push(event);
    }
    if (this.#rest.length + this.#dataChars > SSE_EVENT_CHARS_MAX)
      throw new AppError('payload_too_large', { detail: `the server sent an event of more than ${SSE_EVENT_CHARS_MAX} characters` });
    return events;
  }

  #nextLine(): string | undefined {
    const rest = this.#rest;
    for (let at = this.#searched; at < rest.length; at += 1) {
      const code = rest.charCodeAt(at);
      if (code !== 0x0a && code !== 0x0d) continue;
      // A CR at the very end may be the first half of CRLF.
      if (code === 0x0d && at + 1 === rest.length) {
        this.#searched = at;
        return undefined;
      }
      const line = rest.slice(0, at);
      this.#rest = rest.slice(code === 0x0d && rest.charCodeAt(at + 1) === 0x0a ? at + 2 : at + 1);
      this.#searched = 0;
      return line;
    }
    this.#searched = rest.length;
    return undefined;
  }

  #take(line: string): SseEvent | undefined {
    if (line === '') return this.#dispatch();
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(line.charAt(colon + 1) === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') {
      this.#data.push(value);
      this.#dataChars += value.length + 1;
    } else if (field === 'event') this.#event = value;
    else if (field === 'id' && !value.includes('\0')) this.lastEventId = value;
    else if (field === 'retry' && /^\d+$/.test(value)) this.retryMs = Number(value);
    return undefined;
  }

  #dispatch(): SseEvent | undefined {
    const event =
      this.#data.length > 0 ? { id: this.lastEventId, event: this.#event || 'message', data: this.#data.join('\n') } : undefined;
    this.#event = '';
    this.#data = [];
    this.#dataChars = 0;
    return event;
  }
}
