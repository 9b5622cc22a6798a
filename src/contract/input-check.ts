import type { z } from 'zod';
import type { Operation, ParsedInputOf } from './operation.ts';

/** Faults named in one answer; a body that is wrong a thousand times does not make a thousand lines. */
export const FAULTS_MAX = 20;
/** Longest name of a field that an answer repeats, in characters. */
const NAME_CHARS_MAX = 200;

export interface InputFault {
  /** JSON pointer (RFC 6901) into the flat input; '' is the input as a whole. */
  readonly pointer: string;
  /** Names the field and what would be right. */
  readonly detail: string;
}

export type InputCheck<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly detail: string; readonly errors: readonly InputFault[] };

/**
 * Validate the flat input of an operation; the one check behind HTTP and the in-process call, so that both answer the same.
 * Never throws. Unknown fields at the top are faults unless the operation ignores them.
 */
export function checkInput<Op extends Operation>(operation: Op, input: unknown): InputCheck<ParsedInputOf<Op>> {
  const unknown = operation.unknownFields === 'ignore' ? [] : unknownFields(operation.input, input);
  const parsed = operation.input.safeParse(input);
  if (parsed.success && unknown.length === 0) return { ok: true, value: parsed.data as ParsedInputOf<Op> };
  return refusal([...unknown, ...(parsed.success ? [] : faultsOf(parsed.error, operation.input))]);
}

/** What is wrong with an input that `schema` refused, field by field. */
export function faultsOf(error: z.ZodError, schema: z.ZodType): InputFault[] {
  return error.issues.flatMap((issue) => describe(issue, schema));
}

/** The negative answer for faults found elsewhere, in the same words. */
export function refusal(faults: readonly InputFault[]): { ok: false; detail: string; errors: readonly InputFault[] } {
  const more = faults.length - 1;
  const tail = more > 0 ? `; ${more} more ${more === 1 ? 'field is' : 'fields are'} wrong, see errors` : '';
  return { ok: false, detail: `${faults[0]?.detail ?? 'the input is not valid'}${tail}`, errors: faults.slice(0, FAULTS_MAX) };
}

export function jsonPointer(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

interface Definition {
  readonly type: string;
  readonly shape?: Readonly<Record<string, z.ZodType>>;
  readonly catchall?: z.ZodType;
  readonly in?: z.ZodType;
  readonly innerType?: z.ZodType;
  readonly options?: readonly z.ZodType[];
  readonly left?: z.ZodType;
  readonly right?: z.ZodType;
}

interface Fields {
  readonly names: ReadonlySet<string>;
  /** Other fields are allowed, or the schema refuses them itself. */
  readonly open: boolean;
}

const fieldsCache = new WeakMap<z.ZodType, Fields>();

/** Top-level fields a schema takes, seen through refinements, transforms, unions and intersections. */
export function fieldsOf(schema: z.ZodType): Fields {
  let fields = fieldsCache.get(schema);
  if (!fields) {
    fields = readFields(schema);
    fieldsCache.set(schema, fields);
  }
  return fields;
}

function readFields(schema: z.ZodType): Fields {
  const def = schema.def as unknown as Definition;
  if (def.type === 'object' && def.shape) return { names: new Set(Object.keys(def.shape)), open: def.catchall !== undefined };
  if (def.type === 'pipe' && def.in) return fieldsOf(def.in);
  if (def.innerType) return fieldsOf(def.innerType);
  const parts = def.options ?? (def.left && def.right ? [def.left, def.right] : []);
  if (parts.length === 0) return { names: new Set(), open: true };
  const all = parts.map(fieldsOf);
  return { names: new Set(all.flatMap((part) => [...part.names])), open: all.some((part) => part.open) };
}

function unknownFields(schema: z.ZodType, input: unknown): InputFault[] {
  const fields = fieldsOf(schema);
  if (fields.open || typeof input !== 'object' || input === null) return [];
  const faults: InputFault[] = [];
  for (const name of Object.keys(input)) {
    if (!fields.names.has(name)) faults.push(faults.length < FAULTS_MAX ? unknownField([name], schema) : UNTOLD);
  }
  return faults;
}

/** One of many more: counted, not told. */
const UNTOLD: InputFault = { pointer: '', detail: '' };

function unknownField(given: readonly PropertyKey[], schema: z.ZodType): InputFault {
  const path = given.map((part) => (typeof part === 'string' && part.length > NAME_CHARS_MAX ? `${part.slice(0, NAME_CHARS_MAX)}…` : part));
  const known = path.length === 1 ? [...fieldsOf(schema).names] : [];
  const hint = path.length > 1 ? '; leave it out' : known.length === 0 ? '; there are none here' : `; the fields are ${known.join(', ')}`;
  return { pointer: jsonPointer(path), detail: `unknown field ${fieldName(path)}${hint}` };
}

function describe(issue: z.core.$ZodIssue, schema: z.ZodType): InputFault[] {
  if (issue.code === 'invalid_union') {
    const meant = meantBranch(issue);
    if (meant) return meant.flatMap((inner) => describeInBranch({ ...inner, path: [...issue.path, ...inner.path] }, schema));
  }
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key, place) => (place < FAULTS_MAX ? unknownField([...issue.path, key], schema) : UNTOLD));
  return [{ pointer: jsonPointer(issue.path), detail: sentence(fieldName(issue.path), issue) }];
}

