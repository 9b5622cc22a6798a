import { readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { AppError } from '../core/errors.ts';

/** Copies made before a migration that are kept beside the file; the oldest version goes first. */
export const MIGRATION_COPIES_MAX = 3;

/** One step of a schema. SQL text, or code for what SQL cannot say; runs inside its own transaction. */
export interface Migration {
  /** What the file can do afterwards, for error messages: `signals, streams and cards`. */
  readonly name: string;
  readonly up: string | ((db: DatabaseSync) => void);
}

export function schemaVersion(db: DatabaseSync): number {
  return Number(db.prepare('PRAGMA user_version').get()?.user_version ?? 0);
}

/**
 * Bring a file to the newest schema, each step in one transaction. An existing file is copied to `<path>.v<version>.bak` first.
 *
 * @throws AppError `storage_version` when the file has seen more steps than this program knows
 */
export function migrate(db: DatabaseSync, path: string, migrations: readonly Migration[]): void {
  const from = schemaVersion(db);
  if (from > migrations.length) {
    const detail =
      `${path} has schema version ${from}, this program knows up to ${migrations.length}; ` +
      'start the newer program that wrote it, or restore a backup made by this one';
    throw new AppError('storage_version', { detail });
  }
  if (from === migrations.length) return;
  if (from > 0) copyBefore(db, path, from);
  for (let version = from; version < migrations.length; version += 1) step(db, migrations[version]!, version + 1);
}

function step(db: DatabaseSync, migration: Migration, version: number): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    if (typeof migration.up === 'string') db.exec(migration.up);
    else migration.up(db);
    db.exec(`PRAGMA user_version = ${version}; COMMIT`);
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

/** VACUUM INTO sees the WAL too, which a plain file copy would miss. */
function copyBefore(db: DatabaseSync, path: string, version: number): void {
  const partial = `${path}.v${version}.bak.part`;
  rmSync(partial, { force: true });
  db.prepare('VACUUM INTO ?').run(partial);
  renameSync(partial, `${path}.v${version}.bak`);
  for (const copy of copiesOf(path).slice(0, -MIGRATION_COPIES_MAX)) rmSync(copy, { force: true });
}

/** Oldest version first. */
function copiesOf(path: string): string[] {
  const prefix = `${basename(path)}.v`;
  const versionOf = (name: string): number => Number(/^(\d+)\.bak$/.exec(name.slice(prefix.length))?.[1] ?? Number.NaN);
  return readdirSync(dirname(path))
    .filter((name) => name.startsWith(prefix) && !Number.isNaN(versionOf(name)))
    .sort((a, b) => versionOf(a) - versionOf(b))
    .map((name) => join(dirname(path), name));
}
