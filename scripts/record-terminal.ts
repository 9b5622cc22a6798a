import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

/** Runs real commands on a fresh workspace and draws what they print as docs/terminal.svg. Run: node scripts/record-terminal.ts */
const ROOT = resolve(import.meta.dirname, '..');
const LAUNCHER = join(ROOT, 'bin', 'signet.js');
const COLUMNS_MAX = 104;
const LINE_HEIGHT_PX = 18;
const CHAR_WIDTH_PX = 7.83;
const MARGIN_PX = 18;

interface Line {
  readonly text: string;
  readonly kind: 'command' | 'output' | 'note';
}

const folder = mkdtempSync(join(tmpdir(), 'signet-recording-'));
const env = {
  PATH: process.env.PATH,
  HOME: folder,
  SIGNET_PATH: join(folder, '.agents'),
  SIGNET_PORT: '3850',
  SIGNET_RUNTIME_PORT: '7700',
};
const lines: Line[] = [];

try {
  run('signet chat --print "remember that my favourite editor is helix"');
  run('signet chat --print "which editor do I like?"');
  run('signet session list');
  const id = signet(['session', 'list', '--json']).match(/"id": "(ses_[a-z0-9]+)"/)![1]!;
  run(`signet session events ${id} --events 'session:*,hook:*,harness:*'`, 'cut');
  run(`signet replay ${id} --verify`);
} finally {
  signet(['stop']);
  rmSync(folder, { recursive: true, force: true });
}
writeFileSync(join(ROOT, 'docs', 'terminal.svg'), draw(lines));

function signet(args: readonly string[]): string {
  return execFileSync(process.execPath, [LAUNCHER, ...args], { cwd: folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}

function run(command: string, long: 'wrap' | 'cut' = 'wrap'): void {
  lines.push({ text: `$ ${command}`, kind: 'command' });
  const args = [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((match) => match[1] ?? match[2] ?? match[3]!).slice(1);
  for (const line of signet(args).trimEnd().split('\n'))
    for (const part of linesOf(line.replaceAll(folder, '~'), long)) lines.push({ text: part, kind: 'output' });
  lines.push({ text: '', kind: 'note' });
}

function linesOf(line: string, long: 'wrap' | 'cut'): string[] {
  if (line.length <= COLUMNS_MAX) return [line];
  return long === 'cut'
    ? [`${line.slice(0, COLUMNS_MAX - 1)}…`]
    : (line.match(new RegExp(`.{1,${COLUMNS_MAX}}(?:\\s|$)|.{1,${COLUMNS_MAX}}`, 'g')) ?? []);
}

function draw(rows: readonly Line[]): string {
  const width = Math.ceil(COLUMNS_MAX * CHAR_WIDTH_PX + 2 * MARGIN_PX);
  const height = rows.length * LINE_HEIGHT_PX + 2 * MARGIN_PX;
  const colours = { command: '#7cc4ff', output: '#d7dde5', note: '#8a94a3' };
  const texts = rows.map(
    ({ text, kind }, index) =>
      `<text x="${MARGIN_PX}" y="${MARGIN_PX + (index + 0.75) * LINE_HEIGHT_PX}" fill="${colours[kind]}" xml:space="preserve">${escapeXml(text)}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13">
<title>Two prompts, the sessions they made, the signals of one, and its replay</title>
<rect width="100%" height="100%" rx="8" fill="#14181f"/>
${texts.join('\n')}
</svg>
`;
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
