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

export interface Frame {
  /** The words in order, values as `#`, words of change left out; '' without a value. */
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
  const words = wordsIn(content).filter((word) => !word.whole && tellsSomething(word) && !CHANGING.has(word.stem));
  const parts = words.map((word) => (/\d/.test(word.stem) ? VALUE : word.stem));
  const enough = parts.filter((part) => part !== VALUE).length >= FRAME_WORDS_MIN && parts.includes(VALUE);
  return { text: enough ? parts.join(' ') : '', changes, state };
}
