import type { Command } from 'commander';
import type { BackupOptions, BackupProgress } from '../store/workspace-backup.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';

/** How often progress is shown where no terminal reads; unit: milliseconds. */
const LINE_EVERY_MS = 10_000;
/** On a terminal; unit: milliseconds. */
const REDRAW_EVERY_MS = 100;
const SHOWN_CHARS_MAX = 60;
/** Links that are named; the rest are counted, and all stand in the JSON. */
const LEFT_OUT_SHOWN_MAX = 20;

interface BackupFlags {
  readonly path?: string;
  readonly json?: boolean;
}

interface RestoreFlags extends BackupFlags {
  readonly force?: boolean;
}

/** `backup <file>` and `restore <file>`: the whole data folder as one file. */
export function addBackupCommands(program: Command, context: CliContext): void {
  program
    .command('backup')
    .description('write the whole data folder into one archive, also while the daemon runs')
    .argument('<file>', 'archive to write, outside of the data folder; one that is there is replaced')
    .option('--path <folder>', 'data folder (SIGNET_PATH; default ~/.agents)')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nIt holds sessions, memories, configuration, identity files, agents, skills, tools, tokens and secrets with their key:\n' +
        'keep it as you would keep those. Links are left out and named.\n' +
        '\nExamples:\n  signet backup ~/backups/signet.tar.gz\n  signet backup "/mnt/backups/signet-$(date +%F).tar.gz" --json',
    )
    .action((file: string, flags: BackupFlags) => backup(context, file, flags));
  program
    .command('restore')
    .description('bring a backup back as the data folder; the archive is checked before anything is touched')
    .argument('<file>', 'what signet backup wrote')
    .option('--path <folder>', 'data folder (SIGNET_PATH; default ~/.agents)')
    .option('--force', 'move what is there to <folder>.before-restore-<time> first')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nRefused while a daemon runs on the folder. Turns that were open at the time of the backup go on at the next start: do not start\n' +
        'the restored folder beside the one it was made of.\n' +
        '\nExamples:\n  signet restore ~/backups/signet.tar.gz --path ~/restored\n' +
        '  signet stop && signet restore ~/backups/signet.tar.gz --force && signet start',
    )
    .action((file: string, flags: RestoreFlags) => restore(context, file, flags));
}

async function backup(context: CliContext, file: string, flags: BackupFlags): Promise<void> {
  const { workspaceFolder } = await import('./workspace.ts');
  const { backupWorkspace } = await import('../store/workspace-backup.ts');
  const { plainText, safeJson } = await import('./terminal-text.ts');
  const { resolve } = await import('node:path');
  const folder = workspaceFolder(context, flags.path);
  const path = resolve(context.cwd, file);
  const result = await interruptible(context, 'backing up', (options) => backupWorkspace(folder, path, options));
  if (flags.json) return void context.stdout.write(`${safeJson({ file: path, folder, ...result }, 2)}\n`);
  context.stdout.write(`${result.files} files of ${folder} in ${file}, ${formatBytes(result.bytes)}\n`);
  for (const { path: name, reason } of result.leftOut.slice(0, LEFT_OUT_SHOWN_MAX)) {
    context.stderr.write(`left out: ${plainText(name)}, ${reason}\n`);
  }
  const more = result.leftOut.length - LEFT_OUT_SHOWN_MAX;
  if (more > 0) context.stderr.write(`left out: ${more} more; --json names them all\n`);
  if (result.keyInKeyring)
    context.stderr.write('the key of the secrets is in the keyring of this system and not in the archive: elsewhere they stay locked\n');
}

async function restore(context: CliContext, file: string, flags: RestoreFlags): Promise<void> {
  const { workspaceFolder } = await import('./workspace.ts');
  const { restoreWorkspace } = await import('../store/workspace-restore.ts');
  const { safeJson } = await import('./terminal-text.ts');
  const { resolve } = await import('node:path');
  const folder = workspaceFolder(context, flags.path);
  const path = resolve(context.cwd, file);
  const force = flags.force === true;
  const result = await interruptible(context, 'restoring', (options) => restoreWorkspace(path, folder, { ...options, force }));
  if (flags.json) return void context.stdout.write(`${safeJson({ file: path, folder, ...result }, 2)}\n`);
  context.stdout.write(`${result.files} files restored to ${folder}, as they were at ${result.createdAt}\n`);
  context.stdout.write('What happened after that is not in them.\n');
  if (result.movedTo !== null) context.stdout.write(`What was there before is in ${result.movedTo}\n`);
}

/** Ctrl-C ends the work in order: nothing half done stays behind. */
async function interruptible<T>(context: CliContext, verb: string, work: (options: BackupOptions) => Promise<T>): Promise<T> {
  const aborting = new AbortController();
  const off = context.onInterrupt(() => aborting.abort());
  const progress = createProgress(context, verb);
  try {
    return await work({ signal: aborting.signal, onProgress: progress.show });
  } catch (error) {
    if (aborting.signal.aborted) throw new CliExit(EXIT.interrupted, 'interrupted; nothing was changed');
    throw error;
  } finally {
    off();
    progress.clear();
  }
}

/** One line that is drawn anew on a terminal; a line from time to time elsewhere. */
function createProgress({ stderr }: CliContext, verb: string) {
  let shownAt = performance.now();
  let isDrawn = false;
  return {
    show({ path, done }: BackupProgress): void {
      const now = performance.now();
      if (now - shownAt < (stderr.isTTY ? REDRAW_EVERY_MS : LINE_EVERY_MS)) return;
      shownAt = now;
      // Names of files are foreign text.
      const name = path.replace(/[^\x20-\x7e]/g, '?').slice(0, SHOWN_CHARS_MAX);
      const text = `${verb} ${name} ${Math.floor(done * 100)} %`;
      stderr.write(stderr.isTTY ? `\r\u001b[K${text}` : `${text}\n`);
      isDrawn = true;
    },
    clear(): void {
      if (isDrawn && stderr.isTTY) stderr.write('\r\u001b[K');
    },
  };
}

function formatBytes(bytes: number): string {
  if (bytes < 1_000_000) return `${Math.ceil(bytes / 1_000)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}
