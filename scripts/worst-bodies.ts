import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { daemonOperations } from '../src/contract/daemon.ts';
import { BODY_BYTES_MAX, type Operation } from '../src/contract/operation.ts';
import { runtimeOperations } from '../src/contract/runtime.ts';

/**
 * Sends each operation the bodies that cost most for their size, and measures what one request costs the daemon.
 *
 * Usage: node scripts/worst-bodies.ts [operation …]; `npm run security` runs it for all. Exit code 1 when a request is over a bound. Linux only: it reads /proc.
 */

/** CPU of the main thread that one request may take; unit: milliseconds. */
const CPU_MS_MAX = 100;
/** Memory that one request may add: so much, and so many times its own size. */
const RSS_BYTES_MAX = 64 * 1_048_576;
const RSS_TIMES_MAX = 8;
/** One tick of /proc/<pid>/stat; unit: milliseconds. */
const TICK_MS = 10;
const REQUEST_TIMEOUT_MS = 180_000;
const LAUNCHER = fileURLToPath(new URL('../bin/signet.js', import.meta.url));

const repeat = (text: string, bytes: number): string => text.repeat(Math.max(1, Math.floor(bytes / Buffer.byteLength(text))));

/** Texts that cost most to redact, normalise, tokenise or cut. */
const TEXTS: Readonly<Record<string, string>> = {
  letters: 'a',
  tokens: 'token-',
  assignments: 'token=',
  bearer: 'bearer ',
  ligature: '\ufdfa',
  marks: '\u0301\u0300',
  headings: '# a\n',
  sections: '# Heading\ntext\n\n',
  fences: '```\n',
  list: '- a\n',
  commas: 'a, ',
  words: 'lorem ipsum dolor ',
  sentences: 'We moved the server to port 4. ',
  questions: 'where is it? ',
  dates: '2026-01-02 ',
  key: '-----BEGIN PRIVATE KEY-----',
  braces: '{{ a }} ',
  brackets: '[a](b) ',
  spaces: ' \t',
  lines: '\n',
  emoji: '👩‍👩‍👧‍👦',
  han: '机器学习',
  zeroWidth: 'a\u200b',
  roles: 'User: a\nAssistant: b\n',
  json: '{\\"role\\":\\"user\\",\\"content\\":\\"a\\"}\n',
};

/** Bodies of about `bytes` that are not JSON texts of one long string. */
const SHAPES: Readonly<Record<string, (bytes: number) => string>> = {
  arrays: (bytes) => `{"x":[${repeat('[],', bytes).slice(0, -1)}]}`,
  numbers: (bytes) => `{"x":[${repeat('1,', bytes).slice(0, -1)}]}`,
  objects: (bytes) => `{"x":[${repeat('{"a":1},', bytes).slice(0, -1)}]}`,
  keys: (bytes) => `{${Array.from({ length: Math.floor(bytes / 12) }, (_, at) => `"k${at}":1`).join(',')}}`,
  broken: (bytes) => `{"x":[${repeat('1,', bytes)}x`,
  unclosed: (bytes) => `{"x":"${'a'.repeat(bytes)}`,
  notUtf8: (bytes) => `{"x":"${'a'.repeat(bytes)}\u00ff"}`,
  halves: (bytes) => `{"x":[${repeat('"\\ud83d",', bytes).slice(0, -1)}]}`,
  poison: (bytes) => `{"x":[${repeat('"__proto",', bytes).slice(0, -1)}],"constructor":1}`,
};

/** Minimal valid bodies of operations whose largest field is a text, as `field path → body`. */
const FIELDS: Readonly<Record<string, (text: string) => unknown>> = {
  remember: (text) => ({ content: text }),
  recall: (text) => ({ query: text }),
  hookSessionStart: (text) => ({ harness: 'test', sessionKey: 'k', context: text }),
  hookUserPromptSubmit: (text) => ({ harness: 'test', sessionKey: 'k', prompt: text, userMessage: text, lastAssistantMessage: text }),
  hookSessionEnd: (text) => ({ harness: 'test', sessionKey: `k${Math.random()}`, transcript: text }),
  hookRemember: (text) => ({ harness: 'test', sessionKey: 'k', content: text }),
  hookRecall: (text) => ({ harness: 'test', sessionKey: 'k', query: text }),
  hookPreCompaction: (text) => ({ harness: 'test', sessionKey: 'k', sessionContext: text }),
  hookCompactionComplete: (text) => ({
    harness: 'test',
    sessionKey: `k${Math.random()}`,
    summary: text.slice(0, 1_000_000),
    transcript: text,
  }),
  ingestDocument: (text) => ({ content: text, source: `s${Math.random()}`, format: 'markdown' }),
  sendAgentMessage: (text) => ({ content: text, fromAgentId: 'a', toAgentId: 'b' }),
  prompt: (text) => ({ content: text, async: true }),
};

