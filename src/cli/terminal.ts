import type { Readable } from 'node:stream';

/** Where a command writes: a terminal, a file, a pipe, or a test's collector. */
export interface Output {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

export type Input = Readable & { readonly isTTY?: boolean };
export type Environment = Readonly<Record<string, string | undefined>>;

export interface Style {
  dim(text: string): string;
  bold(text: string): string;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  cyan(text: string): string;
}

/** Colours only on a terminal, and never with NO_COLOR or TERM=dumb. @source no-color.org: any value but the empty one counts */
export function createStyle(output: Output, env: Environment): Style {
  const colours = output.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb';
  const paint = (open: number, close: number) => (text: string) => (colours ? `\u001b[${open}m${text}\u001b[${close}m` : text);
  return { dim: paint(2, 22), bold: paint(1, 22), red: paint(31, 39), green: paint(32, 39), yellow: paint(33, 39), cyan: paint(36, 39) };
}

/** Columns as wide as their widest cell, two spaces between, nothing after the last. Cells must be plain already. */
export function formatTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return `${[head, ...rows].map(line).join('\n')}\n`;
}

/** `42 s`, `3 min`, `5 h`, `2 d`: the largest unit that is at least one. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** `1 turn`, `2 turns`. */
export function formatTurns(count: number): string {
  return `${count} ${count === 1 ? 'turn' : 'turns'}`;
}
