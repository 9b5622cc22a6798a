import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { start } from '../../src/compose.ts';
import { resolveSettings } from '../../src/config.ts';
import type { Logger } from '../../src/core/logger.ts';
import type { Provider } from '../../src/core/provider.ts';

type Fields = Record<string, unknown> & { readonly err?: Error };

/** A daemon whose provider has a bug, and all that it logs as a fault. */
async function startBroken(provider: Partial<Provider>) {
  const folder = mkdtempSync(join(tmpdir(), 'signet-fault-'));
  const lines: Fields[] = [];
  const keep = (fields: object): void => void lines.push(fields as Fields);
  const logger: Logger = { debug() {}, info() {}, warn: keep, error: keep };
  const settings = resolveSettings({ SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_RUNTIME_PORT: '0' });
  const own = { id: 'own', kind: 'custom', defaultModel: 'm', available: async () => true, models: async () => [], ...provider };
  const running = await start(settings, logger, { providers: [own as unknown as Provider], defaultProvider: 'own' });
  onTestFinished(async () => {
    await running.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const post = async (path: string, body: object, headers: Record<string, string> = {}) => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) };
    const response = await fetch(`${running.runtime.url}${path}`, init);
    return { status: response.status, body: (await response.json()) as Record<string, string> };
  };
  return { lines, post };
}

test.each([
  [
    'throws',
    () => {
      throw new TypeError('a bug of the provider');
    },
    'a bug of the provider',
  ],
  [
    'answers without what an answer has',
    async function* () {
      yield { type: 'done', result: { content: 'hello' } };
    },
    'undefined',
  ],
])('the cause of a provider that %s stands in the log under the id of the request', async (_what, stream, cause) => {
  const { lines, post } = await startBroken({ stream: stream as unknown as Provider['stream'] });
  const session = (await post('/session', {})).body;

  const answer = await post(`/session/${session.id}/prompt`, { content: 'Hello?', id: 'p1' }, { 'x-request-id': 'req_of_mine' });

  expect(answer).toMatchObject({ status: 502, body: { code: 'provider_failed', requestId: 'req_of_mine' } });
  expect(answer.body.detail).toContain('the log has the cause');
  const [fault, request] = [lines.find(({ key }) => key === 't1.r1.a1'), lines.find(({ requestId }) => requestId === 'req_of_mine')];
  expect(fault).toMatchObject({ session: session.id, promptId: 'p1' });
  expect(fault!.err!.message).toContain(cause);
  expect(request!.err!.cause).toBe(fault!.err);
});
