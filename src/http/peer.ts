import { readFile } from 'node:fs/promises';
import { isIPv4, type Socket } from 'node:net';
import { endianness } from 'node:os';

/** Whose process is at the other end of a connection: one of this user, of another user, or the system does not tell. */
export type Peer = 'own' | 'other' | 'unknown';

/** A connection may be missing in one reading of a table that changes meanwhile. */
const READS_MAX = 3;
const TABLES = { ipv4: '/proc/net/tcp', ipv6: '/proc/net/tcp6' } as const;
/** Columns of a line of the table, separated by blanks. */
const UID_COLUMN = 7;
const INODE_COLUMN = 9;
/** The table holds addresses as words in the machine's byte order; unit: bytes. */
const WORD_BYTES = 4;

type ReadTable = (path: string) => Promise<string>;

/** Connections whose other end is known without a table: those over a Unix domain socket that its user alone can open. */
const ownSockets = new WeakSet<Socket>();

/** Mark a connection as one of this user. */
export function markOwn(socket: Socket): void {
  ownSockets.add(socket);
}

export function isMarkedOwn(socket: Socket): boolean {
  return ownSockets.has(socket);
}

export interface PeerOptions {
  /** Who runs this process; undefined where the system has no such ids. */
  readonly uid?: number | undefined;
  readonly readTable?: ReadTable;
}

/**
 * Looks up whose process is at the other end of a loopback connection: by the kernel's table of connections, on Linux.
 * The answer is kept for as long as the connection lives, since its ends do not change.
 *
 * @returns function that never rejects
 */
export function createPeerCheck({ uid, readTable = createTableReader() }: PeerOptions): (socket: Socket) => Promise<Peer> {
  const known = new WeakMap<Socket, Promise<Peer>>();
  return (socket) => {
    if (ownSockets.has(socket)) return Promise.resolve('own');
    let peer = known.get(socket);
    if (!peer) {
      peer = lookUp(socket, uid, readTable).catch((): Peer => 'unknown'); // No such table on this system.
      known.set(socket, peer);
    }
    return peer;
  };
}

async function lookUp(socket: Socket, uid: number | undefined, readTable: ReadTable): Promise<Peer> {
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  if (uid === undefined || !remoteAddress || !remotePort || !localAddress || !localPort) return 'unknown';
  // Seen from the other end: its own address comes first.
  const ends = [
    { address: remoteAddress, port: remotePort },
    { address: localAddress, port: localPort },
  ];
  const tables = ends.every(({ address }) => isIPv4(plainAddress(address))) ? [TABLES.ipv4, TABLES.ipv6] : [TABLES.ipv6];
  for (let reads = 0; reads < READS_MAX; reads += 1) {
    for (const table of tables) {
      const key = ends.map(({ address, port }) => `${tableAddress(address, table === TABLES.ipv6)}:${hex(port, 4)}`).join(' ');
      const owner = ownerIn(await readTable(table), key);
      // A connection that was closed meanwhile proves nothing.
      if (socket.destroyed) return 'unknown';
      if (owner !== undefined) return owner === uid ? 'own' : 'other';
    }
  }
  return 'unknown';
}

/** User of the process that holds the connection; undefined when there is none, or no process holds it any more (its user then reads as 0). */
function ownerIn(table: string, key: string): number | undefined {
  for (let at = table.indexOf(key); at >= 0; at = table.indexOf(key, at + 1)) {
    const line = table.slice(table.lastIndexOf('\n', at) + 1, endOfLine(table, at));
    const columns = line.trim().split(/\s+/);
    if (`${columns[1]} ${columns[2]}` !== key || columns[INODE_COLUMN] === '0') continue;
    const owner = Number(columns[UID_COLUMN]);
    if (Number.isInteger(owner)) return owner;
  }
  return undefined;
}

function endOfLine(text: string, at: number): number {
  const newline = text.indexOf('\n', at);
  return newline < 0 ? text.length : newline;
}

function plainAddress(address: string): string {
  return address.replace(/^::ffff:/i, '');
}

/** An address as the table shows it: words in the machine's byte order, in upper-case hexadecimal digits. */
function tableAddress(address: string, asIpv6: boolean): string {
  const plain = plainAddress(address);
  const bytes = isIPv4(plain) ? ipv4Bytes(plain, asIpv6) : ipv6Bytes(plain);
  const words = Array.from({ length: bytes.length / WORD_BYTES }, (_, index) => bytes.slice(index * WORD_BYTES, (index + 1) * WORD_BYTES));
  return words.map((word) => (endianness() === 'LE' ? word.reverse() : word).map((byte) => hex(byte, 2)).join('')).join('');
}

function ipv4Bytes(address: string, asIpv6: boolean): number[] {
  const bytes = address.split('.').map(Number);
  return asIpv6 ? [...Array.from({ length: 10 }, () => 0), 0xff, 0xff, ...bytes] : bytes;
}

function ipv6Bytes(address: string): number[] {
  const [head = '', tail] = address.split('%')[0]!.split('::');
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const [before, after] = [groups(head), groups(tail ?? '')];
  const missing = tail === undefined ? 0 : 8 - before.length - after.length;
  const all = [...before, ...Array.from({ length: missing }, () => '0'), ...after];
  return all.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff]);
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, '0');
}

/** Reads a table once for all that ask at the same time. A reading that has begun already may have missed a new connection: it is not joined. */
function createTableReader(): ReadTable {
  const running = new Map<string, Promise<string>>();
  const next = new Map<string, Promise<string>>();
  const begin = (path: string): Promise<string> => {
    const reading = readFile(path, 'latin1').finally(() => running.delete(path));
    running.set(path, reading);
    return reading;
  };
  return (path) => {
    const current = running.get(path);
    if (!current) return begin(path);
    let queued = next.get(path);
    if (!queued) {
      const start = (): Promise<string> => {
        next.delete(path);
        return begin(path);
      };
      queued = current.then(start, start);
      next.set(path, queued);
    }
    return queued;
  };
}
