import type { z } from 'zod';
import { type JsonSchema, toJsonSchema } from './json-schema.ts';

/** What a host may assume of a tool before it asks its user. @source MCP specification, "ToolAnnotations" */
export interface McpToolHints {
  readonly readOnlyHint: boolean;
  readonly destructiveHint: boolean;
  readonly idempotentHint: boolean;
  /** It reaches beyond this workspace. */
  readonly openWorldHint: boolean;
}

/** One tool of the MCP server as data: what a model is told, and what is checked. */
export interface McpToolShape<I extends z.ZodType = z.ZodType, O extends z.ZodType = z.ZodType> {
  readonly title: string;
  readonly description: string;
  readonly input: I;
  /** Of `structuredContent`; objects are open, since answers gain fields. */
  readonly output: O;
  readonly hints: McpToolHints;
  /** Field of the output that the text of a result is made of: a list the specification promises as an array. */
  readonly list?: string;
}

/** Arguments of a tool once they are checked. */
export type McpToolInput<T extends McpToolShape> = z.output<T['input']>;
export type McpToolOutput<T extends McpToolShape> = z.output<T['output']>;

export function defineMcpTool<I extends z.ZodType, O extends z.ZodType>(shape: McpToolShape<I, O>): McpToolShape<I, O> {
  return shape;
}

export const READS: McpToolHints = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };
/** The same call again adds nothing. */
export const WRITES: McpToolHints = { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false };
export const DESTROYS: McpToolHints = { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false };

/** JSON Schema of a tool's arguments, with what each of them means. */
export function argumentsSchema(input: z.ZodType): JsonSchema {
  const schema = toJsonSchema(input, 'input') as JsonSchema & { properties?: Record<string, JsonSchema> };
  const { shape = {} } = input.def as { shape?: Readonly<Record<string, z.ZodType>> };
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const description = descriptionOf(shape[name]);
    if (description !== undefined) property.description = description;
    // Some hosts do not know it, and here it says no more than JSON does.
    delete property.propertyNames;
    // No limit of ours: only what a number can hold.
    if (property.maximum === Number.MAX_SAFE_INTEGER) delete property.maximum;
  }
  return schema;
}

/** An optional argument is described by what it is when it is there. */
function descriptionOf(schema: z.ZodType | undefined): string | undefined {
  if (schema === undefined) return undefined;
  return schema.description ?? descriptionOf((schema.def as { innerType?: z.ZodType }).innerType);
}
