import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { ImportedRecord, MemoryFileHeader, memoryLifecycleOperations, TRANSFER_MEMORIES_MAX } from '../contract/memory-lifecycle.ts';
import type { DaemonClient } from '../core/operation-call.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { type DaemonFlags, requireDaemonApi } from './daemon-api.ts';
import { safeJson } from './terminal-text.ts';
import { type FilePart, writeWholeFile } from './whole-file.ts';

/** Text of the memories sent in one call; the daemon takes four times as much. */
const BATCH_CHARS_MAX = 8_000_000;
/** A large page is many megabytes of text; unit: milliseconds. */
const PAGE_TIMEOUT_MS = 120_000;

const { exportMemories: exportPage, importMemories: importBatch } = memoryLifecycleOperations;

export async function exportMemories(
  context: CliContext,
  flags: DaemonFlags & { readonly agent?: string; readonly output?: string },
): Promise<void> {
  const daemon = requireDaemonApi(context, flags);
  if (flags.output === undefined) {
    for await (const { text } of pages(daemon, flags.agent)) context.stdout.write(text);
    return;
  }
  const path = resolve(context.cwd, flags.output);
  const memories = await writeWholeFile(path, pages(daemon, flags.agent));
  context.stderr.write(`${memories} memories written to ${flags.output}\n`);
}

/** The last line of a page says where the next one begins; that of the last page, that the file is whole, stays in the file. */
async function* pages(daemon: DaemonClient, agentId: string | undefined): AsyncGenerator<FilePart> {
  for (let after: number | undefined = 0; after !== undefined; ) {
    const asked = agentId === undefined ? { all: true, after } : { agentId, after };
    const text: string = await daemon.call(exportPage, asked, { timeoutMs: PAGE_TIMEOUT_MS });
    const lines = text.trimEnd().split('\n');
    const mark = JSON.parse(lines.at(-1)!) as { next?: number };
    const kept = mark.next === undefined ? lines : lines.slice(0, -1);
    yield { text: kept.map((line) => `${line}\n`).join(''), count: lines.length - 1 - (after === 0 ? 1 : 0) };
    after = mark.next;
  }
}

export async function importMemories(
  context: CliContext,
  name: string,
  flags: DaemonFlags & { readonly overwrite?: boolean; readonly json?: boolean },
): Promise<void> {
  const path = resolve(context.cwd, name);
  const daemon = requireDaemonApi(context, flags);
  // The whole file is looked at before anything of it is sent.
  for await (const _ of recordsOf(path, name));
  const conflict = flags.overwrite ? 'overwrite' : 'skip';
  const sum = { imported: 0, overwritten: 0, skipped: 0, duplicates: [] as { id: string; duplicateMemoryId: string }[] };
  let batch: ImportedRecord[] = [];
  let chars = 0;
  const send = async (): Promise<void> => {
    if (batch.length === 0) return;
    const answer = await daemon.call(importBatch, { memories: batch, conflict }, { timeoutMs: PAGE_TIMEOUT_MS });
    sum.imported += answer.imported;
    sum.overwritten += answer.overwritten;
    sum.skipped += answer.skipped;
    sum.duplicates.push(...answer.duplicates);
    batch = [];
    chars = 0;
  };
  for await (const { record, length } of recordsOf(path, name)) {
    if (batch.length === TRANSFER_MEMORIES_MAX || (chars > 0 && chars + length > BATCH_CHARS_MAX)) await send();
    batch.push(record);
    chars += length;
  }
  await send();
  if (flags.json) return void context.stdout.write(`${safeJson(sum, 2)}\n`);
  const { imported, overwritten, skipped, duplicates } = sum;
  context.stdout.write(
    `${imported} taken in, ${overwritten} replaced, ${skipped} there already, ${duplicates.length} known under another id\n`,
  );
}

/** @throws CliExit naming the line that is wrong, and when the file is no export or was cut off */
async function* recordsOf(path: string, name: string): AsyncGenerator<{ record: ImportedRecord; length: number }> {
  const fail = (why: string): CliExit => new CliExit(EXIT.failure, `${name} ${why}`);
  let number = 0;
  let isWhole = false;
  try {
    for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY })) {
      number += 1;
      const value = parse(line);
      if (number === 1) {
        if (!MemoryFileHeader.safeParse(value).success) throw fail('is no file that signet memory export wrote (version 1)');
      } else if (isEnd(value)) isWhole = true;
      else {
        const record = ImportedRecord.safeParse(value);
        if (!record.success) {
          const issue = record.error.issues[0];
          throw fail(`line ${number} is no memory: ${[...(issue?.path ?? []), issue?.message].join(' ')}; nothing was taken in`);
        }
        yield { record: record.data, length: line.length };
      }
    }
  } catch (error) {
    if (error instanceof CliExit || (error as NodeJS.ErrnoException).code === undefined) throw error;
    throw fail(`cannot be read: ${(error as Error).message}`);
  }
  if (!isWhole) throw fail('ends too early: its last line is not there; nothing was taken in');
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined; // Told as a line that is no memory.
  }
}

function isEnd(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'end' in value;
}
