import { once } from 'node:events';

/** How long a test waits for a message; the machine may be busy; unit: milliseconds. */
const MESSAGE_TIMEOUT_MS = 15_000;

export type SocketMessage = Record<string, unknown>;

export interface SocketClient {
  /** Everything received so far. */
  readonly messages: readonly SocketMessage[];
  /** Sends a command under a fresh id and resolves with its answer. */
  ask(command: SocketMessage): Promise<SocketMessage>;
  /** Sends this text as it is. */
  send(text: string): void;
  /** The first message that fits, received already or to come. */
  until(fits: (message: SocketMessage) => boolean): Promise<SocketMessage>;
  /** Code of the close. */
  readonly closed: Promise<number>;
  close(): Promise<void>;
}

/** The platform's own WebSocket on `GET /ws`. */
export async function openSocket(runtimeUrl: string, onMessage?: (message: SocketMessage) => void): Promise<SocketClient> {
  const socket = new WebSocket(`${runtimeUrl.replace('http', 'ws')}/ws`);
  const messages: SocketMessage[] = [];
  const looks = new Set<() => void>();
  const closed = once(socket, 'close').then(([event]) => (event as CloseEvent).code);
  socket.addEventListener('message', ({ data }) => {
    const message = JSON.parse(String(data)) as SocketMessage;
    messages.push(message);
    onMessage?.(message);
    for (const look of [...looks]) look();
  });
  await once(socket, 'open');
  let asked = 0;
  const until = (fits: (message: SocketMessage) => boolean): Promise<SocketMessage> =>
    new Promise((resolve, reject) => {
      let next = 0;
      const timer = setTimeout(() => {
        looks.delete(look);
        reject(new Error(`no such message; got ${JSON.stringify(messages.slice(-5)).slice(0, 2_000)}`));
      }, MESSAGE_TIMEOUT_MS);
      const look = () => {
        for (; next < messages.length; next += 1) {
          const message = messages[next]!;
          if (!fits(message)) continue;
          clearTimeout(timer);
          looks.delete(look);
          return resolve(message);
        }
      };
      looks.add(look);
      look();
    });
  return {
    messages,
    until,
    closed,
    send: (text) => socket.send(text),
    ask: (command) => {
      asked += 1;
      const id = `ask-${asked}`;
      socket.send(JSON.stringify({ id, ...command }));
      return until((message) => message.re === (command.id ?? id));
    },
    close: async () => {
      socket.close();
      await closed;
    },
  };
}
