import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ToolRegistration } from '../contract/tool.ts';
import { AppError } from '../core/errors.ts';
import type { ToolRegistrationStore } from '../core/tool-store.ts';

const PATH = ['data', 'tools.json'];
const VERSION = 1;
/** Environment variables of MCP servers stand in it: nobody else on the machine reads it. */
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/**
 * Tool registrations in `<workspace>/data/tools.json`. The caller holds the workspace's lock, and saves one list after the other.
 * A damaged file is never written over: load and save refuse until somebody has moved it.
 */
export function createJsonToolStore(workspace: string): ToolRegistrationStore {
  const path = join(workspace, ...PATH);
  return {
    load: () => readRegistrations(path),
    async save(registrations) {
      await readRegistrations(path);
      await replaceFile(path, `${JSON.stringify({ version: VERSION, tools: registrations }, null, 2)}\n`);
    },
  };
}

async function readRegistrations(path: string): Promise<ToolRegistration[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw storageFailed('read', path, error);
  }
  const { version, tools } = parse(path, text);
  if (typeof version === 'number' && version > VERSION) {
    const detail = `${path} has version ${version}, this program reads version ${VERSION}; use the program that wrote it`;
    throw new AppError('storage_version', { detail });
  }
  if (version !== VERSION || !Array.isArray(tools)) throw corrupt(path, 'it is no list of tools');
  return tools.map((tool, index) => {
    const read = ToolRegistration.safeParse(tool);
    if (!read.success) throw corrupt(path, `tool ${index + 1} of ${tools.length} is not one: ${read.error.issues[0]?.message}`);
    return read.data;
  });
}

function parse(path: string, text: string): { version?: unknown; tools?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch (error) {
    throw corrupt(path, 'it is not JSON', error);
  }
}

/** The new text is on the disk before it gets the name, and the name before this answers. */
async function replaceFile(path: string, text: string): Promise<void> {
  const partial = `${path}.part`;
  try {
    await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE });
    await rm(partial, { force: true }); // What a crash left keeps its own mode; a new file gets ours.
    const file = await open(partial, 'wx', FILE_MODE);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(partial, path);
    await syncFolder(dirname(path));
  } catch (error) {
    throw storageFailed('write', path, error);
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function corrupt(path: string, why: string, cause?: unknown): AppError {
  return new AppError('storage_corrupt', { detail: `${path} is damaged: ${why}; repair it or move it away, then start again`, cause });
}

function storageFailed(verb: string, path: string, cause: unknown): AppError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new AppError('storage_failed', { detail: `cannot ${verb} ${path} (${reason})`, cause });
}
