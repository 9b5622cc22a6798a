/** Whether a promise is held by a test that cites it (`tested`) or still waits for one (`open`). */
export type RequirementState = 'tested' | 'open';

/** What a document's table holds per id; the id and the source come from the keys around it. */
export interface RequirementEntry {
  readonly state: RequirementState;
  /** One sentence a test can prove, without a full stop, in our own words. */
  readonly behaviour: string;
}

/** One promise of the specification. */
export interface Requirement extends RequirementEntry {
  /** Dotted and stable, such as `hooks.bypass.remember`; tests cite it. */
  readonly id: string;
  /** Document and heading, such as `spec/hooks "Per-Session Bypass"`. */
  readonly source: string;
}

/** The promises of one document: heading, then id, then entry. */
export type RequirementTable = Readonly<Record<string, Readonly<Record<string, RequirementEntry>>>>;

/** The ids of a table as a union of literals, so that a misspelled citation fails the type check. */
export type IdOf<Table> = { [Heading in keyof Table]: keyof Table[Heading] }[keyof Table] & string;

/** A promise that no test proves yet. */
export function open(behaviour: string): RequirementEntry {
  return { state: 'open', behaviour };
}

/** A promise that at least one test cites with `verifies`. */
export function tested(behaviour: string): RequirementEntry {
  return { state: 'tested', behaviour };
}

/**
 * Turn a document's table into rows, in the order in which they are written.
 *
 * @param document  name of the document, such as `spec/hooks`
 */
export function listRequirements(document: string, table: RequirementTable): Requirement[] {
  return Object.entries(table).flatMap(([heading, entries]) =>
    Object.entries(entries).map(([id, { state, behaviour }]) => ({ id, source: `${document} "${heading}"`, behaviour, state })),
  );
}
