/**
 * What an agent may use of the skills of the workspace.
 *
 * @param allowed  of the roster: undefined means all, an empty list none
 * @returns        in the order of the pool
 * @source spec/multi-agent, "resolveAgentSkills"
 */
export function effectiveSkills(pool: readonly string[], allowed: readonly string[] | undefined): string[] {
  return allowed === undefined ? [...pool] : pool.filter((skill) => allowed.includes(skill));
}

/** Allowed skills that the pool does not have. */
export function unknownSkills(pool: readonly string[], allowed: readonly string[] | undefined): string[] {
  return (allowed ?? []).filter((skill) => !pool.includes(skill));
}
