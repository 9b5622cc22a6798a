import type { FastifyReply, FastifyRequest } from 'fastify';
import { checkInput, fieldsOf, type InputFault, jsonPointer, refusal } from '../contract/input-check.ts';
import { type Operation, pathFields } from '../contract/operation.ts';
import { AppError } from '../core/errors.ts';
import type { Authentication } from './auth.ts';
import type { UnreadAnswers } from './unread-answers.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Reads the flat, validated input of one operation out of a request. Throws AppError `invalid_request`. */
export function createInputReader(operation: Operation, auth?: Pick<Authentication, 'narrow'>): (request: FastifyRequest) => unknown {
  const path = pathFields(operation.path);
  const queryIsInput = operation.method === 'GET' || operation.method === 'DELETE';
  const queryFields = new Set(operation.queryFields ?? []);
  const strict = operation.unknownFields !== 'ignore';
  const takesToken = fieldsOf(operation.input).names.has('token');
  return (request) => {
    const input: Record<string, unknown> = {};
    const faults: InputFault[] = [];
    readQuery(request.query as Fields, input, faults, queryIsInput ? undefined : queryFields, strict);
    // It was the gate's, and stands in the query only because browsers have no other place for it.
    if (operation.stream && !takesToken) delete input.token;
    readBody(request.body, input, faults, operation);
    if (path.length > 0) readPath(request.params as Fields, path, input, faults, strict);
    if (faults.length > 0) throw invalid(refusal(faults));
    auth?.narrow(operation, request, input);
    const checked = checkInput(operation, input);
    if (!checked.ok) throw invalid(checked);
    return checked.value;
  };
}

function invalid(refused: { readonly detail: string; readonly errors: readonly InputFault[] }): AppError {
  return new AppError('invalid_request', { detail: refused.detail, errors: refused.errors });
}

/** @param taken  fields a query may hold beside a body; undefined when the query is the input */
function readQuery(
  query: Fields,
  input: Record<string, unknown>,
  faults: InputFault[],
  taken: Set<string> | undefined,
  strict: boolean,
): void {
  for (const name of Object.keys(query)) {
    if (name === '__proto__') faults.push({ pointer: jsonPointer([name]), detail: '__proto__ cannot be a field' });
    else if (taken === undefined || taken.has(name)) input[name] = query[name];
    else if (strict)
      faults.push({ pointer: jsonPointer([name]), detail: `the query field ${name} is not known here; send fields in the body` });
  }
}

function readBody(body: unknown, input: Record<string, unknown>, faults: InputFault[], operation: Operation): void {
  if (body === undefined) return;
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    const kind = body === null ? 'null' : Array.isArray(body) ? 'an array' : `a ${typeof body}`;
    faults.push({ pointer: '', detail: `the body must be a JSON object, not ${kind}` });
    return;
  }
  const known = fieldsOf(operation.input);
  const fields = fieldNames(operation);
  for (const [wireName, value] of Object.entries(body)) {
    const name = fields.get(wireName) ?? wireName;
    if (name in input && known.names.has(name) && operation.queryFields?.includes(name) && input[name] !== value)
      faults.push({ pointer: jsonPointer([name]), detail: `${name} is in the query and in the body, with different values` });
    else input[name] = value;
  }
}

/** Field by the name it has on the wire, where the two differ. */
function fieldNames({ wireNames = {} }: Operation): ReadonlyMap<string, string> {
  return new Map(Object.entries(wireNames).map(([field, wireName]) => [wireName, field]));
}

/** The path wins: nothing in a body can point an operation at another record. */
function readPath(params: Fields, path: readonly string[], input: Record<string, unknown>, faults: InputFault[], strict: boolean): void {
  for (const name of path) {
    const value = params[name];
    if (strict && Object.hasOwn(input, name) && String(input[name]) !== value)
      faults.push({
        pointer: jsonPointer([name]),
        detail: `${name} is part of the path and cannot be another value elsewhere; leave it out`,
      });
    input[name] = value;
  }
}

/** Answer what a handler returned: JSON, text of the operation's own type, or 204 for nothing. @throws AppError `overloaded` */
export function sendAnswer(operation: Operation, answer: unknown, reply: FastifyReply, unread: UnreadAnswers): FastifyReply {
  if (answer === undefined) return reply.code(204).send();
  const isJson = operation.contentType === undefined;
  // In bytes already: what is counted is what is held.
  const bytes = Buffer.from(isJson ? JSON.stringify(answer) : String(answer));
  unread.holdAnswer(reply.raw, bytes.length);
  return reply.type(operation.contentType ?? 'application/json; charset=utf-8').send(bytes);
}
