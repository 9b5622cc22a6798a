import { z } from 'zod';

export type JsonSchema = { [key: string]: unknown };

/** Schemas that get a name of their own, instead of being repeated wherever they are used. */
export type NamedSchemas = Readonly<Record<string, z.ZodType>>;

/**
 * JSON Schema 2020-12 of a zod schema. `input` is what a client sends (defaults are optional), `output` what it gets.
 * Named and recursive parts stand under `$defs`; what JSON Schema cannot say becomes `{}`.
 */
export function toJsonSchema(schema: z.ZodType, io: 'input' | 'output', named: NamedSchemas = {}): JsonSchema {
  const metadata = z.registry<{ id: string }>();
  for (const [id, part] of Object.entries(named)) if (part !== schema) metadata.add(part, { id });
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    metadata,
    override: openObjects,
  }) as JsonSchema;
  return rest;
}

/** Answers gain fields over time: only objects that refuse others on purpose (`strictObject`) are closed. */
function openObjects({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodType; jsonSchema: JsonSchema }): void {
  const def = zodSchema._zod.def as { type: string; catchall?: unknown };
  if (def.type === 'object' && def.catchall === undefined) delete jsonSchema.additionalProperties;
}
