/** Relations that people name with different words when they say how something is and when they say that it changed. */
const RELATIONS: readonly (readonly [name: string, pattern: RegExp, stems: string])[] = [
  [
    'residence',
    /\b(?:liv(?:es?|ed|ing)|resid(?:es?|ing)|home (?:is|in)|based|(?:moved|moving|moves|relocat\w+) (?:\w+ ){0,4}(?:to|in)|settled|flat|apartment)\b/i,
    'live life resid home base move reloc settl flat apart',
  ],
  [
    'employment',
    /\b(?:work(?:s|ed|ing)? (?:at|for|as)|jobs?|employ\w+|join(?:s|ed)|hired|started at|quit|resigned|got hired|employer)\b/i,
    'work job emploi join hire quit resign',
  ],
  [
    'partner',
    /\b(?:engaged|married|dating|girlfriend|boyfriend|wife|husband|partner|fianc\w+|broke up|split up|separated|divorced?)\b/i,
    'engag marri date girlfriend boyfriend wife husband partner break split separ divorc',
  ],
  [
    'duty',
    /\b(?:own(?:s|er)?|leads?|heads?|runs?(?! (?:on|in|at|every|locally|with|from|under|until|for|by)\b)|manages?|maintain(?:s|er)?|looks? after|in charge|responsible|on[- ]call|captain|handles?|took over|takes? over|taking over)\b/i,
    'own owner lead head run manag maintain charg respons call captain handl',
  ],
];

const RELATION_OF_STEM = new Map(RELATIONS.flatMap(([name, , stems]) => stems.split(' ').map((stem): [string, string] => [stem, name])));

/** Returns the name of the relation a stem belongs to, else the stem itself: `live` and `move` answer the same question. */
export function attributeOf(stem: string): string {
  return RELATION_OF_STEM.get(stem) ?? stem;
}

/** Names of the relations a text speaks of. */
export function relationsIn(text: string): Set<string> {
  return new Set(RELATIONS.flatMap(([name, pattern]) => (pattern.test(text) ? [name] : [])));
}

/** Stems by which memories that speak of a relation can be found. */
export function stemsOfRelation(name: string): readonly string[] {
  return RELATIONS.find(([known]) => known === name)?.[2].split(' ') ?? [];
}
