import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { fieldsOf } from '../../src/contract/input-check.ts';
import { MCP_TOOLS } from '../../src/contract/mcp-tools.ts';
import type { Operation, Role } from '../../src/contract/operation.ts';
import { runtimeOperations } from '../../src/contract/runtime.ts';
import type { CallerLimit, ScopeRule } from '../../src/contract/scope.ts';
import { call } from '../conformance/calls.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

/** Stands in all that is of another agent and another project, and in nothing else. */
const CANARY = 'zqcanary';
const OWN = { agent: 'dot', project: '/work/app' };
const FOREIGN = { agent: 'rose', project: '/work/other' };
const ROLES: readonly Role[] = ['readonly', 'agent', 'operator', 'admin'];
const LIMITS: Readonly<Record<string, CallerLimit>> = { agent: { agent: OWN.agent }, project: { project: OWN.project }, both: OWN };
/** How a refusal by scope reads, whatever the operation. */
const OUT_OF_SCOPE = /^the token is for the (?:agent|project) |that this token may reach$/;
/** Everything there is: a new operation is in here by being in a table. */
const TABLE = [...Object.values(daemonOperations), ...Object.values(runtimeOperations)] as readonly Operation[];
const LONG = 240_000;
/** Fewer would mean that operations are passed over. */
const OWN_CELLS_MIN = 50;

type Owner = 'foreign' | 'unknown' | 'unnamed' | 'own';

/** A valid value of each field that an operation must have; those that an operation does not know are left out. */
const VALID: Readonly<Record<string, unknown>> = {
  query: 'harbour',
  q: 'harbour',
  reason: 'test',
  content: 'The harbour opens at six.',
  harness: 'test',
};
/** The same of one operation, where the name alone does not say what is valid. */
const VALID_OF: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  decideApproval: { decision: 'deny' },
  memoryFeedback: { feedback: {} },
  sendAgentMessage: { toAgentId: OWN.agent },
  setBypass: { enabled: true },
  similarMemories: { id: 'nothing_here' },
  trimSession: { keepTurns: 1 },
};
/** Not done to its own here: the first takes away the agent, and the tokens with it; the second needs a session of hooks for a token of a project. */
const NOT_DONE = ['deleteAgent', 'sendAgentMessage'];

let signet: Signet;
let local: string;
/** By limit and role. */
const tokens: Record<string, string> = {};
const ids = { session: '', workflow: 'other_run', key: 'foreign-key' };

const ask = (method: string, url: string, bearer: string, body?: unknown) => call(method, url, body, { authorization: `Bearer ${bearer}` });

beforeAll(async () => {
  signet = await startSignet({
    yaml: 'secrets: { keyring: false }\nauth: { mode: team, requestsPerMinute: 1000000 }\nagents: { roster: [{ name: dot }, { name: rose, read_policy: isolated }] }\n',
  });
  local = readFileSync(join(signet.folder, '.daemon', 'local-token'), 'utf8').trim();
  for (const [name, limit] of Object.entries(LIMITS))
    for (const role of ROLES)
      tokens[`${name} ${role}`] = (await ask('POST', `${signet.daemonUrl}/api/tokens`, local, { name, role, ...limit })).body.token;
  const { daemonUrl, runtimeUrl } = signet;
  const session = { agent: FOREIGN.agent, project: FOREIGN.project, sessionKey: ids.key, title: CANARY };
  ids.session = (await ask('POST', `${runtimeUrl}/session`, local, session)).body.id;
  const memory = { content: `The ${CANARY} is here.`, agentId: FOREIGN.agent, project: FOREIGN.project, scope: 'private' };
  expect((await ask('POST', `${daemonUrl}/api/memory/remember`, local, memory)).status).toBe(200);
  const run = { id: ids.workflow, project: FOREIGN.project, agents: [{ name: 'idle', activateOn: ['never:comes'], prompt: CANARY }] };
  expect((await ask('POST', `${runtimeUrl}/workflows`, local, run)).status).toBe(201);
}, LONG);
afterAll(() => signet.close());

