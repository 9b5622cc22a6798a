import { CliExit, EXIT } from './context.ts';

/** A piece of a file, and how many of what is counted stand in it. */
export interface FilePart {
  readonly text: string;
  readonly count: number;
}

/**
 * Writes a file that is whole or not there: under a name of its own until its last byte is on the disk. Resolves with the count of all parts.
 *
 * @throws CliExit when the file cannot be made; what `parts` throws, and nothing is left behind then
 */
export async function writeWholeFile(path: string, parts: AsyncIterable<FilePart>): Promise<number> {
  const { open, rename, rm } = await import('node:fs/promises');
  const partial = `${path}.${process.pid}.part`;
  const file = await open(partial, 'wx').catch((error: Error) => {
    throw new CliExit(EXIT.failure, `${path} cannot be written: ${error.message}`);
  });
  try {
    let count = 0;
    try {
      for await (const part of parts) {
        await file.write(part.text);
        count += part.count;
      }
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(partial, path);
    return count;
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}
