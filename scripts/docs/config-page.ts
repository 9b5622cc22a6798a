import { z } from 'zod';
import { AgentYaml } from '../../src/contract/config.ts';
import type { JsonSchema } from '../../src/contract/json-schema.ts';
import { ENVIRONMENT } from './environment.ts';
import { code, page, table } from './markdown.ts';
import { fieldsOf, typeText } from './schema-text.ts';

const INTRO = `Signet starts without any configuration. It reads, in this order of precedence: flags of the command line, environment variables,
\`agent.yaml\` in the workspace, built-in defaults.`;

const PRECEDENCE = `Each flag of \`signet start\` is one of these variables: \`--path\`, \`--host\`, \`--port\`, \`--runtime-port\`, \`--provider\`, \`--model\` and \`--log-level\`.
An empty variable counts as absent.

The provider that answers is the one named by \`SIGNET_PROVIDER\`, else by \`runtime.default\` in agent.yaml, else the first one of
\`runtime.providers\`, else the one whose key is in the environment (Anthropic before OpenAI), else the built-in offline demo.`;

const FILE = `The file is checked when Signet starts: an unknown key, a wrong type or a value out of range is refused with file, line and column, and with
the nearest valid key. A \`*\` in a key stands for a name of your own.`;

const EXAMPLE = `\`\`\`yaml
runtime:
  default: claude
  providers:
    claude: { kind: anthropic, apiKeyEnv: ANTHROPIC_API_KEY }
    local: { kind: openai-compatible, baseUrl: http://127.0.0.1:11434/v1, model: llama3.2 }
  approvals:
    - { tool: '*_write*', decision: ask }
  limits: { turnTimeoutMs: 600000 }
\`\`\``;

/** docs/configuration.md */
export function configurationPage(): string {
  const environment = ENVIRONMENT.map(({ name, value, meaning }) => [code(name), value, meaning]);
  // Not by toJsonSchema: it leaves the descriptions out, which are half of this page.
  const { rows, foreign } = flatten(z.toJSONSchema(AgentYaml, { io: 'input', unrepresentable: 'any' }) as JsonSchema, '');
  return page('Configuration', [
    INTRO,
    '## Environment variables',
    table(['Variable', 'Default', 'Meaning'], environment),
    PRECEDENCE,
    '## agent.yaml',
    FILE,
    EXAMPLE,
    table(['Key', 'Type', 'Default', 'Meaning'], rows),
    `Other Signet software keeps sections of its own in the same file; they are accepted and left alone: ${foreign.map(code).join(', ')}.`,
  ]);
}

interface Flat {
  readonly rows: string[][];
  /** Top-level keys that are taken as they are. */
  readonly foreign: string[];
}

/** Every key that holds a value, as a dotted path; lists and maps of objects go on below `[]` and `*`. */
function flatten(schema: JsonSchema, prefix: string): Flat {
  const parts = fieldsOf(schema).map(({ name, schema: field, required }): Flat => {
    const path = prefix + name;
    if (prefix === '' && Object.keys(field).length === 0) return { rows: [], foreign: [path] };
    const below = nested(field, path);
    const own = hasFields(field) ? [] : [row(path, field, below !== undefined, required)];
    return { rows: [...own, ...(below ? flatten(below.schema, below.prefix).rows : [])], foreign: [] };
  });
  return { rows: parts.flatMap((part) => part.rows), foreign: parts.flatMap((part) => part.foreign) };
}

function nested(field: JsonSchema, path: string): { schema: JsonSchema; prefix: string } | undefined {
  if (hasFields(field)) return { schema: field, prefix: `${path}.` };
  const items = field.items as JsonSchema | undefined;
  if (items && hasFields(items)) return { schema: items, prefix: `${path}[].` };
  const values = field.additionalProperties;
  if (typeof values === 'object' && values !== null && hasFields(values as JsonSchema))
    return { schema: values as JsonSchema, prefix: `${path}.*.` };
  return undefined;
}

function hasFields(schema: JsonSchema): boolean {
  return schema.type === 'object' && fieldsOf(schema).length > 0;
}

function row(path: string, field: JsonSchema, goesOn: boolean, required: boolean): string[] {
  const type = goesOn ? (field.type === 'array' ? 'list' : 'map') : typeText(field);
  const fallback = field.default === undefined ? '' : code(JSON.stringify(field.default));
  return [code(path), code(type), required ? 'required' : fallback, typeof field.description === 'string' ? field.description : ''];
}
