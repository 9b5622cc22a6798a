import { tellsSomething, wordsIn } from './words.ts';

/** What stands for a value in a frame: `the port is 80` and `the port is 81` have one frame. */
const VALUE = '#';
/** Fewer words beside the value say too little to be about the same thing. */
export const FRAME_WORDS_MIN = 2;
/** Words that only tell that something changed. */
export const CHANGING = new Set('chang rais lower updat switch move replac renam now longer instead set becom'.split(' '));
const CHANGE_CUE =
  /\b(?:changed? to|now|no longer|not any ?more|instead|replac(?:es|ed|ing)|raised|lowered|moved to|renamed|switched|updated?|as of|from now on|any more|anymore|does not|do not|is not|stopped)\b/i;

/** Told as how things are, not as something that happened: only such a memory loses its place for good when a new value comes. */
const STATE = /\b(?:is|are|has|have|needs?|uses?|runs?|listens?|lives?|costs?|expires?|starts?|ends?|happens?)\b/i;

/**
 * Where the subject ends and what is said of it begins: a verb, `=`, a colon before a space, or a bound as in `older than 30 days`. Not at the start:
 * `Run 5 is green`, `Use port 80`.
 */
const SAYING =
  /(?<=\S\s+)\b(?:is|are|was|were|has|have|had|needs?|uses?|runs?|listens?|lives?|costs?|expires?|starts?|ends?|happens?|takes?|lasts?|change[ds]?|replaces?|replaced|raised|lowered|moved|renamed|switched|updated|set|stopped|does|do)\b|[=→]|:(?=\s)|\b(?:than|exceeding|at least|at most)(?=\s+\d)|[<>≤≥](?=\s*\d)/i;
/** Tells the same where no verb does: `limit now 5`. */
const SAYING_BRIEFLY = /(?<=\S\s+)\b(?:now|no longer|anymore|any more|instead)\b/i;

export interface Frame {
  /** The words in order, values as `#`, words of change left out; '' without a value. A number of the subject is no value: `user 17 is …`. */
  readonly text: string;
  /** The text says that something is not as it was. */
  readonly changes: boolean;
  /** The text says how things are. */
  readonly state: boolean;
}

/** The frame of a memory: equal frames with different values speak of the same thing at different times. */
export function frameOf(content: string): Frame {
  const [changes, state] = [CHANGE_CUE.test(content), STATE.test(content)];
  if (!/\d/.test(content)) return { text: '', changes, state };
  const saying = SAYING.exec(content) ?? SAYING_BRIEFLY.exec(content);
  const valueFrom = saying?.index ?? 0;
  const said = stemsOf(content.slice(valueFrom)).map((stem) => (/\d/.test(stem) ? VALUE : stem));
  const parts = [...stemsOf(content.slice(0, valueFrom)), ...said];
  const enough = parts.filter((part) => part !== VALUE).length >= FRAME_WORDS_MIN && parts.includes(VALUE);
  return { text: enough ? parts.join(' ') : '', changes, state };
}

function stemsOf(text: string): string[] {
  const words = wordsIn(text).filter((word) => !word.whole && tellsSomething(word) && !CHANGING.has(word.stem));
  return words.map((word) => word.stem);
}