/** The names an input has for whose it is, each led elsewhere. */
function inputOf({ scope }: Operation, owner: Owner): Record<string, unknown> {
  if (owner === 'unnamed') return {};
  const named = (fields: readonly string[] = [], value: string) => fields.map((field) => [field, value] as const);
  const isForeign = owner === 'foreign';
  return Object.fromEntries([
    ...named(scope.sessions, isForeign ? ids.session : 'ses_nobody_knows'),
    ...named(scope.workflows, isForeign ? ids.workflow : 'nobody_knows'),
    ...named(scope.keys, isForeign ? ids.key : 'never-used'),
    ...(isForeign ? fieldsIn(scope.agent).map((field) => [field, FOREIGN.agent] as const) : []),
    ...(isForeign ? fieldsIn(scope.project).map((field) => [field, FOREIGN.project] as const) : []),
  ]);
}

function fieldsIn(rule: ScopeRule): readonly string[] {
  return typeof rule === 'string' ? [] : rule;
}

/** The rule of the scope in its plainest words, kept apart from the code that is tested. */
function mustRefuse({ path, scope }: Operation, limit: CallerLimit, owner: Owner): boolean {
  const rules = [...(limit.agent === undefined ? [] : [scope.agent]), ...(limit.project === undefined ? [] : [scope.project])];
  if (rules.includes('refused')) return true;
  const names = (scope.sessions ?? []).length + (scope.workflows ?? []).length + (scope.keys ?? []).length;
  // A path names something in any case.
  const isInPath = [...(scope.sessions ?? []), ...(scope.workflows ?? []), ...(scope.keys ?? [])].some((field) =>
    path.includes(`:${field}`),
  );
  if (owner === 'unnamed') return rules.includes('owner') && !isInPath;
  if (owner === 'foreign') return names > 0 || rules.some((rule) => typeof rule !== 'string');
  const unknown = names - (scope.unusedKeys === 'free' ? (scope.keys ?? []).length : 0);
  return unknown > 0;
}

async function send(operation: Operation, bearer: string, given: Record<string, unknown>): Promise<{ status: number; detail: string }> {
  const { names } = fieldsOf(operation.input);
  const inPath = [...operation.path.matchAll(/:([A-Za-z]+)/g)].map((match) => match[1]!);
  const fields = Object.fromEntries(Object.entries({ ...VALID, ...VALID_OF[operation.id], ...given }).filter(([name]) => names.has(name)));
  const path = operation.path.replace(/:([A-Za-z]+)/g, (_all, name: string) => encodeURIComponent(String(fields[name] ?? 'nothing_here')));
  const rest = Object.fromEntries(Object.entries(fields).filter(([name]) => !inPath.includes(name))) as Record<string, string>;
  const hasBody = operation.method !== 'GET' && operation.method !== 'DELETE';
  const isDaemon = operation.id in daemonOperations;
  const controller = new AbortController();
  const response = await fetch(
    `${isDaemon ? signet.daemonUrl : signet.runtimeUrl}${path}${hasBody ? '' : `?${new URLSearchParams(rest)}`}`,
    {
      method: operation.method,
      headers: { authorization: `Bearer ${bearer}`, ...(hasBody ? { 'content-type': 'application/json' } : {}) },
      ...(hasBody ? { body: JSON.stringify(rest) } : {}),
      signal: controller.signal,
    },
  );
  const isProblem = response.headers.get('content-type')?.startsWith('application/problem+json');
  const detail = isProblem ? ((await response.json()) as { detail: string }).detail : '';
  controller.abort();
  return { status: response.status, detail };
}

test.each(Object.keys(LIMITS))(
  'a token limited by %s reaches nothing of others by any operation',
  async (name) => {
    const limit = LIMITS[name]!;
    let cells = 0;
    const bad: string[] = [];
    for (const operation of TABLE) {
      for (const role of ROLES) {
        for (const owner of ['foreign', 'unknown', 'unnamed'] as const) {
          const given = inputOf(operation, owner);
          const mayUse = ROLES.indexOf(role) >= ROLES.indexOf(operation.role);
          // What a limited token may do for its own is done elsewhere: here nothing is to happen.
          if (mayUse && !mustRefuse(operation, limit, owner)) continue;
          // Fields of its own are checked before whose they are: an input that is not valid is refused as well.
          const { status, detail } = await send(operation, tokens[`${name} ${role}`]!, given);
          const isRefused = mayUse ? OUT_OF_SCOPE.test(detail) : status === 403;
          if (!isRefused) bad.push([operation.id, role, owner, status, detail].join(' | '));
          cells += 1;
        }
      }
    }
    expect(bad).toEqual([]);
    expect(cells).toBeGreaterThan(TABLE.length * 4);
    console.info(`limit ${name}: ${cells} cells refused`);
  },
  LONG,
);

