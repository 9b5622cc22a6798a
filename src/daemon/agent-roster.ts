import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Document, isMap, isSeq, parseDocument, YAMLSeq } from 'yaml';
import { CONFIG_FILES, checkAgentYaml, readConfigText } from './agent-yaml.ts';
import { replaceConfigFile } from './config-file.ts';

/** A place in the roster, with what was said about it. */
export interface RosterEntry {
  readonly name: string;
  readonly [key: string]: unknown;
}

/**
 * Put an agent into the roster of agent.yaml; comments and order of the file stay. A file that is absent is made.
 *
 * @throws AppError config_invalid when the file, or what it would become, is not valid: it then stays as it is
 */
export async function addToRoster(folder: string, entry: RosterEntry): Promise<void> {
  const told = Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== undefined));
  await edit(folder, (document) => {
    const roster = rosterOf(document, true)!;
    roster.items.push(document.createNode(told));
    return true;
  });
}

/** Take an agent out of the roster, and its bindings with it. Answers whether it was there. @throws AppError config_invalid */
export function removeFromRoster(folder: string, name: string): Promise<boolean> {
  return edit(folder, (document) => {
    const isGone = drop(rosterOf(document, false), 'name', name);
    if (isGone) drop(document.getIn(['agents', 'openclaw', 'bindings'], false), 'agent', name);
    return isGone;
  });
}

async function edit(folder: string, change: (document: Document) => boolean): Promise<boolean> {
  const there = CONFIG_FILES.find((file) => existsSync(join(folder, file)));
  const name = there ?? CONFIG_FILES[0];
  const text = there === undefined ? '' : readConfigText(folder, there);
  checkAgentYaml(folder, name, text);
  const document = parseDocument(text);
  if (!change(document)) return false;
  // A wide line is left as wide as it is.
  const changed = document.toString({ lineWidth: 0 });
  const written = text.includes('\r\n') ? changed.replace(/\r?\n/g, '\r\n') : changed;
  checkAgentYaml(folder, name, written);
  await replaceConfigFile(folder, name, written);
  return true;
}

/** The list itself; `make` puts one where there is none. */
function rosterOf(document: Document, make: boolean): YAMLSeq | undefined {
  const roster = document.getIn(['agents', 'roster'], false);
  if (isSeq(roster)) return roster as YAMLSeq;
  if (!make) return undefined;
  if (!isMap(document.contents)) document.contents = document.createNode({}) as unknown as Document['contents'];
  if (!isMap(document.get('agents', false))) document.set('agents', document.createNode({}));
  const made = new YAMLSeq();
  document.setIn(['agents', 'roster'], made);
  return made;
}

/** Take out the maps that have this value under this key. */
function drop(list: unknown, key: string, value: string): boolean {
  if (!isSeq(list)) return false;
  const left = list.items.filter((item) => !(isMap(item) && item.get(key) === value));
  const isGone = left.length < list.items.length;
  list.items = left;
  return isGone;
}
