import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** Only root can act as another user; elsewhere tests with another user are left out, and say so. */
export const CAN_BE_OTHER_USER = process.platform === 'linux' && process.geteuid?.() === 0;
if (!CAN_BE_OTHER_USER) console.warn('LEFT OUT: tests that act as another local user need root on Linux');

export const NOBODY = 65_534;

export interface OtherCall {
  readonly url: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}
export interface OtherAnswer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

const SCRIPT = `
  let text = '';
  for await (const chunk of process.stdin) text += chunk;
  const answers = [];
  for (const { url, method, headers, body } of JSON.parse(text)) {
    if (url.startsWith('ws:')) {
      const socket = new WebSocket(url);
      await new Promise((resolve, reject) => { socket.onopen = resolve; socket.onerror = reject; });
      const answer = new Promise((resolve) => (socket.onmessage = ({ data }) => JSON.parse(data).re && resolve(JSON.parse(data))));
      socket.send(JSON.stringify(body));
      answers.push({ status: 101, body: await answer });
      socket.close();
      continue;
    }
    const answer = await fetch(url, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(20000),
    });
    const isStream = (answer.headers.get('content-type') ?? '').includes('event-stream');
    const said = isStream ? '' : await answer.text();
    if (isStream) await answer.body.cancel();
    let read = {};
    try { read = JSON.parse(said); } catch { read = { text: said }; }
    answers.push({ status: answer.status, body: read });
  }
  process.stdout.write(JSON.stringify(answers), () => process.exit(0));
`;

/** Run calls, one after the other, in a process of another user of this machine. A `ws:` address sends its body as one command. */
export async function callAsOther(calls: readonly OtherCall[], uid: number = NOBODY): Promise<OtherAnswer[]> {
  // The folder of our own Node may be closed to other users.
  const folder = mkdtempSync(join(tmpdir(), 'signet-other-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const node = join(folder, 'node');
  copyFileSync(process.execPath, node);
  chmodSync(folder, 0o755);
  chmodSync(node, 0o755);
  const child = spawn(node, ['--input-type=module', '-e', SCRIPT], {
    uid,
    gid: uid,
    cwd: '/',
    env: {},
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk) => (text += chunk));
  child.stdin.end(JSON.stringify(calls));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`the process of the other user ended with ${code}: ${text}`);
  return JSON.parse(text);
}
