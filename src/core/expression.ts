import { type ExpressionPlace, readToken, refusal, type Token } from './expression-token.ts';
import { addValues, calculate, containsValue, equalValues, memberOf, orderValues } from './expression-value.ts';

export const EXPRESSION_CHARS_MAX = 4_096;
/** Parentheses, brackets and signs before a value within each other; protects the stack. */
export const EXPRESSION_DEPTH_MAX = 64;

/**
 * A compiled expression: pure, total work bounded by its length and the size of what it looks at. What is not there is null.
 *
 * @throws AppError `invalid_expression` when it calculates with something that is not a number
 */
export type Expression = (scope: object) => unknown;

export interface ExpressionOptions {
  /** Names the scope has; others are refused. All are allowed when left out. */
  readonly names?: readonly string[];
  /** JSON pointer of the text in the request, for error messages. */
  readonly pointer?: string;
}

/** From weakest to strongest; what stands together binds equally, from left to right. */
const LEVELS: readonly (readonly string[])[] = [
  ['||'],
  ['&&'],
  ['==', '!=', '<', '<=', '>', '>=', 'in', 'contains'],
  ['+', '-'],
  ['*', '/', '%'],
];
const COMPARING = 2;
const CONSTANTS: Readonly<Record<string, unknown>> = { true: true, false: false, null: null };
const OTHER_WORDS: Readonly<Record<string, string>> = { and: '&&', or: '||', not: '!', undefined: 'null', is: '==' };

/**
 * Compile an expression such as `signal.payload.confidence >= 0.8 && state.review == null`: numbers, texts, true, false, null,
 * `.name` and `[index]` (own members of data only), `== != < <= > >= in contains`, `&& || !`, `+ - * / %` and parentheses.
 * `&&` and `||` give the value that decides, and take false, null, 0 and '' for untrue. Nothing can be called.
 *
 * @throws AppError `invalid_expression` with the position of what is wrong, and a hint
 */
export function compileExpression(text: string, { names, pointer = '' }: ExpressionOptions = {}): Expression {
  const place = { text, pointer };
  if (text.length > EXPRESSION_CHARS_MAX) {
    throw refusal(place, EXPRESSION_CHARS_MAX, `an expression may have ${EXPRESSION_CHARS_MAX} characters, not ${text.length}`);
  }
  return parseExpression(place, 0, names).expression;
}

/** @param from  index of the first character @returns the expression, and the index where it ended */
export function parseExpression(place: ExpressionPlace, from: number, names?: readonly string[]): { expression: Expression; to: number } {
  const parser = new Parser(place, from, names);
  const expression = parser.level(0);
  return { expression, to: parser.end() };
}

class Parser {
  readonly #place: ExpressionPlace;
  readonly #names: readonly string[] | undefined;
  #token: Token;
  #depth = 0;

  constructor(place: ExpressionPlace, from: number, names: readonly string[] | undefined) {
    this.#place = place;
    this.#names = names;
    this.#token = readToken(place, from);
  }

