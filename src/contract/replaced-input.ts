import { z } from 'zod';
import { SIGNALS } from './catalog.ts';
import { checkInput, fieldsOf, type InputCheck } from './input-check.ts';
import { ATTACHMENTS_MAX, Attachment } from './session.ts';

const Attachments = z.array(Attachment).max(ATTACHMENTS_MAX);

/** The catalog says of attachments only that they are there: those of a prompt were checked when it came. */
function payloadSchema(name: keyof typeof SIGNALS): z.ZodType {
  return name === 'prompt:received' ? SIGNALS[name].payload.extend({ attachments: Attachments }) : SIGNALS[name].payload;
}

export const payloadFields = (name: keyof typeof SIGNALS): ReadonlySet<string> => fieldsOf(payloadSchema(name)).names;

/** Whether a payload that was put together of a signal's and `replaceInput` is still one of that signal; faults point into `/replaceInput`. */
export function checkReplacedInput(name: keyof typeof SIGNALS, payload: object): InputCheck<{ replaceInput: object }> {
  const input = z.object({ replaceInput: payloadSchema(name) });
  return checkInput({ input } as never, { replaceInput: payload }) as InputCheck<{ replaceInput: object }>;
}
