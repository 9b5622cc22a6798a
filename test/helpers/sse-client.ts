import { type IncomingMessage, request } from 'node:http';

/** How long a test waits for a frame; the machine may be busy; unit: milliseconds. */
const FRAME_TIMEOUT_MS = 15_000;

export interface SseFrame {
  /** As it was sent; absent when the frame has none. */
  readonly id?: string;
  readonly event: string;
  readonly data: Record<string, unknown>;
}

export interface SseClient {
  /** Everything received so far, whole frames only. */
  readonly frames: readonly SseFrame[];
  /** Id of the last frame that had one: what a client resumes with. */
  readonly lastId: string | undefined;
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  /** The first frame that fits, received already or to come. Rejects when the stream ends before. */
  until(fits: (frame: SseFrame) => boolean): Promise<SseFrame>;
  /** Resolves when the connection is over, however it ended. */
  readonly closed: Promise<void>;
  /** Take no bytes off the socket any more, until `resume`. */
  pause(): void;
  resume(): void;
  close(): void;
}

export interface SseOptions {
  readonly lastEventId?: string;
  /** Called with each frame as it is complete. */
  readonly onFrame?: (frame: SseFrame) => void;
}

/** An event stream over a connection of its own, read as the HTML standard says: a frame that is cut in the middle does not exist. */
export function openSse(url: string, options: SseOptions = {}): Promise<SseClient> {
  const headers = { accept: 'text/event-stream', ...(options.lastEventId === undefined ? {} : { 'last-event-id': options.lastEventId }) };
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { headers, agent: false });
    outgoing.once('error', reject);
    outgoing.once('response', (response) => resolve(createClient(response, options.onFrame)));
    outgoing.end();
  });
}

function createClient(response: IncomingMessage, onFrame?: (frame: SseFrame) => void): SseClient {
  const frames: SseFrame[] = [];
  const looks = new Set<() => void>();
  const { promise: closed, resolve: settle } = Promise.withResolvers<void>();
  let isClosed = false;
  let lastId: string | undefined;
  let rest = '';
  response.setEncoding('utf8');
  response.on('data', (chunk: string) => {
    const blocks = (rest + chunk).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const frame = parseFrame(block);
      if (!frame) continue;
      frames.push(frame);
      lastId = frame.id ?? lastId;
      onFrame?.(frame);
    }
    for (const look of [...looks]) look();
  });
  response.on('error', () => undefined); // A cut connection is what some tests are about; `closed` tells it.
  response.once('close', () => {
    isClosed = true;
    settle();
    for (const look of [...looks]) look();
  });
  return {
    frames,
    get lastId() {
      return lastId;
    },
    status: response.statusCode ?? 0,
    headers: response.headers,
    closed,
    pause: () => void response.pause(),
    resume: () => void response.resume(),
    close: () => void response.destroy(),
    until: (fits) =>
      new Promise((resolve, reject) => {
        let next = 0;
        const timer = setTimeout(() => finish(() => reject(new Error(`no such frame; got ${summary(frames)}`))), FRAME_TIMEOUT_MS);
        const finish = (end: () => void) => {
          clearTimeout(timer);
          looks.delete(look);
          end();
        };
        const look = () => {
          for (; next < frames.length; next += 1) {
            const frame = frames[next]!;
            if (fits(frame)) return finish(() => resolve(frame));
          }
          if (isClosed) finish(() => reject(new Error(`the stream ended without such a frame; got ${summary(frames)}`)));
        };
        looks.add(look);
        look();
      }),
  };
}

function parseFrame(block: string): SseFrame | undefined {
  let id: string | undefined;
  let event: string | undefined;
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    const value = line.slice(colon + 1).replace(/^ /, '');
    if (line.startsWith('id:')) id = value;
    else if (line.startsWith('event:')) event = value;
    else if (line.startsWith('data:')) data.push(value);
  }
  if (event === undefined) return undefined;
  return { ...(id === undefined ? {} : { id }), event, data: JSON.parse(data.join('\n')) as Record<string, unknown> };
}

function summary(frames: readonly SseFrame[]): string {
  return frames
    .slice(-30)
    .map(({ event }) => event)
    .join(' ');
}
