import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { AppError } from '../core/errors.ts';
import { withinTime } from './time-bound.ts';

/** Faults named in one answer; a model that misread the schema needs the first few, not all. */
const FAULTS_NAMED_MAX = 8;
/** Longest schema of one tool, in characters of JSON: compiling costs time and memory of the whole process. */
export const SCHEMA_CHARS_MAX = 100_000;
/** Compiling one schema; everything else in the process waits meanwhile. Unit: milliseconds. */
const COMPILE_MS_MAX = 500;
/** The check of one input: a pattern tries ways to match, items are compared in pairs, each item by each part of a schema. Unit: milliseconds. */
const CHECK_MS_MAX = 250;

const OPTIONS: Options = {
  strict: false,
  allErrors: true,
  verbose: true,
  validateFormats: false,
  // Schemas of strangers may share an `$id`; none may refer to another's.
  addUsedSchema: false,
  logger: false,
};

export interface InputFault {
  /** JSON pointer into the input; empty for the input itself. */
  readonly pointer: string;
  /** What is wrong and what would be right. */
  readonly detail: string;
}

/** Faults of an input, at most FAULTS_NAMED_MAX; empty when it fits. Never throws. */
export type InputCheck = (input: unknown) => InputFault[];

/**
 * Compile a tool's JSON Schema. The dialect is the one `$schema` names; without it 2020-12, then draft 7 when the schema is none of 2020-12.
 * Formats are not checked: they are hints for the model.
 *
 * @throws AppError `invalid_request` when it is not a schema of type object, refers outside itself or is too long
 */
export function compileInputCheck(toolName: string, schema: Readonly<Record<string, unknown>>): InputCheck {
  return compileSchema({ name: `inputSchema of tool ${toolName}`, pointer: '/inputSchema' }, schema);
}

/** The same for the schema of an answer. */
export function compileOutputCheck(schema: Readonly<Record<string, unknown>>): InputCheck {
  return compileSchema({ name: 'output.schema', pointer: '/output/schema' }, schema);
}

function compileSchema(field: { readonly name: string; readonly pointer: string }, schema: Readonly<Record<string, unknown>>): InputCheck {
  const refuse = (why: string, cause?: unknown): AppError =>
    new AppError('invalid_request', { detail: `${field.name} ${why}`, errors: [{ pointer: field.pointer, detail: why }], cause });
  if (schema.type !== 'object') throw refuse('must have "type": "object"');
  if ('$async' in schema) throw refuse('must not be asynchronous; remove $async');
  if (JSON.stringify(schema).length > SCHEMA_CHARS_MAX) throw refuse(`is longer than ${SCHEMA_CHARS_MAX} characters; shorten it`);
  let validate: ValidateFunction;
  try {
    const compiled = withinTime(COMPILE_MS_MAX, () => compile(schema));
    if (!compiled) {
      // Broken off in the middle, they may hold anything.
      draft2020Instance = undefined;
      draft7Instance = undefined;
      throw new Error(`it cannot be compiled within ${COMPILE_MS_MAX} ms; make it smaller`);
    }
    validate = compiled.value;
  } catch (error) {
    throw refuse(`is not a valid JSON Schema: ${error instanceof Error ? error.message : String(error)}`, error);
  }
  const check = (input: unknown) => (validate(input) ? [] : faultsOf(validate.errors ?? []));
  return (input) => {
    try {
      return withinTime(CHECK_MS_MAX, () => check(input))?.value ?? [CHECK_TOO_SLOW];
    } catch (error) {
      if (error instanceof RangeError) return [TOO_DEEP];
      throw error;
    }
  };
}

const TOO_DEEP: InputFault = { pointer: '', detail: 'is nested too deeply for its schema; send less deep values' };
const CHECK_TOO_SLOW: InputFault = {
  pointer: '',
  detail: `could not be checked within ${CHECK_MS_MAX} ms; send less, or have the patterns of the schema simplified`,
};

function compile(schema: Readonly<Record<string, unknown>>): ValidateFunction {
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

function compileWith(ajv: Ajv, schema: Readonly<Record<string, unknown>>): ValidateFunction {
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
