import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { type Figure, parseFigure, targetText, verdict } from '../bench/rig/figure.ts';

/** One benchmark may take this long; unit: milliseconds. */
const BENCH_TIMEOUT_MS = 600_000;
const BYTES_PER_GIB = 2 ** 30;
const FOLDER = resolve(import.meta.dirname, '..', 'bench');
const RESULTS = join(FOLDER, 'results.md');
const NAME_WIDTH = 62;

// Usage: npm run bench [-- [--gate] part-of-a-name ...]. Each file of bench/ is a program that reports figures. All of them together write
// bench/results.md. With --gate it exits 1 when a figure misses its target or a benchmark breaks off.
const gated = process.argv.includes('--gate');
const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const files = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.ts') && (wanted.length === 0 || wanted.some((part) => name.includes(part))))
  .sort();

if (files.length === 0) process.stdout.write(`no benchmark in ${FOLDER} has such a name\n`);
const measured: { readonly file: string; readonly figures: readonly Figure[] }[] = [];
let missed = 0;
for (const file of files) {
  process.stdout.write(`\n${file}\n`);
  const { figures, fault } = await run(file);
  measured.push({ file, figures });
  missed += figures.filter((figure) => verdict(figure) === 'FAIL').length;
  if (fault === null) continue;
  process.stderr.write(`${file} broke off: ${fault}\n`);
  missed += 1;
}
if (wanted.length === 0) writeFileSync(RESULTS, resultsPage());
process.stdout.write(missed === 0 ? '\nall targets are met\n' : `\n${missed} targets are missed\n`);
if (gated && missed > 0) process.exitCode = 1;

async function run(file: string): Promise<{ figures: Figure[]; fault: string | null }> {
  const child = spawn(process.execPath, [join(FOLDER, file)], { stdio: ['ignore', 'pipe', 'inherit'], timeout: BENCH_TIMEOUT_MS });
  const ended = new Promise<string | null>((settle) => {
    child.once('error', (error) => settle(error.message));
    child.once('close', (code, signal) => settle(code === 0 ? null : `exit code ${code ?? signal}`));
  });
  const figures: Figure[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const figure = parseFigure(line);
    if (!figure) continue;
    figures.push(figure);
    const judged = [verdict(figure), targetText(figure)].filter((part) => part !== '').join(', ');
    process.stdout.write(`  ${figure.name.padEnd(NAME_WIDTH)} ${`${figure.value} ${figure.unit}`.padEnd(14)} ${judged}\n`);
  }
  return { figures, fault: await ended };
}

/** Numbers of one machine; what can be compared with those of another are the ratios. */
function resultsPage(): string {
  const rows = measured.flatMap(({ file, figures }) =>
    figures.map((figure) => {
      const cells = [
        figure.name,
        `${figure.value} ${figure.unit}`.trim(),
        targetText(figure),
        verdict(figure),
        figure.note ?? '',
        `\`${file}\``,
      ];
      return `| ${cells.join(' | ')} |`;
    }),
  );
  return [
    '# Measured',
    '',
    'Written by `npm run bench`, which runs every program of this folder against the built daemon as a process of its own, with the model',
    'server of the tests as another. CPU is user and system time of the process and all its threads; memory is resident memory.',
    '',
    `Machine: ${machine()}. Other work on it makes CPU figures up to twice as large, times more.`,
    '',
    '| What | Measured | Target | | How | Program |',
    '|---|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

function machine(): string {
  const kernel = readFileSync('/proc/sys/kernel/osrelease', 'utf8').trim();
  const model = cpus()[0]?.model.trim() || 'unknown processor';
  return `${availableParallelism()} × ${model}, ${Math.round(totalmem() / BYTES_PER_GIB)} GiB, Linux ${kernel}, Node ${process.versions.node}`;
}
