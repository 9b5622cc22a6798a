import { PROMPT_CHARS_MAX } from '../contract/session.ts';
import { AppError } from './errors.ts';
import { EXPRESSION_CHARS_MAX, type Expression, type ExpressionOptions, parseExpression } from './expression.ts';
import { refusal } from './expression-token.ts';

const TEMPLATE_CHARS_MAX = 100_000;
const OPEN = '{{';
const CLOSE = '}}';

/** @throws AppError `invalid_expression` when a part calculates with something that is not a number, or the text becomes longer than a prompt may be */
export type Template = (scope: object) => string;

/**
 * Compile a text with `{{ expression }}` in it. A text is put in as it is, any other value as JSON; `{{ "{{" }}` writes braces.
 *
 * @throws AppError `invalid_expression` with the position in the whole text
 */
export function compileTemplate(text: string, { names, pointer = '' }: ExpressionOptions = {}): Template {
  const place = { text, pointer, until: CLOSE };
  if (text.length > TEMPLATE_CHARS_MAX) {
    throw refusal(place, TEMPLATE_CHARS_MAX, `a template may have ${TEMPLATE_CHARS_MAX} characters, not ${text.length}`);
  }
  const parts: (string | Expression)[] = [];
  let at = 0;
  for (let open = text.indexOf(OPEN); open >= 0; open = text.indexOf(OPEN, at)) {
    parts.push(text.slice(at, open));
    const from = open + OPEN.length;
    const { expression, to } = parseExpression(place, from, names);
    if (!text.startsWith(CLOSE, to)) throw refusal(place, open, '`{{` has no `}}`', 'to write braces themselves, write `{{ "{{" }}`');
    if (to - from > EXPRESSION_CHARS_MAX) throw refusal(place, open, `an expression may have ${EXPRESSION_CHARS_MAX} characters`);
    parts.push(expression);
    at = to + CLOSE.length;
  }
  parts.push(text.slice(at));
  return (scope) => render(parts, scope, pointer);
}

function render(parts: readonly (string | Expression)[], scope: object, pointer: string): string {
  let text = '';
  for (const part of parts) {
    text += typeof part === 'string' ? part : written(part(scope));
    if (text.length > PROMPT_CHARS_MAX) {
      const detail = `the text became longer than ${PROMPT_CHARS_MAX} characters; put less into it`;
      throw new AppError('invalid_expression', { detail, errors: [{ pointer, detail }] });
    }
  }
  return text;
}

function written(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? 'null');
}
