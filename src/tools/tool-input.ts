import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { AppError, isAppError } from '../core/errors.ts';
import { withinCpu } from './cpu-bound.ts';

/** Faults named in one answer; a model that misread the schema needs the first few, not all. */
const FAULTS_NAMED_MAX = 8;
/** Longest schema that is accepted, in characters of JSON: compiling costs time and memory of the whole process. */
export const SCHEMA_CHARS_MAX = 100_000;
/** Most objects and lists in a schema that is accepted: compiling takes up to their square, measured 0.5 to 2 s of CPU for so many. */
export const SCHEMA_PARTS_MAX = 2_000;
/** Deepest nesting of a schema that is accepted, in objects and lists: compiling goes down as deep on the stack, which overflows at about 400. */
export const SCHEMA_DEPTH_MAX = 128;
/**
 * CPU of one check of an input: a pattern tries ways to match, items are compared in pairs, each item by each part of a schema. The code of a
 * check is compiled by V8 in its first run, measured 0.1 s for the largest schema. Unit: milliseconds.
 */
const CHECK_CPU_MS_MAX = 500;

const OPTIONS: Options = {
  strict: false,
  allErrors: true,
  verbose: true,
  validateFormats: false,
  // Schemas of strangers may share an `$id`; none may refer to another's.
  addUsedSchema: false,
  // A definition that is written out wherever it is referred to makes gigabytes of a schema of 100 KB.
  inlineRefs: false,
  logger: false,
};

export interface InputFault {
  /** JSON pointer into the input; empty for the input itself. */
  readonly pointer: string;
  /** What is wrong and what would be right. */
  readonly detail: string;
}

type Schema = Readonly<Record<string, unknown>>;

/** Faults of an input, at most FAULTS_NAMED_MAX; empty when it fits. Never throws. */
export type InputCheck = (input: unknown) => InputFault[];

/** Whose schema it is, and where it stands in a request. */
interface Field {
  readonly name: string;
  readonly pointer: string;
}

const inputField = (toolName: string): Field => ({ name: `inputSchema of tool ${toolName}`, pointer: '/inputSchema' });
const OUTPUT_FIELD: Field = { name: 'output.schema', pointer: '/output/schema' };

/**
 * Compile the JSON Schema of a tool that is about to be accepted. The dialect is the one `$schema` names; without it 2020-12, then draft 7
 * when the schema is none of 2020-12. Formats are not checked: they are hints for the model. What is accepted depends on the schema alone,
 * not on how long this takes.
 *
 * @throws AppError `invalid_request` when it is not a schema of type object, refers outside itself, or is too long, too large or too deep
 */
export function compileInputCheck(toolName: string, schema: Schema): InputCheck {
  requireAcceptable(inputField(toolName), schema);
  return compileSchema(inputField(toolName), schema);
}

/** The same for the schema of an answer. */
export function compileOutputCheck(schema: Schema): InputCheck {
  requireAcceptable(OUTPUT_FIELD, schema);
  return compileSchema(OUTPUT_FIELD, schema);
}

/** The bounds of `compileInputCheck` alone; whether it is a schema shows when it is compiled. @throws AppError `invalid_request` */
export function requireInputBounds(toolName: string, schema: Schema): void {
  requireAcceptable(inputField(toolName), schema);
}

/** Compile a schema that was accepted before: no bound of today refuses it. @throws AppError `tool_failed` when it cannot be compiled */
export function compileAcceptedInput(toolName: string, schema: Schema): InputCheck {
  return accepted(inputField(toolName), schema);
}

/** The same for the schema of an answer, of a prompt that stands in the log. */
export function compileAcceptedOutput(schema: Schema): InputCheck {
  return accepted(OUTPUT_FIELD, schema);
}

function accepted(field: Field, schema: Schema): InputCheck {
  try {
    return compileSchema(field, schema);
  } catch (error) {
    throw new AppError('tool_failed', { detail: isAppError(error) ? error.detail : String(error), cause: error });
  }
}

function requireAcceptable(field: Field, schema: Schema): void {
  if (schema.type !== 'object') throw refused(field, 'must have "type": "object"');
  if ('$async' in schema) throw refused(field, 'must not be asynchronous; remove $async');
  const chars = JSON.stringify(schema).length;
  if (chars > SCHEMA_CHARS_MAX) throw refused(field, `has ${chars} characters of JSON, more than ${SCHEMA_CHARS_MAX}; shorten it`);
  const { parts, depth } = measure(schema);
  if (depth > SCHEMA_DEPTH_MAX) {
    throw refused(field, `is nested ${depth} levels deep, deeper than ${SCHEMA_DEPTH_MAX}; move inner parts to $defs and refer to them`);
  }
  if (parts > SCHEMA_PARTS_MAX) {
    throw refused(field, `has ${parts} objects and lists, more than ${SCHEMA_PARTS_MAX}; leave out what a model does not need`);
  }
}

