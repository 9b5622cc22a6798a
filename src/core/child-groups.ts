/** Process groups that must not outlive the daemon: each has a leader of the same number. */
export interface ChildGroups {
  /** Variables that a process of this daemon is started with; it passes them on to those it starts. */
  readonly environment: Readonly<Record<string, string>>;
  /** A group has begun. @param what  shown to people, such as the name of an MCP server */
  add(pid: number, what: string): void;
  /** It has ended with all its processes. */
  remove(pid: number): void;
}
