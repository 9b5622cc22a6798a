import { applyEdits, createScanner, type Edit, findNodeAtLocation, type JSONPath, modify, type Node, parseTree } from 'jsonc-parser';

/** SyntaxKind.CommaToken, which is there for the type checker alone. */
const COMMA_TOKEN = 5;

/** A text of JSON with comments that is changed in single places; all else stays as it is written, comments included. */
export class JsonText {
  text: string;
  readonly #unit: string;
  readonly #eol: string;

  constructor(text: string) {
    this.text = text;
    this.#unit = /\n([ \t]+)\S/.exec(text)?.[1] ?? '  ';
    this.#eol = text.includes('\r\n') ? '\r\n' : '\n';
  }

  /** Undefined takes a key out. */
  set(path: JSONPath, value: unknown): void {
    const isTab = this.#unit.startsWith('\t');
    const formattingOptions = { insertSpaces: !isTab, tabSize: isTab ? 1 : this.#unit.length, eol: this.#eol };
    this.text = applyEdits(this.text, modify(this.text, path, value, { formattingOptions }));
  }

  /** Behind the last item of a list, and behind what is said about that one. */
  append(path: JSONPath, value: unknown): void {
    const list = this.#nodeAt(path);
    const last = list?.children?.at(-1);
    if (!list || !last) {
      this.set(path, [value]);
      return;
    }
    const end = last.offset + last.length;
    const closing = list.offset + list.length - 1;
    const comma = commaBetween(this.text, end, closing);
    const place = end + this.text.slice(end, closing).trimEnd().length;
    const item = this.#written(value, indentAt(this.text, last.offset) ?? this.#unit);
    const added = { offset: place, length: 0, content: comma === undefined ? item : `${item},` };
    // At one place there can be but one edit.
    if (comma !== undefined) this.#edit([added]);
    else if (place === end) this.#edit([{ ...added, content: `,${item}` }]);
    else this.#edit([{ offset: end, length: 0, content: ',' }, added]);
  }

  /** Take an item out of a list. */
  remove(path: JSONPath): void {
    const item = this.#nodeAt(path);
    const list = item?.parent;
    if (!item || !list) return;
    const end = item.offset + item.length;
    const place = (list.children ?? []).indexOf(item);
    const previous = list.children?.[place - 1];
    const behind = commaBetween(this.text, end, list.children?.[place + 1]?.offset ?? list.offset + list.length - 1);
    const begin = lineBefore(this.text, item.offset);
    const gone: Edit = { offset: begin, length: (behind === undefined ? end : behind + 1) - begin, content: '' };
    // Behind the last item there is no comma: the one before it goes.
    const before = behind === undefined && previous ? commaBetween(this.text, previous.offset + previous.length, item.offset) : undefined;
    this.#edit([...(before === undefined ? [] : [{ offset: before, length: 1, content: '' }]), gone]);
  }

  #nodeAt(path: JSONPath): Node | undefined {
    const root = parseTree(this.text, [], { allowTrailingComma: true });
    return root && findNodeAtLocation(root, path);
  }

  #written(value: unknown, indent: string): string {
    const lines = JSON.stringify(value, null, this.#unit).split('\n');
    return lines.map((line) => `${this.#eol}${indent}${line}`).join('');
  }

  #edit(edits: Edit[]): void {
    this.text = applyEdits(this.text, edits);
  }
}

/** Where a comma stands that is none of a comment. */
function commaBetween(text: string, from: number, to: number): number | undefined {
  const scanner = createScanner(text, true);
  scanner.setPosition(from);
  const token = scanner.scan();
  const place = scanner.getTokenOffset();
  return Number(token) === COMMA_TOKEN && place < to ? place : undefined;
}

/** The white space a line begins with, when nothing but that stands before this place. */
function indentAt(text: string, place: number): string | undefined {
  return /(?:^|\n)([ \t]*)$/.exec(text.slice(0, place))?.[1];
}

/** The end of the line before, when nothing but white space stands between. */
function lineBefore(text: string, place: number): number {
  return place - (/\r?\n[ \t]*$/.exec(text.slice(0, place))?.[0].length ?? 0);
}