/** Objects and lists in a value, itself included, and how deep they are nested. The value is a tree, as JSON makes it. */
function measure(schema: Schema): { readonly parts: number; readonly depth: number } {
  let [parts, depth] = [0, 0];
  for (let level: object[] = [schema]; level.length > 0; depth += 1) {
    parts += level.length;
    level = level.flatMap((part) => Object.values(part).filter((value) => typeof value === 'object' && value !== null));
  }
  return { parts, depth };
}

function compileSchema(field: Field, schema: Schema): InputCheck {
  let validate: ValidateFunction;
  try {
    validate = compile(schema);
  } catch (error) {
    throw refused(field, `is not a valid JSON Schema: ${error instanceof Error ? error.message : String(error)}`, error);
  }
  const check = (input: unknown) => (validate(input) ? [] : faultsOf(validate.errors ?? []));
  return (input) => {
    try {
      return withinCpu(CHECK_CPU_MS_MAX, () => check(input))?.value ?? [CHECK_TOO_LONG];
    } catch (error) {
      if (error instanceof RangeError) return [TOO_DEEP];
      throw error;
    }
  };
}

function refused({ name, pointer }: Field, why: string, cause?: unknown): AppError {
  return new AppError('invalid_request', { detail: `${name} ${why}`, errors: [{ pointer, detail: why }], cause });
}

const TOO_DEEP: InputFault = { pointer: '', detail: 'is nested too deeply for its schema; send less deep values' };
const CHECK_TOO_LONG: InputFault = {
  pointer: '',
  detail: `could not be checked with ${CHECK_CPU_MS_MAX} ms of CPU; send less, or have the patterns of the schema simplified`,
};

function compile(schema: Schema): ValidateFunction {
  const { $schema: dialect, ...plain } = schema;
  if (typeof dialect === 'string' && /draft-0[3-7]/.test(dialect)) return compileWith(draft7(), plain);
  try {
    return compileWith(draft2020(), plain);
  } catch (error) {
    if (dialect !== undefined) throw error;
    try {
      return compileWith(draft7(), plain);
    } catch {
      throw error; // Neither dialect fits; the newer one's reason is the one to read.
    }
  }
}

/** Of a schema that names none. */
const OWN_ID = 'urn:signet:schema';

let draft2020Instance: Ajv | undefined;
let draft7Instance: Ajv | undefined;

/** Made at first use: a start without tools of others needs neither. */
function draft2020(): Ajv {
  draft2020Instance ??= new Ajv2020(OPTIONS);
  return draft2020Instance;
}

function draft7(): Ajv {
  draft7Instance ??= new Ajv(OPTIONS);
  return draft7Instance;
}

function compileWith(ajv: Ajv, schema: Schema): ValidateFunction {
  // Without an id of its own Ajv does not find what `#` refers to.
  const named = '$id' in schema ? { ...schema } : { $id: OWN_ID, ...schema };
  try {
    return ajv.compile(named);
  } finally {
    ajv.removeSchema(named); // The compiled function is all that is needed; the instance would keep the schema for good.
  }
}

function faultsOf(errors: readonly ErrorObject[]): InputFault[] {
  return errors.slice(0, FAULTS_NAMED_MAX).map(faultOf);
}

function faultOf(error: ErrorObject): InputFault {
  const { instancePath, keyword, params, parentSchema, data } = error;
  const known = propertiesOf(parentSchema);
  switch (keyword) {
    case 'required': {
      const field = String(params.missingProperty);
      return { pointer: `${instancePath}/${escaped(field)}`, detail: `is missing; give ${expected(known[field])}` };
    }
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const field = String(params.additionalProperty ?? params.unevaluatedProperty);
      const names = Object.keys(known).join(', ') || 'none';
      return { pointer: `${instancePath}/${escaped(field)}`, detail: `is not a field here; leave it out (fields: ${names})` };
    }
    case 'type':
      return { pointer: instancePath, detail: `must be ${[params.type].flat().join(' or ')}, not ${kindOf(data)}` };
    case 'enum':
      return {
        pointer: instancePath,
        detail: `must be one of ${params.allowedValues.map((value: unknown) => JSON.stringify(value)).join(', ')}`,
      };
    case 'const':
      return { pointer: instancePath, detail: `must be ${JSON.stringify(params.allowedValue)}` };
    default:
      return { pointer: instancePath, detail: error.message ?? `does not fit ${keyword}` };
  }
}

function propertiesOf(schema: unknown): Record<string, unknown> {
  const properties = isRecord(schema) ? schema.properties : undefined;
  return isRecord(properties) ? properties : {};
}

function expected(schema: unknown): string {
  if (!isRecord(schema)) return 'a value';
  const type = [schema.type].flat().filter((word) => typeof word === 'string');
  const what = type.length > 0 ? `a value of type ${type.join(' or ')}` : 'a value';
  return typeof schema.description === 'string' ? `${what} (${schema.description})` : what;
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** RFC 6901. */
function escaped(field: string): string {
  return field.replaceAll('~', '~0').replaceAll('/', '~1');
}
