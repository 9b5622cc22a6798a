import { ERRORS, type ErrorCode, Problem } from '../contract/errors.ts';
import { type JsonSchema, type NamedSchemas, toJsonSchema } from '../contract/json-schema.ts';
import { type Operation, pathFields } from '../contract/operation.ts';
import type { Operations } from '../core/operation-call.ts';

export interface OpenapiInfo {
  readonly title: string;
  readonly version: string;
  /** Output schemas that get a name under components, for readable generated clients. */
  readonly schemas?: NamedSchemas;
}

export interface OpenapiDocument {
  readonly openapi: '3.1.0';
  readonly [member: string]: unknown;
}

/** Any operation may answer these: they come from the gate and from validation, not from the handler. */
const GATE_ERRORS: readonly ErrorCode[] = ['invalid_request', 'origin_forbidden', 'host_forbidden', 'internal'];
const BODY_ERRORS: readonly ErrorCode[] = ['invalid_json', 'payload_too_large', 'unsupported_media_type'];
const TOKEN_ERRORS: readonly ErrorCode[] = ['unauthorized', 'forbidden'];

/** OpenAPI 3.1 of an operation table. Costs tens of milliseconds; keep the result. */
export function openapiDocument(operations: Operations, info: OpenapiInfo): OpenapiDocument {
  const components: Components = { schemas: {} };
  const problem = hoist(toJsonSchema(Problem, 'output'), 'Problem', components);
  components.schemas.Problem = problem;
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of Object.values(operations)) {
    const path = operation.path.replace(/:([A-Za-z]+)/g, '{$1}');
    paths[path] ??= {};
    paths[path][operation.method.toLowerCase()] = describe(operation, components, info.schemas ?? {});
  }
  return {
    openapi: '3.1.0',
    info: { title: info.title, version: info.version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    servers: [{ url: '/' }],
    security: [{}, { bearer: [] }],
    tags: [...new Set(Object.values(operations).map((operation) => operation.tag))].map((name) => ({ name })),
    paths,
    components: { schemas: components.schemas, securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
  };
}

interface Components {
  readonly schemas: Record<string, unknown>;
}

function describe(operation: Operation, components: Components, named: NamedSchemas): Record<string, unknown> {
  const name = operation.id.charAt(0).toUpperCase() + operation.id.slice(1);
  const input = hoist(toJsonSchema(operation.input, 'input'), `${name}Input`, components);
  const { parameters, body } = splitInput(operation, input);
  return {
    operationId: operation.id,
    summary: operation.summary,
    tags: [operation.tag],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body ? { requestBody: body } : {}),
    responses: { ...success(operation, name, components, named), ...failures(operation) },
    'x-role': operation.role,
    ...(operation.source ? { 'x-source': operation.source } : {}),
  };
}

interface InputParts {
  readonly parameters: Record<string, unknown>[];
  readonly body: Record<string, unknown> | undefined;
}

function splitInput(operation: Operation, input: JsonSchema): InputParts {
  const properties = (input.properties ?? {}) as Record<string, JsonSchema>;
  const required = new Set((input.required ?? []) as string[]);
  const inPath = new Set(pathFields(operation.path));
  const bodyless = operation.method === 'GET' || operation.method === 'DELETE';
  const inQuery = (name: string) => bodyless || (operation.queryFields?.includes(name) ?? false);
  const parameters: Record<string, unknown>[] = [];
  for (const name of inPath) parameters.push({ name, in: 'path', required: true, schema: properties[name] ?? { type: 'string' } });
  const rest: Record<string, JsonSchema> = {};
  for (const [name, schema] of Object.entries(properties)) {
    if (inPath.has(name)) continue;
    if (inQuery(name)) parameters.push({ name, in: 'query', required: bodyless && required.has(name), schema });
    if (!bodyless) rest[operation.wireNames?.[name] ?? name] = schema;
  }
  // A path field is required of the path alone: on the wire its name may be another field's.
  const inBody = [...required].filter((name) => !inPath.has(name)).map((name) => operation.wireNames?.[name] ?? name);
  return { parameters, body: bodyless ? undefined : requestBody(operation, input, rest, new Set(inBody)) };
}

