import type { CallerLimit } from '../contract/scope.ts';

/** Headers by which a process that works for a limited caller says so. They only take rights away, so anybody may send them. */
const NAMES = { agent: 'x-signet-limit-agent', project: 'x-signet-limit-project' } as const;

/** A project may have any name, a header may not: values are percent-encoded. */
export function limitHeaders(limit: CallerLimit | undefined): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const what of ['agent', 'project'] as const) {
    const value = limit?.[what];
    if (value !== undefined) headers[NAMES[what]] = encodeURIComponent(value);
  }
  return headers;
}

/** Undefined when there is none. Read as it stands when it is not encoded: a limit that is misread is one nobody meets. */
export function limitOfHeaders(headers: Readonly<Record<string, string | readonly string[] | undefined>>): CallerLimit | undefined {
  const read = (name: string): string | undefined => {
    const value = headers[name];
    if (value === undefined) return undefined;
    const text = typeof value === 'string' ? value : value.join(', ');
    try {
      return decodeURIComponent(text);
    } catch {
      return text; // No percent-encoding.
    }
  };
  const [agent, project] = [read(NAMES.agent), read(NAMES.project)];
  if (agent === undefined && project === undefined) return undefined;
  return { ...(agent === undefined ? {} : { agent }), ...(project === undefined ? {} : { project }) };
}
