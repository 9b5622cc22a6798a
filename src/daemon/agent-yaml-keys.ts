/** What this file reads of a schema: enough to walk down to the keys of a section. */
interface SchemaNode {
  readonly def: {
    readonly type: string;
    readonly innerType?: unknown;
    readonly shape?: Readonly<Record<string, unknown>>;
    readonly element?: unknown;
    readonly valueType?: unknown;
    readonly in?: unknown;
  };
}

/** Edits a mistyped key may be away from the right one, as a share of its length; at least MISTAKES_MIN. */
const MISTAKES_SHARE = 0.4;
const MISTAKES_MIN = 2;

/** Keys that may stand in the section at `path`; empty where any key may. */
export function keysAt(schema: unknown, path: readonly PropertyKey[]): string[] {
  let node: SchemaNode | undefined = unwrap(schema);
  for (const part of path) {
    const { def }: SchemaNode = node ?? { def: { type: 'none' } };
    node = unwrap(def.shape?.[String(part)] ?? def.element ?? def.valueType);
  }
  return Object.keys(node?.def.shape ?? {});
}

function unwrap(schema: unknown): SchemaNode | undefined {
  let node = schema as SchemaNode | undefined;
  while (node?.def.innerType !== undefined || node?.def.in !== undefined) node = (node.def.innerType ?? node.def.in) as SchemaNode;
  return node;
}

/** The valid key a mistyped one most likely stands for; undefined when none is near. */
export function nearestKey(key: string, valid: readonly string[]): string | undefined {
  const canonical = (text: string): string => text.toLowerCase().replace(/[-_]/g, '');
  const typed = canonical(key);
  const ranked = valid.map((name) => ({ name, edits: editDistance(typed, canonical(name)) })).sort((a, b) => a.edits - b.edits);
  const best = ranked[0];
  const limit = Math.max(MISTAKES_MIN, Math.floor(key.length * MISTAKES_SHARE));
  return best && best.edits <= limit && best.edits < typed.length ? best.name : undefined;
}

/** Insertions, deletions, replacements and swaps of neighbours that lead from one text to the other. */
function editDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1];
      let best = Math.min(rows[i - 1]![j]! + 1, row[j - 1]! + 1, rows[i - 1]![j - 1]! + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, rows[i - 2]![j - 2]! + 1);
      row.push(best);
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
