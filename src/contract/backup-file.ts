import { z } from 'zod';

export const BACKUP_FORMAT = 'signet-backup';
/** Of the layout of an archive: about.json, the files below files/, sums.json. */
export const BACKUP_VERSION = 1;
/** Files of one workspace; their list is kept in memory. */
export const BACKUP_FILES_MAX = 200_000;

/** First in an archive. A later version may hold more. */
export const BackupAbout = z.object({
  format: z.literal(BACKUP_FORMAT),
  version: z.int().min(1),
  /** Version of the program that wrote it. */
  program: z.string(),
  createdAt: z.iso.datetime(),
});
export type BackupAbout = z.output<typeof BackupAbout>;

/** Last in an archive: every file of it, in the order in which they stand. */
export const BackupSums = z.object({
  files: z.array(z.object({ path: z.string(), size: z.int().min(0), sha256: z.string() })).max(BACKUP_FILES_MAX),
});
export type BackupSums = z.output<typeof BackupSums>;
