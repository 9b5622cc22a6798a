import { afterAll, beforeAll, expect, test } from 'vitest';
import { call } from '../conformance/calls.ts';
import { rawRequest } from '../helpers/raw-http.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

let signet: Signet;
beforeAll(async () => {
  signet = await startSignet();
});
afterAll(() => signet.close());

/** Every route of one session, with a body that fits. */
const ROUTES: readonly (readonly [string, string, object?])[] = [
  ['GET', ''],
  ['PATCH', '', { title: 'x' }],
  ['DELETE', ''],
  ['POST', '/prompt', { content: 'hello' }],
  ['POST', '/steer', { content: 'hello' }],
  ['POST', '/abort', {}],
  ['POST', '/compact', {}],
  ['POST', '/resume', {}],
  ['POST', '/bypass', { enabled: true }],
  ['POST', '/fork', { at: 1 }],
  ['GET', '/messages'],
  ['GET', '/events'],
  ['GET', '/state'],
  ['GET', '/stream'],
  ['GET', '/verify'],
  ['GET', '/export'],
  ['GET', '/wait'],
];
const IDS = ['nope', 'NOPE-NOPE', 'ses_abcdefghijklmnopqrst', 'a.b', 'no such session', 'ses:1', 'x'.repeat(128)];

test.each(IDS)('a session called %j that is not there is 404 on every route', async (id) => {
  const answers = await Promise.all(
    ROUTES.map(async ([method, path, body]) => {
      const { status, body: problem } = await call(
        method,
        `${signet.runtimeUrl}/session/${encodeURIComponent(id).replaceAll('.', '%2E')}${path}`,
        body,
      );
      return [method, path, status, problem.code];
    }),
  );
  const known = answers.filter(([, , , code]) => code !== 'not_found');
  expect(known.length).toBeGreaterThan(10);
  for (const answer of known) expect(answer).toEqual([answer[0], answer[1], 404, 'session_not_found']);
});

test.each(['x'.repeat(129), 'a%00b', 'a%0Ab'])('what can be no id is refused as such: %j', async (id) => {
  expect(await call('GET', `${signet.runtimeUrl}/session/${id}`)).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
});

test('GET /ws without an upgrade says that only a WebSocket is answered there, and the document of the API says so', async () => {
  const answer = await rawRequest(Number(new URL(signet.runtimeUrl).port), { path: '/ws' });
  expect(answer.status).toBe(426);
  expect(answer.headers.upgrade).toBe('websocket');
  expect(answer.json()).toMatchObject({ status: 426, code: 'upgrade_required', detail: expect.stringContaining('/ws is a WebSocket') });
  const { body } = await call('GET', `${signet.runtimeUrl}/openapi.json`);
  expect(Object.keys(body.paths['/ws'].get.responses)).toEqual(expect.arrayContaining(['101', '426']));
});
