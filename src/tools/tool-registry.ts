import type { RuntimeLimits } from '../contract/config.ts';
import { ToolName } from '../contract/ids.ts';
import { TOOL_TIMEOUT_MS_MAX, type ToolInfo } from '../contract/tool.ts';
import { AppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { nearestNames } from '../core/nearest-name.ts';
import type { ToolDefinition } from '../core/provider.ts';
import type { Tool, ToolContext } from '../core/tool.ts';
import { planResearchInput } from './research-input.ts';
import { compileAcceptedInput, compileInputCheck, type InputCheck, requireInputBounds } from './tool-input.ts';
import { failedRun, type RunLimits, runTool, type ToolRun } from './tool-run.ts';

/** Most tools registered at once; each costs a compiled schema and is offered to models. */
export const TOOLS_MAX = 2_048;
/** A longer schema of an MCP server's tool is compiled with its first call, in characters of JSON. */
const LISTED_SCHEMA_CHARS_MAX = 10_000;

/** Where a tool is reached, for those who list tools. */
export interface ToolPlace {
  /** URL without user, query and fragment: those may carry secrets. */
  readonly callback?: string;
  readonly mcpServer?: string;
}

export interface ToolRegistry {
  /**
   * Offer a tool from now on. A class that is missing, as plain JavaScript may leave it out, is `unsafe`.
   *
   * @param past  `accepted`: the tool was registered before, in this process or another; its schema is taken as it is
   * @throws AppError `invalid_request` (name, schema), `tool_exists`, `overloaded` (TOOLS_MAX)
   */
  register(tool: Tool, place?: ToolPlace, past?: 'accepted'): void;
  /** True when there was one. Calls that run go on. */
  unregister(name: string): boolean;
  get(name: string): Tool | undefined;
  /** Sorted by name. @param agent  leaves out the tools that are not for it */
  list(agent?: string): ToolInfo[];
  /** What a model is offered, sorted by name: the same tools give the same bytes, which keeps prompt caches. Unknown names are left out. */
  definitions(names?: readonly string[]): ToolDefinition[];
  /** @throws AppError `tool_not_found`; `invalid_request` with a pointer and a fix for each fault */
  validateInput(name: string, input: unknown): void;
  /**
   * Run a call to its end. Never throws for a fault of the call or the tool: unknown name, unfit input, throw, deadline
   * and abort are results with `isError`. An absent input is `{}`.
   */
  run(name: string, input: unknown, context: ToolContext, limits?: Partial<RunLimits>): Promise<ToolRun>;
}

interface ToolRegistryDeps {
  readonly limits: Pick<RuntimeLimits, 'toolTimeoutMs' | 'toolOutputBytesMax'>;
  readonly log: Logger;
}

interface Entry {
  readonly tool: Tool;
  readonly place: ToolPlace;
  /** Compiled at registration, or at first use; what could not be compiled then is compiled again by the next call. */
  check: InputCheck | undefined;
}

/** The tools of this process: built in, registered over HTTP, or of MCP servers. */
export function createToolRegistry({ limits, log }: ToolRegistryDeps): ToolRegistry {
  const entries = new Map<string, Entry>();

  const entryOf = (name: string): Entry => {
    const entry = entries.get(name);
    if (!entry) throw unknownTool(name, [...entries.keys()]);
    return entry;
  };

  const validateInput = (name: string, input: unknown): void => {
    const entry = entryOf(name);
    entry.check ??= compileAcceptedInput(name, entry.tool.inputSchema);
    const faults = entry.check(input);
    if (faults.length === 0) return;
    const told = faults.map(({ pointer, detail }) => `${pointer === '' ? 'the input' : pointer} ${detail}`).join('; ');
    throw new AppError('invalid_request', { detail: `the input does not fit tool ${name}: ${told}`, errors: faults });
  };

  return {
    register(given, place = {}, past) {
      const tool = complete(given);
      requireName(tool.name);
      if (entries.has(tool.name)) throw new AppError('tool_exists', { detail: `a tool named ${tool.name} is registered already` });
      if (entries.size >= TOOLS_MAX) throw new AppError('overloaded', { detail: `${TOOLS_MAX} tools are registered; remove some first` });
      const fault = researchFault(tool);
      if (fault && past !== 'accepted') throw fault;
      if (fault) log.warn({ tool: tool.name, reason: fault.detail }, 'a tool that runs before generation will fail in each turn');
      entries.set(tool.name, { tool, place, check: past === 'accepted' ? undefined : checkOf(tool) });
    },
    unregister: (name) => entries.delete(name),
    get: (name) => entries.get(name)?.tool,
    list(agent) {
      const isFor = ({ tool }: Entry): boolean => agent === undefined || (tool.isFor?.(agent) ?? true);
      return sorted(entries.values())
        .filter(isFor)
        .map((entry) => infoOf(entry, limits.toolTimeoutMs));
    },
    definitions(names) {
      const wanted = names && new Set(names);
      return sorted(entries.values())
        .filter(({ tool }) => wanted?.has(tool.name) ?? true)
        .map(({ tool: { name, description, inputSchema } }) => ({ name, description, inputSchema }));
    },
    validateInput,
    async run(name, input = {}, context, given = {}) {
      const outputBytesMax = given.outputBytesMax ?? limits.toolOutputBytesMax;
      try {
        const { tool } = entryOf(name);
        validateInput(name, input);
        const timeoutMs = Math.min(given.timeoutMs ?? tool.timeoutMs ?? limits.toolTimeoutMs, TOOL_TIMEOUT_MS_MAX);
        return await runTool(tool, input, context, { timeoutMs, outputBytesMax }, log);
      } catch (error) {
        return failedRun(error, outputBytesMax, 0);
      }
    },
  };
}

/** Why a tool cannot run before generation; undefined when it can, or does not. */
function researchFault({ name, inputSchema, runBeforeGeneration }: Tool): AppError | undefined {
  const plan = runBeforeGeneration ? planResearchInput(inputSchema) : null;
  if (plan === null || !('fault' in plan)) return undefined;
  const detail = `tool ${name} runs before generation: it ${plan.fault}`;
  return new AppError('invalid_request', { detail, errors: [{ pointer: '/inputSchema', detail: plan.fault }] });
}

/** Undefined for what is compiled at first use: tools of our own, and long schemas of a server, which may list many at once. */
function checkOf({ name, origin, inputSchema }: Tool): InputCheck | undefined {
  if (origin === 'builtin') return undefined;
  if (origin !== 'mcp' || JSON.stringify(inputSchema).length <= LISTED_SCHEMA_CHARS_MAX) return compileInputCheck(name, inputSchema);
  requireInputBounds(name, inputSchema);
  return undefined;
}

/** A tool given in JavaScript may miss what the type requires; what is not known of it is taken to be the worst. */
function complete(tool: Tool): Tool {
  const { class: toolClass = 'unsafe', origin = 'custom', description = '' } = tool as Partial<Tool>;
  if (toolClass === tool.class && origin === tool.origin && description === tool.description) return tool;
  const { name, inputSchema, runBeforeGeneration, timeoutMs, needsApproval, internal } = tool;
  const isFor = tool.isFor && ((agent: string) => tool.isFor!(agent));
  const rest = { runBeforeGeneration, timeoutMs, needsApproval, internal, ...(isFor ? { isFor } : {}) };
  return {
    ...{ name, description, inputSchema, class: toolClass, origin },
    ...rest,
    execute: (input, context) => tool.execute(input, context),
  };
}

function sorted(entries: Iterable<Entry>): Entry[] {
  // By code unit: a locale's order would differ from machine to machine.
  return [...entries].sort((a, b) => (a.tool.name < b.tool.name ? -1 : 1));
}

function infoOf({ tool, place }: Entry, toolTimeoutMs: number): ToolInfo {
  return {
    name: tool.name,
    description: tool.description,
    inputSchema: { ...tool.inputSchema },
    class: tool.class,
    origin: tool.origin,
    runBeforeGeneration: tool.runBeforeGeneration ?? false,
    needsApproval: tool.needsApproval ?? false,
    timeoutMs: tool.timeoutMs ?? toolTimeoutMs,
    ...place,
  };
}

function requireName(name: string): void {
  if (ToolName.safeParse(name).success) return;
  const detail = `${JSON.stringify(name.slice(0, 100))} is no tool name: 1 to 64 characters of letters, digits, _ and -`;
  throw new AppError('invalid_request', {
    detail,
    errors: [{ pointer: '/name', detail: 'must be 1 to 64 characters of letters, digits, _ and -' }],
  });
}

function unknownTool(name: string, names: readonly string[]): AppError {
  const near = nearestNames(name, names);
  const hint = near.length > 0 ? `; near it: ${near.join(', ')}` : '';
  return new AppError('tool_not_found', { detail: `no tool named ${JSON.stringify(name.slice(0, 100))} is registered${hint}` });
}
