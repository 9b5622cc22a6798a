import { afterAll, beforeAll, expect, test } from 'vitest';
import { rawBytes } from '../helpers/raw-http.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

let signet: Signet;
let ports: number[];
beforeAll(async () => {
  signet = await startSignet();
  ports = [signet.daemonUrl, signet.runtimeUrl].map((url) => Number(new URL(url).port));
});
afterAll(() => signet.close());

/** Status and text of the answer to these lines, of both servers. */
async function ask(lines: (port: number) => readonly string[]): Promise<{ status: number; text: string }[]> {
  return Promise.all(
    ports.map(async (port) => {
      const text = String(await rawBytes(port, [`${[...lines(port), 'connection: close'].join('\r\n')}\r\n\r\n`]));
      return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text };
    }),
  );
}
const statuses = async (lines: (port: number) => readonly string[]) => (await ask(lines)).map(({ status }) => status);

test('two Host headers are refused, in either order', async () => {
  expect(await statuses((port) => ['GET /health HTTP/1.1', `host: 127.0.0.1:${port}`])).toEqual([200, 200]);
  expect(await statuses((port) => ['GET /health HTTP/1.1', `host: 127.0.0.1:${port}`, 'host: evil.example'])).toEqual([400, 400]);
  expect(await statuses((port) => ['GET /health HTTP/1.1', 'host: evil.example', `Host: 127.0.0.1:${port}`])).not.toContain(200);
  expect(await statuses((port) => ['GET /health HTTP/1.1', `host: 127.0.0.1:${port}`, `HOST: 127.0.0.1:${port}`])).toEqual([400, 400]);
});

test('a target that is a whole address is refused, also when it is ours', async () => {
  for (const target of ['http://evil.example/health', 'https://127.0.0.1/health', 'evil.example:80', '//evil.example/health']) {
    expect([target, ...(await statuses((port) => [`GET ${target} HTTP/1.1`, `host: 127.0.0.1:${port}`]))]).not.toContain(200);
  }
  expect(await statuses((port) => [`GET http://127.0.0.1:${port}/health HTTP/1.1`, `host: 127.0.0.1:${port}`])).toEqual([400, 400]);
});

test('a page of another site reads nothing and does nothing, with or without Origin', async () => {
  const sent = (method: string, ...headers: string[]) =>
    statuses((port) => [`${method} /health HTTP/1.1`, `host: 127.0.0.1:${port}`, ...headers]);
  for (const site of ['cross-site', 'same-site'])
    for (const [mode, dest] of [
      ['no-cors', 'image'],
      ['no-cors', 'script'],
      ['cors', 'empty'],
      ['navigate', 'iframe'],
    ])
      for (const method of ['GET', 'HEAD', 'POST', 'DELETE']) {
        const headers = [`sec-fetch-site: ${site}`, `sec-fetch-mode: ${mode}`, `sec-fetch-dest: ${dest}`];
        expect([method, ...headers, ...(await sent(method, ...headers))]).toEqual([method, ...headers, 403, 403]);
      }
  expect(await sent('GET', 'sec-fetch-site: cross-site', 'sec-fetch-mode: navigate', 'sec-fetch-dest: document')).toEqual([200, 200]);
  expect(await sent('POST', 'sec-fetch-site: cross-site', 'sec-fetch-mode: navigate', 'sec-fetch-dest: document')).toEqual([403, 403]);
  for (const site of ['same-origin', 'none']) expect(await sent('GET', `sec-fetch-site: ${site}`)).toEqual([200, 200]);
});
