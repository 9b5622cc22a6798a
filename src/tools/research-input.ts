import type { ResearchInput } from '../contract/signal-spec.ts';

type Schema = Readonly<Record<string, unknown>>;

/**
 * How a tool that runs before generation is given the prompt, read from its schema: as `query` when it takes that, else as the one text it
 * requires, else as the one text it has. Other required fields get the `default`, `const` or only `enum` value of theirs. A schema that says
 * what it takes elsewhere (`$ref`, `allOf`) is given `query`.
 *
 * @returns null for `{query}` alone, or what is wrong, as a sentence behind the name of the tool
 */
export function planResearchInput(schema: Schema): ResearchInput | null | { readonly fault: string } {
  const properties = recordOf(schema.properties);
  const required = Array.isArray(schema.required) ? schema.required.filter((name) => typeof name === 'string') : [];
  const fixed = new Map(Object.entries(properties).flatMap(([name, part]) => (hasFixed(part) ? [[name, fixedOf(part)] as const] : [])));
  const open = required.filter((name) => !fixed.has(name));
  const field = textField(schema, properties, open);
  if (field === undefined) return { fault: `takes no text that the prompt could be given as; name one field "query"` };
  const missing = open.filter((name) => name !== field);
  if (missing.length > 0) {
    const fix = 'give them a default, do not require them, or leave out runBeforeGeneration';
    return { fault: `is given the prompt alone, as "${field}", and its inputSchema also requires ${missing.join(', ')}; ${fix}` };
  }
  const charsMax = recordOf(properties[field]).maxLength;
  const others = Object.fromEntries(required.flatMap((name) => (name !== field && fixed.has(name) ? [[name, fixed.get(name)]] : [])));
  if (field === 'query' && typeof charsMax !== 'number' && Object.keys(others).length === 0) return null;
  return { field, ...(typeof charsMax === 'number' ? { charsMax } : {}), ...(Object.keys(others).length > 0 ? { fixed: others } : {}) };
}

function textField(schema: Schema, properties: Schema, open: readonly string[]): string | undefined {
  const isClosed = schema.additionalProperties === false || schema.unevaluatedProperties === false;
  if ('query' in properties) return takesText(properties.query) ? 'query' : undefined;
  if (open.length === 0 && !isClosed) return 'query';
  const texts = (open.length > 0 ? open : Object.keys(properties)).filter((name) => takesText(properties[name] ?? {}));
  return texts.length === 1 ? texts[0] : open.includes('query') ? 'query' : texts.length > 1 && open.length > 0 ? texts[0] : undefined;
}

function takesText(schema: unknown): boolean {
  const { type, enum: values, const: value } = recordOf(schema);
  if (values !== undefined || value !== undefined) return false;
  return type === undefined || [type].flat().includes('string');
}

function hasFixed(schema: unknown): boolean {
  const { default: given, const: value, enum: values } = recordOf(schema);
  return given !== undefined || value !== undefined || (Array.isArray(values) && values.length === 1);
}

function fixedOf(schema: unknown): unknown {
  const { default: given, const: value, enum: values } = recordOf(schema);
  return given ?? value ?? (Array.isArray(values) ? values[0] : undefined);
}

function recordOf(value: unknown): Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}
