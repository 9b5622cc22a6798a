/** How deep a schema is followed; a schema that refers to itself ends here. */
const DEPTH_MAX = 16;
/** Items of an array at most, whatever minItems says. */
const ITEMS_MAX = 16;

type Schema = Readonly<Record<string, unknown>>;

/** The smallest value that fits a JSON Schema, as far as types, enums, required fields, references and least lengths go. Deterministic. */
export function minimalValue(schema: unknown, root: unknown = schema, depth = 0): unknown {
  if (typeof schema !== 'object' || schema === null || depth > DEPTH_MAX) return null;
  const node = schema as Schema;
  if (typeof node.$ref === 'string') return minimalValue(resolve(node.$ref, root), root, depth + 1);
  if ('const' in node) return node.const;
  if ('default' in node) return node.default;
  if (Array.isArray(node.enum)) return node.enum[0];
  const choice = firstOf(node.anyOf) ?? firstOf(node.oneOf);
  if (choice !== undefined) return minimalValue(choice, root, depth + 1);
  if (Array.isArray(node.allOf)) return minimalValue(merge(node, node.allOf, root), root, depth + 1);
  return valueOfType(node, root, depth);
}

function valueOfType(node: Schema, root: unknown, depth: number): unknown {
  const type = Array.isArray(node.type) ? node.type[0] : (node.type ?? (node.properties ? 'object' : 'null'));
  switch (type) {
    case 'object':
      return minimalObject(node, root, depth);
    case 'array': {
      const count = Math.min(Number(node.minItems ?? 0), ITEMS_MAX);
      return Array.from({ length: count }, () => minimalValue(node.items, root, depth + 1));
    }
    case 'string':
      return minimalText(node);
    case 'integer':
    case 'number':
      return minimalNumber(node);
    case 'boolean':
      return false;
    default:
      return null;
  }
}

function minimalObject(node: Schema, root: unknown, depth: number): Record<string, unknown> {
  const properties = (node.properties ?? {}) as Schema;
  const required = Array.isArray(node.required) ? node.required.filter((name) => typeof name === 'string') : [];
  return Object.fromEntries(required.map((name) => [name, minimalValue(properties[name] ?? { type: 'string' }, root, depth + 1)]));
}

function minimalText(node: Schema): string {
  const samples: Readonly<Record<string, string>> = {
    'date-time': '2026-01-01T00:00:00Z',
    date: '2026-01-01',
    time: '00:00:00Z',
    email: 'demo@example.com',
    uri: 'https://example.com/',
    uuid: '00000000-0000-4000-8000-000000000000',
  };
  const sample = samples[String(node.format)] ?? 'demo';
  const shortest = Number(node.minLength ?? 0);
  const longest = Number(node.maxLength ?? Number.POSITIVE_INFINITY);
  return sample.padEnd(shortest, '.').slice(0, longest);
}

function minimalNumber(node: Schema): number {
  const least = typeof node.minimum === 'number' ? node.minimum : undefined;
  const above = typeof node.exclusiveMinimum === 'number' ? Math.floor(node.exclusiveMinimum) + 1 : undefined;
  const most = typeof node.maximum === 'number' ? node.maximum : Number.POSITIVE_INFINITY;
  const value = Math.min(Math.max(least ?? 0, above ?? least ?? 0, 0), most);
  return node.type === 'integer' ? Math.ceil(value) : value;
}

function merge(node: Schema, parts: readonly unknown[], root: unknown): Schema {
  const { allOf: _allOf, ...rest } = node;
  const all = [
    rest,
    ...parts.map((part) => (typeof (part as Schema)?.$ref === 'string' ? resolve((part as Schema).$ref as string, root) : part)),
  ];
  const merged: Record<string, unknown> = {};
  const properties: Record<string, unknown> = {};
  const required: unknown[] = [];
  for (const part of all) {
    const { properties: own, required: needed, ...fields } = (part ?? {}) as Record<string, unknown>;
    Object.assign(merged, fields);
    Object.assign(properties, own);
    if (Array.isArray(needed)) required.push(...needed);
  }
  return { ...merged, properties, required };
}

function firstOf(value: unknown): unknown {
  return Array.isArray(value) ? value[0] : undefined;
}

/** `#/$defs/name` inside the root schema. */
function resolve(ref: string, root: unknown): unknown {
  if (!ref.startsWith('#')) return undefined;
  const path = ref.split('/').slice(1);
  return path.reduce<unknown>(
    (node, key) => (node as Schema | undefined)?.[decodeURIComponent(key.replaceAll('~1', '/').replaceAll('~0', '~'))],
    root,
  );
}
