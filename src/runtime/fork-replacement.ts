import { type InputFault, refusal } from '../contract/input-check.ts';
import { checkReplacedInput, payloadFields } from '../contract/replaced-input.ts';
import type { Signal } from '../contract/signal.ts';
import { AppError } from '../core/errors.ts';
import type { InputDraft, InputName } from './session-state.ts';

/** What an input answers to: changed, it would be another input. */
const IDENTITY: ReadonlySet<string> = new Set(['key', 'id', 'promptId', 'hook', 'name']);

/** An input with some of its fields replaced. @throws AppError `invalid_request` when that is not such an input any more */
export function replacedInput(signal: Signal, replaceInput: Readonly<Record<string, unknown>>, client: string): InputDraft {
  const name = signal.name as InputName;
  const fields = payloadFields(name);
  const faults = Object.keys(replaceInput).flatMap((field) => faultOf(field, name, fields));
  if (faults.length > 0) throw invalid(refusal(faults));
  const checked = checkReplacedInput(name, { ...signal.payload, ...replaceInput });
  if (!checked.ok) throw invalid(checked);
  return { name, payload: checked.value.replaceInput, client } as unknown as InputDraft;
}

function faultOf(field: string, name: InputName, known: ReadonlySet<string>): InputFault[] {
  const pointer = `/replaceInput/${field.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  if (!known.has(field)) {
    const fields = [...known].filter((candidate) => !IDENTITY.has(candidate));
    return [{ pointer, detail: `unknown field replaceInput.${field}; ${name} has ${fields.join(', ')}` }];
  }
  return IDENTITY.has(field) ? [{ pointer, detail: `replaceInput.${field} says which input it is; leave it out` }] : [];
}

function invalid({ detail, errors }: { readonly detail: string; readonly errors: readonly InputFault[] }): AppError {
  return new AppError('invalid_request', { detail, errors });
}
