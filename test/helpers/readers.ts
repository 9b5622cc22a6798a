import { request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

/** Pause of a reader that was refused or cut, before it connects again; unit: milliseconds. */
const RECONNECT_MS = 250;

export interface Readers {
  /** Answers so far: status, or `none` for a connection that was refused or cut before it → times. */
  readonly answers: Readonly<Record<string, number>>;
  close(): Promise<void>;
}

export interface ReaderOptions {
  readonly count: number;
  /** Address of the runtime now; it changes when the process does. */
  readonly url: () => Promise<string>;
  readonly sessions: readonly string[];
  readonly random: () => number;
}

/** Event streams of sessions, each on a connection of its own, opened again whenever one ends. */
export function openReaders({ count, url, sessions, random }: ReaderOptions): Readers {
  const answers: Record<string, number> = {};
  const stop = new AbortController();
  const read = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const id = sessions[Math.floor(random() * sessions.length)]!;
      const answer = await readOnce(`${await url()}/session/${id}/stream`, stop.signal);
      answers[answer] = (answers[answer] ?? 0) + 1;
      await pause(RECONNECT_MS, undefined, { signal: stop.signal }).catch(() => undefined);
    }
  };
  const reading = Array.from({ length: count }, read);
  return {
    answers,
    async close() {
      stop.abort();
      await Promise.all(reading);
    },
  };
}

/** Reads until the stream ends. @returns its status, or `none` */
function readOnce(url: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    const outgoing = request(url, { headers: { accept: 'text/event-stream' }, agent: false, signal });
    outgoing.once('error', () => resolve('none'));
    outgoing.once('response', (response) => {
      response.resume();
      response.once('error', () => undefined);
      response.once('close', () => resolve(String(response.statusCode)));
    });
    outgoing.end();
  });
}