interface Daemon {
  readonly pid: number;
  readonly child: ChildProcess;
  readonly urls: Readonly<Record<'daemon' | 'runtime', string>>;
}

async function start(folder: string): Promise<Daemon> {
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    SIGNET_PATH: folder,
    SIGNET_PORT: '0',
    SIGNET_RUNTIME_PORT: '0',
    SIGNET_LOG_LEVEL: 'error',
  };
  const child = spawn(process.execPath, [LAUNCHER, 'start', '--foreground'], { env, stdio: ['ignore', 'inherit', 'inherit'] });
  for (;;) {
    await pause(100);
    try {
      const { pid, port, runtimePort } = JSON.parse(readFileSync(join(folder, '.daemon', 'daemon.json'), 'utf8'));
      if (port && runtimePort)
        return { pid, child, urls: { daemon: `http://127.0.0.1:${port}`, runtime: `http://127.0.0.1:${runtimePort}` } };
    } catch {
      // It is not there yet.
    }
    if (child.exitCode !== null) throw new Error('the daemon did not start');
  }
}

/** CPU of the main thread so far; unit: milliseconds. */
function mainCpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/task/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

function memoryBytes(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  return Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1_024;
}

interface Cost {
  readonly status: number;
  readonly bytes: number;
  readonly cpuMs: number;
  readonly addedBytes: number;
}

async function measure({ pid }: Daemon, url: string, method: string, body: Buffer): Promise<Cost> {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  const [cpu, rss] = [mainCpuMs(pid), memoryBytes(pid, 'VmRSS')];
  const status = await fetch(url, {
    method,
    body,
    headers: { 'content-type': 'application/json' },
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  }).then(
    async (answer) => {
      await answer.arrayBuffer();
      return answer.status;
    },
    () => 0,
  );
  const cost = { status, bytes: body.length, cpuMs: mainCpuMs(pid) - cpu, addedBytes: Math.max(0, memoryBytes(pid, 'VmHWM') - rss) };
  await pause(50);
  return cost;
}

const folder = mkdtempSync(join(tmpdir(), 'signet-worst-'));
const daemon = await start(folder);
let over = 0;
let calls = 0;
try {
  await fetch(`${daemon.urls.runtime}/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id: 'ses_worst', bypass: true }),
  });
  const wanted = new Set(process.argv.slice(2));
  const all: readonly (readonly ['daemon' | 'runtime', Operation])[] = [
    ...Object.values(daemonOperations).map((operation) => ['daemon', operation as Operation] as const),
    ...Object.values(runtimeOperations).map((operation) => ['runtime', operation as Operation] as const),
  ];
  for (const [side, operation] of all) {
    if (operation.method === 'GET' || (wanted.size > 0 && !wanted.has(operation.id))) continue;
    const path = operation.path.replace(/:\w+/g, side === 'runtime' ? 'ses_worst' : 'k');
    const limit = operation.bodyBytesMax ?? BODY_BYTES_MAX;
    const bodies: [string, Buffer][] = Object.entries(SHAPES).map(([name, make]) => {
      const text = make(limit - 64);
      return [name, Buffer.from(text, name === 'notUtf8' ? 'latin1' : 'utf8')];
    });
    const field = FIELDS[operation.id];
    if (field) {
      for (const [name, text] of Object.entries(TEXTS))
        for (const share of [1, 0.1])
          bodies.push([
            `text ${name} ×${share}`,
            Buffer.from(JSON.stringify(field(repeat(text, (limit * share * 0.9) / (operation.id === 'hookUserPromptSubmit' ? 3 : 1))))),
          ]);
    }
    for (const [name, body] of bodies) {
      const { status, bytes, cpuMs, addedBytes } = await measure(daemon, daemon.urls[side] + path, operation.method, body);
      calls += 1;
      if (cpuMs <= CPU_MS_MAX && addedBytes <= RSS_BYTES_MAX + RSS_TIMES_MAX * bytes) continue;
      over += 1;
      const mib = (count: number) => `${(count / 1_048_576).toFixed(1)} MiB`;
      console.log(`OVER ${operation.id} ${name}: ${mib(bytes)} → ${status}, ${cpuMs} ms of CPU, ${mib(addedBytes)} of memory`);
    }
  }
} finally {
  daemon.child.kill('SIGTERM');
  await new Promise((resolve) => daemon.child.once('exit', resolve));
  rmSync(folder, { recursive: true, force: true });
}
console.log(
  `${calls} bodies sent, ${over} over ${CPU_MS_MAX} ms of CPU or ${RSS_BYTES_MAX / 1_048_576} MiB + ${RSS_TIMES_MAX} × their size`,
);
process.exitCode = over > 0 ? 1 : 0;