function requestBody(
  operation: Operation,
  input: JsonSchema,
  properties: Record<string, JsonSchema>,
  required: ReadonlySet<string>,
): Record<string, unknown> | undefined {
  const isObject = input.properties !== undefined;
  if (isObject && Object.keys(properties).length === 0 && !input.additionalProperties) return undefined;
  const needed = Object.keys(properties).filter((name) => required.has(name) && !operation.queryFields?.includes(name));
  const { required: _all, ...rest } = input;
  const schema = isObject ? { ...rest, properties, ...(needed.length > 0 ? { required: needed } : {}) } : input;
  return { required: !isObject || needed.length > 0, content: { 'application/json': { schema } } };
}

function success(operation: Operation, name: string, components: Components, named: NamedSchemas): Record<string, unknown> {
  if (operation.stream === 'websocket') return { '101': { description: 'The connection becomes a WebSocket.' } };
  const status = String(operation.status ?? 200);
  if (operation.stream === 'sse')
    return { [status]: { description: 'Server-sent events.', content: { 'text/event-stream': { schema: { type: 'string' } } } } };
  if (status === '204') return { [status]: { description: 'Done.' } };
  const type = operation.contentType?.split(';', 1)[0] ?? 'application/json';
  const schema = outputSchema(operation, name, components, named);
  return { [status]: { description: operation.summary, content: { [type]: { schema } } } };
}

function outputSchema(operation: Operation, name: string, components: Components, named: NamedSchemas): JsonSchema {
  const whole = Object.entries(named).find(([, schema]) => schema === operation.output)?.[0];
  if (whole === undefined) return hoist(toJsonSchema(operation.output, 'output', named), `${name}Output`, components);
  components.schemas[whole] ??= hoist(toJsonSchema(operation.output, 'output', named), whole, components);
  return { $ref: `#/components/schemas/${whole}` };
}

function failures(operation: Operation): Record<string, unknown> {
  const codes = new Set([...operation.errors, ...GATE_ERRORS, ...TOKEN_ERRORS, ...(operation.method === 'GET' ? [] : BODY_ERRORS)]);
  const byStatus = Map.groupBy(codes, (code) => ERRORS[code].status);
  const answers: Record<string, unknown> = {};
  for (const [status, group] of [...byStatus].sort(([a], [b]) => a - b)) {
    answers[String(status)] = {
      description: group.map((code) => `\`${code}\`: ${ERRORS[code].title}.`).join(' '),
      content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
    };
  }
  return answers;
}

/** Moves `$defs` under components and turns references to the schema's own root into one to a component, so that all of them resolve. */
function hoist(schema: JsonSchema, name: string, components: Components): JsonSchema {
  const { $defs, ...root } = schema as JsonSchema & { $defs?: Record<string, JsonSchema> };
  // Generated names (`__schema0`) are unique within one schema only.
  const target = (part: string) => (part.startsWith('__') ? `${name}${part.slice(2)}` : part);
  let rootIsReferred = false;
  const move = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(move);
    if (typeof value !== 'object' || value === null) return value;
    const moved: Record<string, unknown> = {};
    for (const [key, inner] of Object.entries(value)) {
      moved[key] = key === '$ref' && typeof inner === 'string' ? refer(inner) : move(inner);
    }
    return moved;
  };
  const refer = (reference: string): string => {
    if (reference === '#') rootIsReferred = true;
    return reference === '#' ? `#/components/schemas/${name}` : `#/components/schemas/${target(reference.slice('#/$defs/'.length))}`;
  };
  for (const [part, definition] of Object.entries($defs ?? {})) components.schemas[target(part)] = move(definition);
  const moved = move(root) as JsonSchema;
  if (rootIsReferred) components.schemas[name] = moved;
  return moved;
}
