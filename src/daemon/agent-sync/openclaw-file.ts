import { existsSync, realpathSync } from 'node:fs';
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { isAbsolute, join, resolve } from 'node:path';
import type { OpenclawConfig } from '../../contract/agent-config.ts';
import type { OpenclawPlan } from './openclaw-config.ts';

/** Where OpenClaw, under its present and its earlier names, keeps its configuration, below the home folder. */
const USUAL_PLACES = ['.openclaw/openclaw.json', '.clawdbot/clawdbot.json', '.moldbot/moldbot.json', '.moltbot/moltbot.json'];
/** A configuration beyond this is none; unit: bytes. */
const BYTES_MAX = 16_777_216;
/** Times it is read anew because somebody else wrote it in between. */
const ATTEMPTS_MAX = 3;

/**
 * The files that are there: the configured one, else those at the usual places. Links to one file count once.
 *
 * @param home  undefined when there are no usual places to look at
 */
export function findOpenclaw(folder: string, home: string | undefined, config: OpenclawConfig | undefined): string[] {
  const given = config?.config;
  const places =
    given === undefined ? (home === undefined ? [] : USUAL_PLACES.map((place) => join(home, place))) : [placeOf(given, folder, home)];
  const files = places.filter((place) => existsSync(place)).map((place) => realpathSync(place));
  return [...new Set(files)];
}

export type Synced = 'changed' | 'same' | { readonly problem: string };

/** Bring one file up to date, in one step. One that cannot be read or parsed is left alone. Never rejects. */
export async function syncOpenclaw(file: string, plan: OpenclawPlan): Promise<Synced> {
  try {
    const { patchOpenclaw } = await import('./openclaw-config.ts');
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
      const before = await stat(file);
      if (before.size > BYTES_MAX) return { problem: `has ${before.size} bytes; at most ${BYTES_MAX} are read` };
      const text = await readFile(file, 'utf8');
      const patched = patchOpenclaw(text, plan);
      if ('problem' in patched) return patched;
      if (patched.text === text) return 'same';
      if (await replace(file, patched.text, before)) return 'changed';
    }
    return { problem: 'is being written by somebody else; it is looked at again with the next change' };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

/** Answers false when the file is another than it was. */
async function replace(file: string, text: string, before: { mtimeMs: number; size: number; mode: number }): Promise<boolean> {
  const partial = `${file}.signet-part`;
  try {
    await writeFile(partial, text, { mode: before.mode & 0o777, flush: true });
    const now = await stat(file);
    if (now.mtimeMs !== before.mtimeMs || now.size !== before.size) return false;
    await rename(partial, file);
    return true;
  } finally {
    await rm(partial, { force: true });
  }
}

function placeOf(given: string, folder: string, home: string | undefined): string {
  if (home !== undefined && (given === '~' || given.startsWith('~/'))) return join(home, given.slice(2));
  return isAbsolute(given) ? given : resolve(folder, given);
}
