import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { AppError } from '../core/errors.ts';

/** Unit of a tar file, headers and content; unit: bytes. @source POSIX.1-2024, pax, "ustar Interchange Format" */
const BLOCK_BYTES = 512;
const END = Buffer.alloc(2 * BLOCK_BYTES);
/** A name that is longer, or not ASCII, stands in an extended header; unit: bytes. */
const NAME_BYTES_MAX = 100;
/** Eleven octal digits; unit: bytes. */
const OCTAL_SIZE_MAX = 0o77777777777;
/** An extended header holds a path and a size; unit: bytes. */
const EXTENDED_BYTES_MAX = 64 * 1024;
/** Databases pack to a third at the fastest level; better levels take many times as long. */
const GZIP_LEVEL = 1;
/** Archives hold conversations and keys. */
const FILE_MODE = 0o600;
const PLAIN_MASK = 0o777;
const ASCII = /^[\x20-\x7e]+$/;
const OCTAL = /^[0-7]+$/;

/** An ordinary file in an archive; there are no links and no folders. */
export interface PackedFile {
  /** Relative, parts divided by `/`. Not checked: whoever unpacks decides what it may be. */
  readonly path: string;
  /** Permission bits. */
  readonly mode: number;
  readonly mtimeMs: number;
  /** Unit: bytes. */
  readonly size: number;
  /** Yields `size` bytes; may be read once, before the next file is asked for. */
  readonly content: AsyncIterable<Buffer>;
}

/**
 * Writes a tar file, packed with gzip, with mode 0600; it is on the disk when this resolves.
 *
 * @param path  a file that does not exist
 * @throws AppError `storage_failed`; what `files` throws; AbortError. What was written stays: the caller removes it.
 */
export async function writeArchive(path: string, files: AsyncIterable<PackedFile>, signal: AbortSignal): Promise<void> {
  const file = await open(path, 'wx', FILE_MODE).catch((error: unknown) => {
    throw ioFailed('write', path, error);
  });
  try {
    await pipeline(Readable.from(tarBlocks(files)), createGzip({ level: GZIP_LEVEL }), toFile(file, path), { signal });
    await file.sync();
  } finally {
    await file.close();
  }
}

function toFile(file: FileHandle, path: string): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      file.writeFile(chunk).then(
        () => done(),
        (error: unknown) => done(ioFailed('write', path, error)),
      );
    },
  });
}

async function* tarBlocks(files: AsyncIterable<PackedFile>): AsyncGenerator<Buffer> {
  for await (const file of files) {
    yield* headers(file);
    let left = file.size;
    for await (const chunk of file.content) {
      left -= chunk.length;
      yield chunk;
    }
    if (left !== 0) throw new AppError('storage_failed', { detail: `${file.path} changed its size while it was read; try again` });
    yield Buffer.alloc(padding(file.size));
  }
  yield END;
}

function* headers(file: PackedFile): Generator<Buffer> {
  if (Buffer.byteLength(file.path) <= NAME_BYTES_MAX && ASCII.test(file.path) && file.size <= OCTAL_SIZE_MAX) {
    yield header(file, file.path, file.size, '0');
    return;
  }
  const records = Buffer.from(paxRecord('path', file.path) + paxRecord('size', String(file.size)));
  yield header(file, 'long-name', records.length, 'x');
  yield records;
  yield Buffer.alloc(padding(records.length));
  yield header(file, 'long-name', Math.min(file.size, OCTAL_SIZE_MAX), '0');
}

/** Its length, which counts its own digits, a name and a value. */
function paxRecord(name: string, value: string): string {
  const rest = Buffer.byteLength(` ${name}=${value}\n`);
  let length = rest + String(rest).length;
  if (rest + String(length).length !== length) length += 1;
  return `${length} ${name}=${value}\n`;
}

function header({ mode, mtimeMs }: PackedFile, name: string, size: number, type: '0' | 'x'): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  const octal = (value: number, at: number, digits: number) => block.write(value.toString(8).padStart(digits, '0'), at, 'latin1');
  block.write(name, 0, 'latin1');
  octal(mode & PLAIN_MASK, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(size, 124, 11);
  octal(Math.max(0, Math.floor(mtimeMs / 1_000)), 136, 11);
  block.write(`        ${type}`, 148, 'latin1');
  block.write('ustar\0' + '00', 257, 'latin1');
  octal(sumOf(block), 148, 6);
  block[154] = 0;
  return block;
}

/** Of all bytes, with blanks in the place of the sum. */
function sumOf(block: Buffer): number {
  let sum = 0;
  for (const [at, byte] of block.entries()) sum += at >= 148 && at < 156 ? 0x20 : byte;
  return sum;
}

