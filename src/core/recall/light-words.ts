import { wordsIn } from './words.ts';

/** Words that nearly every question has beside those it is about. They are looked up, and weigh little, however rare they are in a small store. */
const LIGHT =
  'able according actual add again ago allow almost along already also although always among another answer anybody anymore anyone anyway ' +
  'apart around aside ask away back bad basically became become behind beside besides best better beyond bring call came cannot case certain ' +
  'certainly chance change check come correct could couple current day despite detail details different doing done during earlier easy either ' +
  'else end enough especially etc ever every everybody everyone everything everywhere exact exactly example explain fact far feel felt few ' +
  'find fine first follow former full gave general get give given go gone gonna good gotta great guess happen hard have hear help here ' +
  'herself himself hold honestly however idea important indeed info instance instead itself keep kept kinda knew known last late lately later ' +
  'latest least leave left less let likely live long look lot lots made main mainly make making matter may maybe mean mention mind moment ' +
  'month mostly move myself nearly necessary need neither never new next nice nobody nothing now nowhere old one open otherwise ought ' +
  'ourselves out overall own part past people per perhaps person place point possible present pretty probably problem put question quick ' +
  'quite rather read ready real reason recent recently regard regarding respect right run said saw say second see seem seen send seriously ' +
  'set several shall should show side simple simply since single small some somebody someone sometimes somewhere soon start state stay still ' +
  'stop stuff suggest sure take taken talk tell themselves therefore thing think this though thought till time today together told tomorrow ' +
  'tonight too took toward towards try turn two understand unless unlike up upon use useful usual usually various versus via wanna want watch ' +
  'way week well went whenever wherever whether whole will wish within without word work worth would write wrong year yesterday yet yourself ';

let stems: ReadonlySet<string> | undefined;

/** Is this a stem of such a word? */
export function isLight(stem: string): boolean {
  stems ??= new Set(wordsIn(LIGHT).map((word) => word.stem));
  return stems.has(stem);
}