  end(): number {
    const { kind, value, from } = this.#token;
    if (kind === 'end') return from;
    const word = OTHER_WORDS[String(value)];
    if (value === '(') throw this.#refuse('nothing can be called', 'there are values and operators only');
    throw this.#refuse(
      `${shown(this.#token)} is not expected`,
      word === undefined ? 'an operator must stand before it' : `write \`${word}\``,
    );
  }

  level(level: number): Expression {
    if (level === LEVELS.length) return this.#unary();
    let left = this.level(level + 1);
    for (let count = 0; ; count += 1) {
      const operator = LEVELS[level]!.find((candidate) => this.#is(candidate));
      if (operator === undefined) return left;
      if (level === COMPARING && count > 0) throw this.#refuse('comparisons cannot be chained', 'join them with `&&`');
      const { from } = this.#token;
      this.#next();
      left = this.#binary(operator, left, this.level(level + 1), from);
    }
  }

  #binary(operator: string, left: Expression, right: Expression, at: number): Expression {
    const refuse = (problem: string) => refusal(this.#place, at, problem);
    switch (operator) {
      case '||':
        return (scope) => left(scope) || right(scope);
      case '&&':
        return (scope) => left(scope) && right(scope);
      case '==':
        return (scope) => equalValues(left(scope), right(scope));
      case '!=':
        return (scope) => !equalValues(left(scope), right(scope));
      case 'in':
        return (scope) => containsValue(right(scope), left(scope));
      case 'contains':
        return (scope) => containsValue(left(scope), right(scope));
      case '+':
        return (scope) => addValues(left(scope), right(scope), refuse);
      case '-':
      case '*':
      case '/':
      case '%':
        return (scope) => calculate(operator, left(scope), right(scope), refuse);
      default:
        return (scope) => orderValues(operator, left(scope), right(scope));
    }
  }

  #unary(): Expression {
    const { from } = this.#token;
    if (this.#take('!')) {
      const operand = this.#deeper(() => this.#unary());
      return (scope) => !operand(scope);
    }
    if (this.#take('-')) {
      const operand = this.#deeper(() => this.#unary());
      return (scope) => calculate('-', 0, operand(scope), (problem) => refusal(this.#place, from, problem));
    }
    return this.#members(this.#primary());
  }

  #members(start: Expression): Expression {
    let value = start;
    for (;;) {
      const object = value;
      if (this.#take('.')) {
        const { kind, value: name } = this.#token;
        if (kind !== 'name') throw this.#refuse('a name must follow the dot', 'other keys stand in brackets: `state["my-key"]`');
        this.#next();
        value = (scope) => memberOf(object(scope), name);
      } else if (this.#take('[')) {
        const index = this.#deeper(() => this.level(0));
        this.#require(']');
        value = (scope) => memberOf(object(scope), index(scope));
      } else return value;
    }
  }

  #primary(): Expression {
    if (this.#take('(')) {
      const inner = this.#deeper(() => this.level(0));
      this.#require(')');
      return inner;
    }
    const { kind, value } = this.#token;
    if (kind === 'number' || kind === 'text') {
      this.#next();
      return () => value;
    }
    if (kind !== 'name' || value === 'in' || value === 'contains') {
      throw this.#refuse(kind === 'end' ? 'a value is missing' : `a value must stand here, not ${shown(this.#token)}`);
    }
    const name = String(value);
    if (Object.hasOwn(CONSTANTS, name)) {
      this.#next();
      return () => CONSTANTS[name];
    }
    this.#checkName(name);
    this.#next();
    return (scope) => memberOf(scope, name);
  }

  #checkName(name: string): void {
    if (Object.hasOwn(OTHER_WORDS, name)) throw this.#refuse(`\`${name}\` is no word of this language`, `write \`${OTHER_WORDS[name]}\``);
    if (this.#names === undefined || this.#names.includes(name)) return;
    throw this.#refuse(`there is no \`${name}\``, `the names are ${this.#names.join(', ')}; a text stands in quotes`);
  }

  #deeper<T>(parse: () => T): T {
    this.#depth += 1;
    if (this.#depth > EXPRESSION_DEPTH_MAX) throw this.#refuse(`it is nested deeper than ${EXPRESSION_DEPTH_MAX} levels`);
    const parsed = parse();
    this.#depth -= 1;
    return parsed;
  }

  #is(word: string): boolean {
    return (this.#token.kind === 'sign' || this.#token.kind === 'name') && this.#token.value === word;
  }

  #take(sign: string): boolean {
    if (!this.#is(sign)) return false;
    this.#next();
    return true;
  }

  #require(sign: string): void {
    if (!this.#take(sign)) throw this.#refuse(`\`${sign}\` is missing`, `it is ${shown(this.#token)} that stands here`);
  }

  #next(): void {
    this.#token = readToken(this.#place, this.#token.to);
  }

  #refuse(problem: string, hint?: string) {
    return refusal(this.#place, this.#token.from, problem, hint);
  }
}

function shown({ kind, value }: Token): string {
  if (kind === 'end') return 'the end';
  return kind === 'text' ? JSON.stringify(value) : `\`${value}\``;
}
