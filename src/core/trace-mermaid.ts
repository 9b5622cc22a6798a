import { enteredState, oneLine, signalFacts, type TraceSignal } from './trace-facts.ts';

/** Arrows and notes of one diagram: Mermaid draws no more than about 50,000 characters and nobody reads more. */
export const SEQUENCE_LINES_MAX = 400;
/** Longest label; unit: characters before escaping. */
const LABEL_CHARS_MAX = 80;

/** Who says what to whom: by the signal's name. `>>` asks, `-->>` answers, `-x` fails. */
const ARROWS: Readonly<Record<string, string>> = {
  'session:created': 'C->>S',
  'session:end': 'C->>S',
  'session:updated': 'C->>S',
  'session:bypass:changed': 'C->>S',
  'prompt:received': 'C->>S',
  'prompt:cancelled': 'C->>S',
  'compaction:requested': 'C->>S',
  'turn:cancel': 'C->>S',
  'turn:rejected': 'S-xC',
  'turn:end': 'S-->>C',
  'tool:approval:requested': 'S->>C',
  'tool:approval:resolved': 'C-->>S',
  'message:arrived': 'D->>S',
  'hook:start': 'S->>D',
  'hook:end': 'D-->>S',
  'hook:error': 'D-xS',
  'harness:start': 'S->>M',
  'harness:end': 'M-->>S',
  'harness:error': 'M-xS',
  'tool:call': 'S->>T',
  'tool:result': 'T-->>S',
};
/** Told as notes: what the session does by itself. */
const NOTES: ReadonlySet<string> = new Set(['harness:retry', 'timer:fired', 'session:failed', 'compaction:complete', 'compaction:error']);

/**
 * A Mermaid sequence diagram of client, session, model, tools and daemon. Labels are one line each and escaped: nothing that a prompt or a
 * tool said can become syntax or markup. At most SEQUENCE_LINES_MAX arrows and notes; a last note says how many were left out.
 */
export function toMermaidSequence(signals: readonly TraceSignal[]): string {
  const told = signals.filter(({ name }) => Object.hasOwn(ARROWS, name) || NOTES.has(name) || enteredState(name));
  const lines = told.slice(0, SEQUENCE_LINES_MAX).map(lineOf);
  if (told.length > lines.length) lines.push(`Note over S: ${told.length - lines.length} more are left out, choose one turn`);
  return `${[...HEAD, ...lines].join('\n  ')}\n`;
}

const HEAD = [
  'sequenceDiagram',
  'participant C as client',
  'participant S as session',
  'participant M as model',
  'participant T as tools',
  'participant D as daemon',
];

function lineOf(signal: TraceSignal): string {
  const arrow = ARROWS[signal.name];
  if (arrow) return `${arrow}: ${label(signal)}`;
  return `Note over S: ${enteredState(signal.name) ?? label(signal)}`;
}

/** The name stands first, so that no text can be read as an option of the label (`wrap:`). */
function label(signal: TraceSignal): string {
  return escapeLabel(oneLine(`${signal.name} ${signalFacts(signal)}`, LABEL_CHARS_MAX));
}

/** Everything but letters, digits and harmless marks as a character entity, the way Mermaid writes them. */
function escapeLabel(text: string): string {
  return text.replace(/[^\p{L}\p{N} ,./()=+_…→-]/gu, (char) => `#${char.codePointAt(0)};`);
}
