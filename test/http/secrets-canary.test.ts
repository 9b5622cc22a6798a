import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type Answer, call, hooksOf } from '../conformance/calls.ts';
import { rawRequest } from '../helpers/raw-http.ts';
import { startSignetProcess } from '../helpers/signet.ts';

const CANARY = 'kanarienvogel/9f3+Zq==';
const FORMS = [
  CANARY,
  encodeURIComponent(CANARY),
  Buffer.from(CANARY).toString('hex'),
  ...['', 'x', 'xy'].map((before) =>
    Buffer.from(before + CANARY)
      .toString('base64')
      .slice(4, -4),
  ),
];

/** Every file below a folder, as bytes. */
function* filesBelow(folder: string): Generator<[string, Buffer]> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else if (entry.isFile()) yield [path, readFileSync(path)];
  }
}

/** Every way to give a value that is refused: it is as secret as one that is stored. */
const REFUSED = [
  ['/api/secrets/bad-name', { value: CANARY }],
  ['/api/secrets/API_KEY', { value: [CANARY] }],
  ['/api/secrets/API_KEY', { value: `${CANARY}\0` }],
  ['/api/secrets/API_KEY', { value: CANARY.repeat(3_000) }],
  ['/api/secrets/exec', { command: CANARY }],
  ['/api/secrets/exec', { command: `${CANARY}\0`, secrets: { A: 'API_KEY' } }],
  ['/api/secrets/exec', { command: 'true', secrets: { A: CANARY } }],
] as const;
const UNREADABLE = [
  [`{"value": "${CANARY}`, 'application/json'],
  [`{"value": ${CANARY}}`, 'application/json'],
  [`{"value": "${CANARY}"}`, 'text/plain'],
] as const;
const COMMANDS = [
  'echo "$API_KEY" | base64; echo "$API_KEY" >&2; env; exit 3',
  'echo "$API_KEY"; sleep 60',
  '"$API_KEY"',
  'cat "$API_KEY"',
  'kill -SEGV $$',
];

/** Keeps all that a stream says, until the test is over. */
async function follow(url: string, seen: string[]): Promise<void> {
  const controller = new AbortController();
  onTestFinished(() => controller.abort());
  const { body } = await fetch(url, { signal: controller.signal });
  const read = async () => {
    for await (const chunk of body!.pipeThrough(new TextDecoderStream())) seen.push(chunk);
  };
  // It ends with the daemon.
  read().catch(() => undefined);
}

async function useSecret(daemonUrl: string, seen: string[]): Promise<void> {
  const ask = async (method: string, path: string, body?: unknown): Promise<Answer> => {
    const answer = await call(method, daemonUrl + path, body);
    seen.push(JSON.stringify(answer.body), JSON.stringify([...answer.headers]));
    return answer;
  };
  expect((await ask('POST', '/api/secrets/API_KEY', { value: CANARY })).status).toBe(200);
  for (const path of ['/api/secrets', '/api/secrets/API_KEY', '/api/status', '/api/config']) await ask('GET', path);
  for (const command of COMMANDS) {
    const { status } = await ask('POST', '/api/secrets/exec', { command, secrets: { API_KEY: 'API_KEY' }, timeoutMs: 2_000 });
    expect([command, status]).toEqual([command, 200]);
  }
  for (const [path, body] of REFUSED) expect([path, (await ask('POST', path, body)).status]).toEqual([path, 400]);
  const port = Number(new URL(daemonUrl).port);
  for (const [body, type] of UNREADABLE) {
    const headers = { 'content-type': type };
    const answer = await rawRequest(port, { method: 'POST', path: '/api/secrets/API_KEY', body, headers });
    seen.push(answer.text, JSON.stringify(answer.headers));
    expect([body, answer.status]).toEqual([body, type === 'text/plain' ? 415 : 400]);
  }
  await expect.poll(async () => (await ask('GET', '/api/logs?level=debug&limit=500')).body.logs.length).toBeGreaterThan(5);
}

test('the value of a secret stands in no log, signal, error, stream, database or file, also after a crash', async () => {
  const env = { SIGNET_LOG_LEVEL: 'trace', HOME: '/tmp' };
  const signet = await startSignetProcess({ yaml: 'secrets: { keyring: false }\n', env });
  onTestFinished(() => signet.close());
  const seen: string[] = [];
  await follow(`${signet.runtimeUrl}/events`, seen);
  await follow(`${signet.daemonUrl}/api/logs/stream?level=debug`, seen);
  await useSecret(signet.daemonUrl, seen);
  // The rest of the program goes on beside it, and tells of itself.
  await hooksOf(signet.daemonUrl)('session-start', { sessionKey: 'beside' });
  const session = await signet.client.session.create({});
  await signet.client.session.prompt(session.id, { content: 'hello' });
  await expect.poll(() => seen.join('').includes('a command was run with secrets'), { timeout: 20_000 }).toBe(true);

  signet.process.kill('SIGABRT');
  await new Promise((resolve) => signet.process.once('exit', resolve));
  const files = [...filesBelow(signet.folder)].map(([path, bytes]): [string, string] => [path, bytes.toString('latin1')]);
  expect(files.length).toBeGreaterThan(4);
  for (const [where, text] of [['output', signet.output()], ['answers and streams', seen.join('\n')], ...files] as const) {
    const flat = text.replace(/\s/g, '');
    for (const form of FORMS) expect([where, form, flat.includes(form)]).toEqual([where, form, false]);
  }
});
