/** One measured number, as a benchmark hands it to the one who runs it: a line of JSON on stdout that begins with FIGURE_MARK. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** Targets; a figure with neither is told, not judged. */
  readonly atMost?: number;
  readonly atLeast?: number;
  /** How it came about, where the name does not say it. */
  readonly note?: string;
}

const FIGURE_MARK = 'figure ';
const DIGITS_MAX = 3;

/** Print a figure for whoever reads along, program or person. */
export function report(figure: Figure): void {
  process.stdout.write(`${FIGURE_MARK}${JSON.stringify({ ...figure, value: round(figure.value) })}\n`);
}

/** The figure in a line of output, undefined in any other line. */
export function parseFigure(line: string): Figure | undefined {
  return line.startsWith(FIGURE_MARK) ? (JSON.parse(line.slice(FIGURE_MARK.length)) as Figure) : undefined;
}

export function verdict({ value, atMost, atLeast }: Figure): 'PASS' | 'FAIL' | '' {
  if (atMost === undefined && atLeast === undefined) return '';
  return value <= (atMost ?? Number.POSITIVE_INFINITY) && value >= (atLeast ?? Number.NEGATIVE_INFINITY) ? 'PASS' : 'FAIL';
}

export function targetText({ atMost, atLeast, unit }: Figure): string {
  if (atMost !== undefined) return `at most ${atMost} ${unit}`.trimEnd();
  return atLeast === undefined ? '' : `at least ${atLeast} ${unit}`.trimEnd();
}

/** Three digits that say something; whole numbers above 100. */
function round(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(DIGITS_MAX));
}