/** The form of a union that knows the most of the fields that were given; undefined when the fields do not tell. */
function meantBranch({ errors }: Extract<z.core.$ZodIssue, { code: 'invalid_union' }>): readonly z.core.$ZodIssue[] | undefined {
  const strangers = (branch: readonly z.core.$ZodIssue[]) =>
    branch.reduce((sum, issue) => sum + (issue.code === 'unrecognized_keys' && issue.path.length === 0 ? issue.keys.length : 0), 0);
  const ranked = errors.map((branch) => ({ branch, count: strangers(branch) })).sort((a, b) => a.count - b.count);
  const [best, next] = ranked;
  return best && next && best.count < next.count ? best.branch : undefined;
}

/** A field that another form has is not unknown; it only has no place in this one. */
function describeInBranch(issue: z.core.$ZodIssue, schema: z.ZodType): InputFault[] {
  if (issue.code !== 'unrecognized_keys') return describe(issue, schema);
  return issue.keys.map((key) => {
    const path = [...issue.path, key];
    return { pointer: jsonPointer(path), detail: `${fieldName(path)} does not go together with the other fields; leave it out` };
  });
}

/** zod's own words start like this; a schema's own message says all there is to say. */
const TYPE_MESSAGE = /^Invalid input: expected (.+), received (.+)$/;

function sentence(name: string, issue: z.core.$ZodIssue): string {
  const type = TYPE_MESSAGE.exec(issue.message);
  if (type?.[2] === 'NaN') return `${name} must be a number`;
  if (type) return type[2] === 'undefined' ? `${name} is required (${type[1]})` : `${name} must be ${type[1]}, not ${type[2]}`;
  if (issue.code === 'invalid_union' && issue.discriminator) return `${name} must be one of ${discriminators(issue)}`;
  if (issue.code === 'invalid_union' && issue.message === 'Invalid input') return `${name} must be ${unionText(issue)}`;
  if (issue.code === 'invalid_value' && issue.message.startsWith('Invalid '))
    return `${name} must be ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.map(String).join(', ')}`;
  return issue.message.includes(name) ? issue.message : `${name}: ${issue.message}`;
}

function discriminators(issue: Extract<z.core.$ZodIssue, { code: 'invalid_union' }>): string {
  return 'options' in issue && Array.isArray(issue.options) ? issue.options.join(', ') : 'the kinds there are';
}

function unionText(issue: Extract<z.core.$ZodIssue, { code: 'invalid_union' }>): string {
  const branches = issue.errors.map((branch) => branch[0]).filter((first) => first !== undefined);
  const texts = branches.map((first) => {
    const expected =
      first.code === 'invalid_type' || first.code === 'invalid_value' ? (first as { expected?: string }).expected : undefined;
    const where = first.path.length > 0 ? `${fieldName(first.path)} ` : '';
    return `${where}${expected ?? first.message}`;
  });
  return texts.length === 0 ? 'something else' : [...new Set(texts)].join(' or ');
}

function fieldName(path: readonly PropertyKey[]): string {
  if (path.length === 0) return 'the input';
  return path.map((part, at) => (typeof part === 'number' ? `[${part}]` : `${at === 0 ? '' : '.'}${String(part)}`)).join('');
}
