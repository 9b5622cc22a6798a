import { expect, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { type Operation, pathFields, type Role } from '../../src/contract/operation.ts';
import { runtimeOperations } from '../../src/contract/runtime.ts';
import { startGuarded } from '../helpers/auth-rig.ts';
import { createRandom } from '../helpers/seeded-random.ts';

const ROLES: readonly Role[] = ['readonly', 'agent', 'operator', 'admin'];
/** Random inputs for each operation and role. */
const INPUTS = process.env.SOAK ? 50 : 1;
const SEED = Number(process.env.FUZZ_SEED ?? 20_261_122);
const YAML = 'auth: { mode: team, requestsPerMinute: 1000000, failuresPerMinute: 10000 }\n';
const ODD: readonly unknown[] = [
  null,
  '',
  'x',
  '../../etc/passwd',
  -1,
  1e308,
  true,
  [],
  {},
  'a'.repeat(5_000),
  '\u0000',
  '\ud800',
  { $ref: '#' },
  [[[[]]]],
];

test('no role reaches more than its operations, whatever is sent; nothing fails by a fault of ours', async () => {
  const rig = await startGuarded(YAML);
  const random = createRandom(SEED);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!;
  const tokens = new Map<Role, string>();
  for (const role of ROLES) tokens.set(role, (await rig.makeToken({ role })).token);
  const tables = [
    { baseUrl: rig.daemonUrl, operations: Object.values(daemonOperations as Record<string, Operation>) },
    { baseUrl: rig.runtimeUrl, operations: Object.values(runtimeOperations as Record<string, Operation>) },
  ];
  const holes: string[] = [];
  let [cells, calls] = [0, 0];

  for (const { baseUrl, operations } of tables) {
    const document = (await rig.ask('GET', `${baseUrl}/openapi.json`, rig.localToken)).body;
    const listed = Object.values(document.paths as Record<string, object>).flatMap((path) =>
      Object.values(path).map(({ operationId }) => operationId),
    );
    expect(operations.filter(({ id }) => !listed.includes(id)).map(({ id }) => id)).toEqual([]);
    for (const operation of operations)
      for (const role of [undefined, ...ROLES]) {
        cells += 1;
        for (let input = 0; input < INPUTS; input += 1) {
          const path = pathFields(operation.path).reduce(
            (text, name) => text.replace(`:${name}`, encodeURIComponent(String(pick(['x', '..%2f', '%00', 'a'.repeat(300)])))),
            operation.path,
          );
          const hasBody = operation.method !== 'GET' && operation.method !== 'DELETE';
          const body = hasBody ? JSON.stringify(Object.fromEntries(fieldNames(operation).map((name) => [name, pick(ODD)]))) : undefined;
          const response = await fetch(`${baseUrl}${path}`, {
            method: operation.method,
            headers: {
              ...(role ? { authorization: `Bearer ${tokens.get(role)}` } : {}),
              ...(hasBody ? { 'content-type': 'application/json' } : {}),
            },
            ...(body === undefined ? {} : { body }),
          });
          await response.body?.cancel();
          calls += 1;
          const isEnough = role !== undefined && ROLES.indexOf(role) >= ROLES.indexOf(operation.role);
          const { status } = response;
          if (role === undefined && status !== 401) holes.push(`${operation.id} without a token: ${status}`);
          if (role !== undefined && !isEnough && status !== 403) holes.push(`${operation.id} as ${role}: ${status}`);
          if (isEnough && status === 401) holes.push(`${operation.id} as ${role}: ${status}, although it may`);
          if (status === 500) holes.push(`${operation.id} as ${role}: 500, body ${body?.slice(0, 200)}`);
        }
      }
  }
  console.info(`fuzz: seed ${SEED}, ${cells} cells of role and operation, ${calls} calls, ${holes.length} holes`);
  expect(holes).toEqual([]);
}, 300_000);

function fieldNames({ input }: Operation): string[] {
  const shape = (input as { shape?: Record<string, unknown> }).shape;
  return shape ? Object.keys(shape) : ['content', 'id', 'query'];
}
