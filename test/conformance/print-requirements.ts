import { parseArgs } from 'node:util';
import type { Requirement } from './requirements.row.ts';
import { REQUIREMENTS } from './requirements.ts';

const USAGE = `Usage: node test/conformance/print-requirements.ts [--json] [--open]

Prints how many promises of the specification are tested, by document and heading.
  --open  only what is still open, with every row
  --json  the rows as JSON
`;

// A reader such as `head` may close the pipe early; that is no failure of the listing.
process.stdout.on('error', () => process.exit(0));

const { values } = parseArgs({ options: { json: { type: 'boolean' }, open: { type: 'boolean' }, help: { type: 'boolean' } } });

if (values.help) process.stdout.write(USAGE);
else process.stdout.write(printRequirements(REQUIREMENTS, { json: values.json ?? false, open: values.open ?? false }));

/** The rows as a table of counts by heading, as a list of the open ones, or as JSON; ends with a line break. */
function printRequirements(rows: readonly Requirement[], { json, open }: { json: boolean; open: boolean }): string {
  const chosen = open ? rows.filter(({ state }) => state === 'open') : rows;
  if (json) return `${JSON.stringify(chosen, null, 2)}\n`;

  const width = Math.max(...rows.map(({ source }) => source.length));
  const chosenBySource = Map.groupBy(chosen, ({ source }) => source);
  const lines = [...Map.groupBy(rows, ({ source }) => source)].flatMap(([source, group]) => {
    const listed = chosenBySource.get(source) ?? [];
    if (listed.length === 0) return [];
    return [countLine(source, group, width), ...(open ? listed.map(({ id, behaviour }) => `  ${id}: ${behaviour}`) : [])];
  });
  const byDocument = [...Map.groupBy(rows, ({ source }) => source.split(' ')[0] ?? source)];
  const totals = byDocument.map(([document, group]) => countLine(document, group, width));
  return `${[headLine(width), ...lines, '', ...totals, countLine('all', rows, width)].join('\n')}\n`;
}

function headLine(width: number): string {
  return `${'source'.padEnd(width)}  tested    open   total`;
}

function countLine(source: string, rows: readonly Requirement[], width: number): string {
  const tested = rows.filter(({ state }) => state === 'tested').length;
  const counts = [tested, rows.length - tested, rows.length].map((count) => String(count).padStart(6)).join('  ');
  return `${source.padEnd(width)}  ${counts}`;
}
