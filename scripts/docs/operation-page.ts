import { toJsonSchema } from '../../src/contract/json-schema.ts';
import { BODY_BYTES_MAX, type Operation, pathFields } from '../../src/contract/operation.ts';
import { code, page, table } from './markdown.ts';
import { fieldsOf, typeText } from './schema-text.ts';

/** One app's operations as a page, grouped by tag in the order of the table. */
export function operationsPage(title: string, intro: string, operations: Readonly<Record<string, Operation>>): string {
  const all = Object.values(operations);
  const overview = all.map((operation) => [code(`${operation.method} ${operation.path}`), operation.summary]);
  const groups = [...Map.groupBy(all, ({ tag }) => tag)].flatMap(([tag, group]) => [`## ${tag}`, ...group.map(operationText)]);
  return page(title, [intro, table(['Operation', 'What it does'], overview), ...groups]);
}

function operationText(operation: Operation): string {
  const { id, method, path, summary, role, errors, source, bodyBytesMax } = operation;
  const notes = [
    `id ${code(id)}`,
    `least role ${code(role)}`,
    ...(source ? [`from ${source}`] : []),
    ...(bodyBytesMax && bodyBytesMax !== BODY_BYTES_MAX ? [`body up to ${bodyBytesMax / 1_048_576} MiB`] : []),
    ...(operation.unknownFields === 'ignore' ? ['unknown fields are ignored'] : []),
  ];
  return [
    `### ${method} ${path}`,
    summary,
    `${notes.join(', ')}.`,
    inputText(operation),
    answerText(operation),
    errors.length > 0 ? `Errors: ${errors.map((name) => `[${code(name)}](../errors.md#${name})`).join(', ')}.` : '',
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

function inputText(operation: Operation): string {
  const rows = fieldsOf(toJsonSchema(operation.input, 'input')).map(({ name, schema, required }) => [
    code(operation.wireNames?.[name] ?? name),
    placeOf(operation, name),
    code(typeText(schema)),
    required ? 'required' : defaultText(schema.default),
  ]);
  return rows.length > 0 ? table(['Field', 'In', 'Type', 'Default'], rows) : '';
}

function placeOf({ method, path, queryFields }: Operation, field: string): string {
  if (pathFields(path).includes(field)) return 'path';
  return method === 'GET' || method === 'DELETE' || queryFields?.includes(field) ? 'query' : 'body';
}

function defaultText(value: unknown): string {
  return value === undefined ? '' : code(JSON.stringify(value));
}

function answerText({ output, status = 200, stream, contentType }: Operation): string {
  if (stream) return stream === 'sse' ? `Answers ${status} with a stream of server-sent events.` : 'Answers by upgrading to a WebSocket.';
  if (contentType) return `Answers ${status} with ${code(contentType)}.`;
  const schema = toJsonSchema(output, 'output');
  const fields = fieldsOf(schema);
  if (fields.length === 0) return `Answers ${status} with ${code(typeText(schema))}.`;
  const rows = fields.map((field) => [code(`${field.name}${field.required ? '' : '?'}`), code(typeText(field.schema))]);
  return [`Answers ${status}:`, table(['Field', 'Type'], rows)].join('\n\n');
}
