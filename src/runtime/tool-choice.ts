import { AppError } from '../core/errors.ts';
import { nearestNames } from '../core/nearest-name.ts';
import type { RuntimeDeps } from './runtime-deps.ts';

/**
 * Names of tools that a session shall have must be known when it is created: a slip of the pen would else show as a model that does not do
 * its work. A tool that is registered later is registered first, then; only those of an MCP server may come by themselves.
 *
 * @throws AppError `unknown_tool` with the names most like it
 */
export function requireTools(
  { tools, toolService }: Pick<RuntimeDeps, 'tools' | 'toolService'>,
  names: readonly string[],
  pointer: string,
): void {
  names.forEach((name, index) => {
    if (tools.get(name) || toolService.mayCome(name)) return;
    const near = nearestNames(
      name,
      tools.list().map((tool) => tool.name),
    );
    const hint = near.length > 0 ? `did you mean ${near.join(', ')}?` : 'GET /tools lists them; register it first';
    const detail = `no tool "${name}" is registered; ${hint}`;
    throw new AppError('unknown_tool', { detail, errors: [{ pointer: `${pointer}/${index}`, detail }] });
  });
}
