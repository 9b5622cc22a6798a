import { readWorkspaceText } from './identity.ts';

/** A longer schema is refused; unit: bytes. */
const SCHEMA_BYTES_MAX = 65_536;

export interface OutputSchemaRead {
  readonly schema?: Readonly<Record<string, unknown>>;
  /** Why there is none, to be said behind the path. */
  readonly problem?: string;
}

/** The JSON Schema of an agent's output from a file of the workspace. */
export function readOutputSchema(folder: string, path: string): OutputSchemaRead {
  const { text, problem } = readWorkspaceText(folder, path);
  if (text === undefined || problem !== undefined)
    return { problem: problem ?? 'is no file with text in the workspace; write the schema there' };
  const bytes = Buffer.byteLength(text);
  if (bytes > SCHEMA_BYTES_MAX) return { problem: `has ${bytes} bytes; a schema may have ${SCHEMA_BYTES_MAX}` };
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    return { problem: `is not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
  const isObject = typeof schema === 'object' && schema !== null && 'type' in schema && schema.type === 'object';
  return isObject ? { schema: schema as Record<string, unknown> } : { problem: 'must hold a JSON Schema with "type": "object"' };
}
