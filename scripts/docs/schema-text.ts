import type { JsonSchema } from '../../src/contract/json-schema.ts';

/** What zod writes for "any whole number"; no bound worth a word. */
const UNBOUNDED = Number.MAX_SAFE_INTEGER;
/** Levels of objects that are written out; deeper ones are called `object`. */
const DEPTH_MAX = 2;

export interface Field {
  readonly name: string;
  readonly schema: JsonSchema;
  readonly required: boolean;
}

/** Fields of an object schema in their order; of a union, those of all its branches. */
export function fieldsOf(schema: JsonSchema): Field[] {
  const branches = (schema.anyOf ?? schema.oneOf) as JsonSchema[] | undefined;
  if (branches) {
    const fields = branches.flatMap(fieldsOf);
    return fields
      .filter((field, index) => fields.findIndex(({ name }) => name === field.name) === index)
      .map((field) => ({ ...field, required: false }));
  }
  const required = (schema.required ?? []) as string[];
  const properties = (schema.properties ?? {}) as Record<string, JsonSchema>;
  return Object.entries(properties).map(([name, property]) => ({ name, schema: property, required: required.includes(name) }));
}

/** A schema in a few words: `integer 1..16`, `"full" | "normal"`, `string[]`, `{id: string, name?: string}`. */
export function typeText(schema: JsonSchema, depth = 0): string {
  if ('const' in schema) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const branches = (schema.anyOf ?? schema.oneOf) as JsonSchema[] | undefined;
  if (branches) return [...new Set(branches.map((branch) => typeText(branch, depth)))].join(' | ');
  const { type } = schema;
  if (Array.isArray(type)) return type.join(' | ');
  if (type === 'array') return arrayText(schema, depth);
  if (type === 'object') return objectText(schema, depth);
  if (type === 'integer' || type === 'number') return `${type}${rangeText(schema)}`;
  if (type === 'string') return textText(schema);
  return typeof type === 'string' ? type : 'any';
}

function arrayText(schema: JsonSchema, depth: number): string {
  const items = (schema.items ?? {}) as JsonSchema;
  const item = typeText(items, depth);
  const list = items.type === 'object' || !item.includes(' ') ? `${item}[]` : `(${item})[]`;
  return typeof schema.maxItems === 'number' ? `${list} (at most ${schema.maxItems})` : list;
}

function objectText(schema: JsonSchema, depth: number): string {
  const fields = fieldsOf(schema);
  if (fields.length === 0) {
    const values = schema.additionalProperties;
    const known = typeof values === 'object' && values !== null && Object.keys(values).length > 0;
    return known ? `map of ${typeText(values as JsonSchema, depth + 1)}` : 'object';
  }
  if (depth >= DEPTH_MAX) return 'object';
  return `{${fields.map(({ name, schema: field, required }) => `${name}${required ? '' : '?'}: ${typeText(field, depth + 1)}`).join(', ')}}`;
}

function rangeText({ minimum, maximum }: JsonSchema): string {
  const low = typeof minimum === 'number' && minimum > -UNBOUNDED ? minimum : undefined;
  const high = typeof maximum === 'number' && maximum < UNBOUNDED ? maximum : undefined;
  if (low !== undefined && high !== undefined) return ` ${low}..${high}`;
  if (low !== undefined) return ` >= ${low}`;
  return high === undefined ? '' : ` <= ${high}`;
}

function textText({ format, minLength, maxLength }: JsonSchema): string {
  const words = [format === undefined ? 'string' : String(format)];
  if (typeof minLength === 'number' && typeof maxLength === 'number') words.push(`of ${minLength}..${maxLength} characters`);
  else if (typeof maxLength === 'number') words.push(`of at most ${maxLength} characters`);
  return words.join(' ');
}
