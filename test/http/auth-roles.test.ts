import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import type { Operation, Role } from '../../src/contract/operation.ts';
import { runtimeOperations } from '../../src/contract/runtime.ts';
import { call } from '../conformance/calls.ts';
import { startSignet } from '../helpers/signet.ts';

/** What a caller with each role may use, written out: the ranks of the program are not asked. */
const MAY_USE: Readonly<Record<Role, readonly Role[]>> = {
  readonly: ['readonly'],
  agent: ['readonly', 'agent'],
  operator: ['readonly', 'agent', 'operator'],
  admin: ['readonly', 'agent', 'operator', 'admin'],
};
const ROLES = Object.keys(MAY_USE) as Role[];
const REFUSED = /needs the role/;

let signet: Awaited<ReturnType<typeof startSignet>>;
const tokens = {} as Record<Role, string>;
beforeAll(async () => {
  signet = await startSignet({ yaml: 'auth: { mode: team, failuresPerMinute: 10000 }\nsecrets: { keyring: false }\n' });
  const local = readFileSync(join(signet.folder, '.daemon', 'local-token'), 'utf8').trim();
  for (const role of ROLES) {
    const answer = await call('POST', `${signet.daemonUrl}/api/tokens`, { name: role, role }, { authorization: `Bearer ${local}` });
    tokens[role] = answer.body.token;
  }
});
afterAll(() => signet.close());

/** Names nothing that is there, so that most operations do nothing. */
function request(operation: Operation): { readonly method: string; readonly path: string; readonly body: string | undefined } {
  const path = operation.path.replace(/:[A-Za-z]+/g, 'nothing_here');
  return {
    method: operation.method,
    path,
    body: operation.method === 'GET' || operation.method === 'DELETE' ? undefined : '{"nothing":1}',
  };
}

/** Status and detail; a stream is left as soon as it has begun. */
async function send(base: string, operation: Operation, token: string | undefined): Promise<{ status: number; detail: string }> {
  const { method, path, body } = request(operation);
  const controller = new AbortController();
  const headers: Record<string, string> = { ...(body === undefined ? {} : { 'content-type': 'application/json' }) };
  if (token !== undefined) headers.authorization = `Bearer ${token}`;
  const response = await fetch(base + path, { method, headers, body, signal: controller.signal });
  const isProblem = response.headers.get('content-type')?.startsWith('application/problem+json');
  const detail = isProblem ? ((await response.json()) as { detail: string }).detail : '';
  controller.abort();
  return { status: response.status, detail };
}

const SERVERS = [
  ['daemon', daemonOperations, () => signet.daemonUrl],
  ['runtime', runtimeOperations, () => signet.runtimeUrl],
] as const;

test.each(SERVERS)('every operation of the %s holds every role to what it may use', async (_name, operations, url) => {
  const table: readonly Operation[] = Object.values(operations);
  expect(table.length).toBeGreaterThan(30);
  for (const operation of table) {
    for (const role of ROLES) {
      const { status, detail } = await send(url(), operation, tokens[role]);
      const wasRefused = status === 401 || (status === 403 && REFUSED.test(detail));
      expect([operation.id, role, wasRefused, status, detail]).toEqual([
        operation.id,
        role,
        !MAY_USE[role].includes(operation.role),
        status,
        detail,
      ]);
    }
  }
});

test.each(SERVERS)('no operation of the %s answers without a token, or with a wrong one', async (_name, operations, url) => {
  for (const operation of Object.values(operations) as Operation[]) {
    for (const token of [undefined, 'wrong', `${tokens.admin}x`, tokens.admin.slice(0, -1)]) {
      expect([operation.id, token, (await send(url(), operation, token)).status]).toEqual([operation.id, token, 401]);
    }
  }
});

test('nor does /mcp; only the page without content is open', async () => {
  for (const method of ['GET', 'POST', 'DELETE']) {
    const { status, headers, body } = await call(method, `${signet.daemonUrl}/mcp`);
    expect([method, status, body.code, headers.get('www-authenticate')]).toEqual([method, 401, 'unauthorized', 'Bearer']);
  }
  expect((await call('GET', `${signet.runtimeUrl}/`)).status).toBe(200);
});

test('what writes, runs commands or shows settings is nothing for readers', () => {
  const needed = (id: keyof typeof daemonOperations): Role => daemonOperations[id].role;
  for (const id of ['listSecrets', 'hasSecret', 'putSecret', 'deleteSecret', 'execWithSecrets', 'execWithSecret'] as const)
    expect([id, needed(id)]).toEqual([id, 'operator']);
  for (const id of ['listTokens', 'createToken', 'revokeToken'] as const) expect([id, needed(id)]).toEqual([id, 'admin']);
  for (const id of ['hookRemember', 'remember', 'modifyMemory', 'forgetMemory'] as const) expect([id, needed(id)]).toEqual([id, 'agent']);
  for (const id of ['listLogs', 'streamLogs', 'getConfig', 'setBypass'] as const) expect([id, needed(id)]).toEqual([id, 'operator']);
});