/** All that names something names what is the token's own. */
async function ownInput({ scope }: Operation): Promise<Record<string, unknown>> {
  const name = (fields: readonly string[] = [], value: string) => fields.map((field) => [field, value] as const);
  const key = `own_${crypto.randomUUID().slice(0, 8)}`;
  const session = { agent: OWN.agent, project: OWN.project, sessionKey: key };
  const needsSession = scope.sessions !== undefined || scope.keys !== undefined;
  const id = needsSession ? (await ask('POST', `${signet.runtimeUrl}/session`, local, session)).body.id : '';
  if (scope.workflows !== undefined) {
    const run = { id: key, project: OWN.project, agents: [{ name: 'idle', activateOn: ['never:comes'], prompt: 'x' }] };
    expect((await ask('POST', `${signet.runtimeUrl}/workflows`, local, run)).status).toBe(201);
  }
  return Object.fromEntries([
    ...name(scope.sessions, id),
    ...name(scope.workflows, key),
    ...name(scope.keys, key),
    ...name(fieldsIn(scope.agent), OWN.agent),
    ...name(fieldsIn(scope.project), OWN.project),
  ]);
}

test.each(Object.keys(LIMITS))(
  'a token limited by %s reaches its own by every operation that is not over all of them',
  async (name) => {
    const limit = LIMITS[name]!;
    const bad: string[] = [];
    let cells = 0;
    for (const operation of TABLE) {
      const { scope } = operation;
      const rules = [...(limit.agent === undefined ? [] : [scope.agent]), ...(limit.project === undefined ? [] : [scope.project])];
      if (NOT_DONE.includes(operation.id) || rules.includes('refused') || rules.every((rule) => rule === 'neutral')) continue;
      for (const role of ROLES.slice(ROLES.indexOf(operation.role))) {
        const { status, detail } = await send(operation, tokens[`${name} ${role}`]!, await ownInput(operation));
        cells += 1;
        if (status === 403 || OUT_OF_SCOPE.test(detail) || status >= 500) bad.push([operation.id, role, status, detail].join(' | '));
      }
    }
    expect(bad).toEqual([]);
    expect(cells).toBeGreaterThan(OWN_CELLS_MIN);
    console.info(`limit ${name}: ${cells} cells of its own allowed`);
  },
  LONG,
);

test.each(Object.keys(LIMITS))(
  'nor does one limited by %s reach it by a tool of MCP',
  async (name) => {
    for (const [tool, { input }] of Object.entries(MCP_TOOLS)) {
      const { names } = fieldsOf(input);
      const foreign = {
        agent_id: FOREIGN.agent,
        from_agent_id: FOREIGN.agent,
        session_key: ids.key,
        from_session_key: ids.key,
        project: FOREIGN.project,
      };
      const given = Object.fromEntries(Object.entries(foreign).filter(([field]) => names.has(field)));
      const more = {
        query: CANARY,
        content: 'x',
        id: 'x',
        reason: 'test',
        enabled: true,
        ratings: {},
        source: 'x',
        to_agent_id: 'dot',
        command: 'true',
        secrets: {},
      };
      const args = { ...Object.fromEntries(Object.entries(more).filter(([field]) => names.has(field))), ...given };
      const answer = await call(
        'POST',
        `${signet.daemonUrl}/mcp`,
        { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: args } },
        { authorization: `Bearer ${tokens[`${name} admin`]}`, accept: 'application/json, text/event-stream' },
      );
      const text = JSON.stringify(answer.body);
      expect([tool, text.replaceAll(`query":"${CANARY}`, '').includes(CANARY)]).toEqual([tool, false]);
      if (Object.keys(given).length > 0) expect([tool, answer.body.result?.isError, text]).toEqual([tool, true, text]);
    }
  },
  LONG,
);
