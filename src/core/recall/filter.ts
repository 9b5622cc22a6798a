import type { MemoryFilter } from '../memory-store.ts';
import type { IndexedMemory } from './index-view.ts';

/** What a filter looks at. */
type Filtered = Pick<IndexedMemory, 'project' | 'scope' | 'type' | 'tags' | 'who' | 'sourceType' | 'pinned' | 'importance' | 'createdAtMs'>;
type Admits = (memory: Filtered) => boolean;

/**
 * The filter of a query over memories; undefined when everything passes. Of a search it only spares work: what is answered goes through the filter of the store once more.
 */
export function admitsOf(filter: MemoryFilter): Admits | undefined {
  const tags = (filter.tags ?? []).map((tag) => `,${tag.toLowerCase()},`);
  const checks: Admits[] = [];
  const { project, aroundProject, within, scope, type, who, sourceType, pinned, importanceMin, sinceMs, untilMs } = filter;
  if (project !== undefined) checks.push((entry) => entry.project === project);
  if (aroundProject !== undefined) {
    checks.push((entry) => entry.project === aroundProject || entry.project === null || entry.type === 'preference');
  }
  if (within !== undefined) checks.push((entry) => entry.project === within.project || (within.orNone && entry.project === null));
  if (scope !== undefined) checks.push((entry) => entry.scope === scope);
  if (type !== undefined) checks.push((entry) => entry.type === type);
  if (tags.length > 0) checks.push((entry) => tags.every((tag) => `,${(entry.tags ?? '').toLowerCase()},`.includes(tag)));
  if (who !== undefined) checks.push((entry) => entry.who === who);
  if (sourceType !== undefined) checks.push((entry) => entry.sourceType === sourceType);
  if (pinned !== undefined) checks.push((entry) => entry.pinned === pinned);
  if (importanceMin !== undefined) checks.push((entry) => entry.importance >= importanceMin);
  if (sinceMs !== undefined) checks.push((entry) => entry.createdAtMs >= sinceMs);
  if (untilMs !== undefined) checks.push((entry) => entry.createdAtMs <= untilMs);
  if (checks.length === 0) return undefined;
  if (checks.length === 1) return checks[0]!;
  return (entry) => checks.every((check) => check(entry));
}
