import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface CutProxy {
  readonly url: string;
  /** Connections cut so far. */
  readonly cuts: number;
  close(): Promise<void>;
}

/**
 * A TCP proxy that destroys each connection, on both ends, after it has passed on some bytes of the answers.
 *
 * @param bytesOf  asked once per connection; undefined lets it live
 */
export async function startCutProxy(targetUrl: string, bytesOf: () => number | undefined): Promise<CutProxy> {
  const target = new URL(targetUrl);
  const sockets = new Set<Socket>();
  let cuts = 0;
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    let left = bytesOf() ?? Number.POSITIVE_INFINITY;
    const end = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', end);
      socket.on('close', () => {
        sockets.delete(socket);
        end();
      });
    }
    client.on('data', (chunk) => void upstream.write(chunk));
    upstream.on('data', (chunk) => {
      if (left <= 0) return;
      const whole = chunk.length < left;
      const passed = whole ? chunk : chunk.subarray(0, left);
      left -= passed.length;
      if (whole) client.write(passed);
      else {
        cuts += 1;
        // The last bytes must arrive before the end does.
        client.end(passed);
        upstream.destroy();
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get cuts() {
      return cuts;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
