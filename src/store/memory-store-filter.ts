import type { SQLInputValue } from 'node:sqlite';
import type { MemoryFilter } from '../core/memory-store.ts';
import type { Condition } from './memory-store-scope.ts';

/** The filter of a query as conditions over `memories m`, which every arm of a search and every list goes through. */
export function conditionsOf(filter: MemoryFilter): Condition[] {
  const conditions: Condition[] = [];
  const add = (sql: string, ...values: SQLInputValue[]): void => void conditions.push({ sql, values });
  if (filter.project !== undefined) add('m.project = ?', filter.project);
  if (filter.aroundProject !== undefined) add(`(m.project = ? OR m.project IS NULL OR m.type = 'preference')`, filter.aroundProject);
  if (filter.scope !== undefined) add('m.scope = ?', filter.scope);
  if (filter.type !== undefined) add('m.type = ?', filter.type);
  for (const tag of filter.tags ?? []) add(`instr(',' || lower(m.tags) || ',', ',' || lower(?) || ',') > 0`, tag);
  if (filter.who !== undefined) add('m.who = ?', filter.who);
  if (filter.sourceType !== undefined) add('m.source_type = ?', filter.sourceType);
  if (filter.pinned !== undefined) add('m.pinned = ?', filter.pinned ? 1 : 0);
  if (filter.importanceMin !== undefined) add('m.importance >= ?', filter.importanceMin);
  if (filter.sinceMs !== undefined) add('m.created_at >= ?', filter.sinceMs);
  if (filter.untilMs !== undefined) add('m.created_at <= ?', filter.untilMs);
  return conditions;
}
