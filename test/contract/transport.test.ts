import { expect, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import type { Operation } from '../../src/contract/operation.ts';
import { serveDaemon } from '../helpers/daemon-server.ts';
import { rawRequest } from '../helpers/raw-http.ts';

const OPERATIONS: Operation[] = Object.values(daemonOperations);
const pathOf = (operation: Operation): string => operation.path.replace(/:\w+/g, 'x');
const JSON_TYPE = { 'content-type': 'application/json' };

test('broken JSON is answered 400 on every route that takes a body', async () => {
  const { port } = await serveDaemon();
  for (const operation of OPERATIONS.filter(({ method }) => method !== 'GET')) {
    const answer = await rawRequest(port, {
      method: operation.method,
      path: pathOf(operation),
      headers: JSON_TYPE,
      body: '{"harness": "x",',
    });
    expect([operation.id, answer.status, answer.json().code]).toEqual([operation.id, 400, 'invalid_json']);
  }
});

test('a text body is refused 415 on every route that takes one', async () => {
  const { port } = await serveDaemon();
  for (const operation of OPERATIONS.filter(({ method }) => method !== 'GET')) {
    const headers = { 'content-type': 'text/plain' };
    const answer = await rawRequest(port, { method: operation.method, path: pathOf(operation), headers, body: '{}' });
    expect([operation.id, answer.status]).toEqual([operation.id, 415]);
  }
});

test('no web page of another origin gets in, nor a name that was bent to this address, nor a body without its type', async () => {
  const { port } = await serveDaemon();
  const body = '{"content":"planted"}';
  const post = (headers: Record<string, string>) => rawRequest(port, { method: 'POST', path: '/api/memory/remember', headers, body });
  expect((await post({ ...JSON_TYPE, origin: 'https://evil.example' })).json().code).toBe('origin_forbidden');
  expect((await post({ ...JSON_TYPE, 'sec-fetch-site': 'cross-site' })).json().code).toBe('origin_forbidden');
  expect((await post({ ...JSON_TYPE, host: 'evil.example' })).json().code).toBe('host_forbidden');
  expect((await post({ origin: `http://127.0.0.1:${port}` })).status).toBe(415);
  const { memories } = (await rawRequest(port, { path: '/api/memories' })).json() as { memories: unknown[] };
  expect(memories).toEqual([]);
  // Hook commands in the wild send no type at all.
  expect((await rawRequest(port, { method: 'POST', path: '/api/hooks/session-start', body: '{"harness":"x"}' })).status).toBe(200);
});

test('a readonly token reads and writes nothing, on every route; without a token nothing is answered', async () => {
  const { port } = await serveDaemon({ tokens: { reader: 'readonly', owner: 'admin' } });
  for (const operation of OPERATIONS.filter((candidate) => candidate.stream === undefined)) {
    const request = { method: operation.method, path: pathOf(operation), headers: JSON_TYPE };
    expect([operation.id, (await rawRequest(port, request)).status]).toEqual([operation.id, 401]);
    const answer = await rawRequest(port, { ...request, headers: { ...JSON_TYPE, authorization: 'Bearer reader' } });
    const isForbidden = answer.status === 403;
    expect([operation.id, isForbidden]).toEqual([operation.id, operation.role !== 'readonly']);
    if (operation.role === 'readonly') expect([operation.id, ['GET', 'POST'].includes(operation.method)]).toEqual([operation.id, true]);
  }
  const stream = await rawRequest(port, { path: '/api/logs/stream?token=reader' });
  expect(stream.status).toBe(403);
});