function padding(size: number): number {
  return (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;
}

/**
 * Reads what `writeArchive` wrote, file by file; content that was not read is skipped. The last file is yielded before the end of the archive
 * has been seen: only when the loop ends without a fault is it whole.
 *
 * @throws AppError `storage_corrupt` when it is damaged, cut off or holds anything but ordinary files, `storage_failed`
 */
export async function* readArchive(path: string): AsyncGenerator<PackedFile> {
  const source = createReadStream(path);
  const plain = createGunzip();
  source.on('error', (error) => plain.destroy(ioFailed('read', path, error)));
  const bytes = new ByteReader(source.pipe(plain), path);
  try {
    yield* readFiles(bytes, path);
    await bytes.readToEnd();
  } finally {
    source.destroy();
    plain.destroy();
  }
}

async function* readFiles(bytes: ByteReader, archive: string): AsyncGenerator<PackedFile> {
  let extended: Readonly<Record<string, string>> = {};
  for (;;) {
    const block = await bytes.take(BLOCK_BYTES);
    if (block.equals(END.subarray(0, BLOCK_BYTES))) return;
    const field = (from: number, to: number) => block.toString('latin1', from, to).replace(/[\0 ].*$/s, '');
    const number = (from: number, to: number) => {
      const text = field(from, to);
      if (!OCTAL.test(text)) throw damagedArchive(archive, 'a header of it is no header');
      return Number.parseInt(text, 8);
    };
    if (number(148, 156) !== sumOf(block)) throw damagedArchive(archive, 'the sum of a header is wrong');
    const size = number(124, 136);
    const type = block.toString('latin1', 156, 157);
    if (type === 'x') {
      if (size > EXTENDED_BYTES_MAX) throw damagedArchive(archive, 'an extended header is too large');
      extended = paxFields((await bytes.take(size)).toString('utf8'), archive);
      await bytes.take(padding(size));
      continue;
    }
    const name = block.toString('latin1', 0, NAME_BYTES_MAX).replace(/\0.*$/s, '');
    if (type !== '0') throw damagedArchive(archive, `${JSON.stringify(name)} in it is no ordinary file`);
    const length = extended.size === undefined ? size : Number(extended.size);
    if (!Number.isSafeInteger(length) || length < 0) throw damagedArchive(archive, 'the size of a file in it is no number');
    const content = bytes.stream(length);
    yield { path: extended.path ?? name, mode: number(100, 108), mtimeMs: number(136, 148) * 1_000, size: length, content };
    for await (const _ of content); // What the reader left.
    await bytes.take(padding(length));
    extended = {};
  }
}

function paxFields(text: string, archive: string): Record<string, string> {
  const fields: Record<string, string> = {};
  for (const line of text.split('\n').slice(0, -1)) {
    const match = /^\d+ (path|size)=(.*)$/s.exec(line);
    if (!match) throw damagedArchive(archive, 'an extended header of it cannot be read');
    fields[match[1]!] = match[2]!;
  }
  return fields;
}

/** Takes bytes from a stream of chunks. @throws AppError `storage_corrupt` when it ends too early or cannot be unpacked */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #path: string;
  #rest: Buffer = Buffer.alloc(0);

  constructor(chunks: AsyncIterable<Buffer>, path: string) {
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#path = path;
  }

  async take(size: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for await (const part of this.stream(size)) parts.push(part);
    return Buffer.concat(parts);
  }

  /** Yields `size` bytes in pieces; goes on where it was left when it is asked again. */
  stream(size: number): AsyncIterableIterator<Buffer> {
    let left = size;
    const next = async (): Promise<IteratorResult<Buffer>> => {
      if (left === 0) return { done: true, value: undefined };
      if (this.#rest.length === 0 && !(await this.#fill())) throw damagedArchive(this.#path, 'it ends too early');
      const piece = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(piece.length);
      left -= piece.length;
      return { done: false, value: piece };
    };
    return {
      next,
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }

  /** The check of the last bytes comes with the end. */
  async readToEnd(): Promise<void> {
    while (await this.#fill());
  }

  async #fill(): Promise<boolean> {
    try {
      const { done, value } = await this.#chunks.next();
      if (done) return false;
      this.#rest = value;
      return true;
    } catch (error) {
      if (error instanceof AppError) throw error;
      throw damagedArchive(this.#path, error instanceof Error ? error.message : String(error), error);
    }
  }
}

export function damagedArchive(path: string, why: string, cause?: unknown): AppError {
  return new AppError('storage_corrupt', { detail: `${path} is no whole backup of Signet: ${why}; nothing was changed`, cause });
}

function ioFailed(verb: string, path: string, cause: unknown): AppError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new AppError('storage_failed', { detail: `cannot ${verb} ${path} (${reason})`, cause });
}
