import { chmodSync, lstatSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { AppError } from '../core/errors.ts';
import { markOwn } from './peer.ts';

/** Longest path of a socket on Linux, without the zero at its end; macOS takes three bytes less; unit: bytes. */
export const SOCKET_PATH_BYTES_MAX = process.platform === 'darwin' ? 103 : 107;
const SOCKET_MODE = 0o600;
/** While the file of a socket is made: nobody but its user may open it, from the first moment on. */
const UMASK = 0o177;

/**
 * Takes connections at a Unix domain socket that its user alone can open, and gives each to `accept` as one of this user. A socket file that an
 * earlier process left is replaced: the caller holds the lock of the workspace.
 *
 * @throws AppError `config_invalid`: a path that is too long or is another file, a system without such sockets
 */
export async function listenOnSocket(path: string, accept: (socket: Socket) => void): Promise<{ close(): void }> {
  requireUsable(path);
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    markOwn(socket);
    accept(socket);
  });
  await bind(server, path);
  chmodSync(path, SOCKET_MODE);
  // Connections that are open end with the server they were given to.
  return { close: () => void server.close() };
}

/** Where a workspace has the sockets of its servers. */
export function socketPath(folder: string, server: 'daemon' | 'runtime'): string {
  return join(folder, '.daemon', server === 'daemon' ? 'signet.sock' : 'runtime.sock');
}

function requireUsable(path: string): void {
  const refuse = (why: string): AppError => new AppError('config_invalid', { detail: `daemon.socket: ${why}` });
  if (process.platform === 'win32') throw refuse('this system has no Unix domain sockets; leave it out');
  const bytes = Buffer.byteLength(path);
  if (bytes > SOCKET_PATH_BYTES_MAX)
    throw refuse(`${path} is ${bytes} bytes long, and a socket takes ${SOCKET_PATH_BYTES_MAX}; choose a workspace with a shorter path`);
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (!found.isSocket()) throw refuse(`${path} is another file; move it away`);
  rmSync(path);
}

function bind(server: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', (cause: Error) =>
    reject(new AppError('config_invalid', { detail: `daemon.socket: cannot bind ${path} (${cause.message})`, cause })),
  );
  // Node binds a path before it returns.
  const before = process.umask(UMASK);
  try {
    server.listen(path, resolve);
  } finally {
    process.umask(before);
  }
  return promise;
}
