import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import type { RuntimeClient } from '../../src/client/runtime-client.ts';
import type { InputOf } from '../../src/contract/operation.ts';
import type { Signal } from '../../src/contract/signal.ts';
import type { toolOperations } from '../../src/contract/tool.ts';
import { type CallbackRequest, type CallbackServer, startCallbackServer } from '../helpers/callback-server.ts';
import type { Wire } from '../helpers/model-server/reply.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { schemaFaults } from '../helpers/signal-schema.ts';
import { type Signet, type SignetOptions, startSignet } from '../helpers/signet.ts';

/** How long a test waits for a signal; the machine may be busy; unit: milliseconds. */
const SIGNAL_TIMEOUT_MS = 15_000;

/** Answers a call, or holds the response and returns undefined. */
export type ToolBody = (input: Record<string, unknown>, request: CallbackRequest, response: ServerResponse) => unknown;

/** A running Signet with the model server it asks and a server that its tools live on. */
export interface Rig extends Signet {
  readonly model: ModelServer;
  readonly tools: CallbackServer;
  /** Registers a tool; what `body` returns is its output. */
  tool(name: string, body: ToolBody, extra?: Partial<InputOf<typeof toolOperations.registerTool>>): Promise<void>;
}

/** The environment that points Signet at the model server, by wire. */
export function wireEnvironment(wire: Wire, url: string): Record<string, string> {
  switch (wire) {
    case 'anthropic':
      return { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'test' };
    case 'responses':
      return { OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: 'test', SIGNET_PROVIDER: 'openai', SIGNET_MODEL: 'gpt-5' };
    case 'chat':
      return { OPENAI_BASE_URL: `${url}/v1`, SIGNET_PROVIDER: 'openai-compatible', SIGNET_MODEL: 'scripted' };
  }
}

/** `yaml` may hold `$MODEL`, which becomes the URL of the model server. */
export async function startRig(options: SignetOptions & { readonly wire?: Wire } = {}): Promise<Rig> {
  const model = await startModelServer();
  const bodies = new Map<string, ToolBody>();
  const tools = await startCallbackServer((request, response) => {
    const output = bodies.get(String(request.body.name))?.(request.body.input as Record<string, unknown>, request, response);
    return output === undefined ? undefined : { output };
  });
  const { wire = 'anthropic', yaml, env, ...rest } = options;
  const signet = await startSignet({
    ...rest,
    ...(yaml === undefined ? {} : { yaml: yaml.replaceAll('$MODEL', model.url) }),
    env: { ...wireEnvironment(wire, model.url), ...env },
  });
  return {
    ...signet,
    model,
    tools,
    tool: async (name, body, extra = {}) => {
      bodies.set(name, body);
      const tool = {
        name,
        description: `The tool ${name}.`,
        inputSchema: { type: 'object' },
        class: 'pure',
        callback: { url: tools.origin },
      };
      await signet.client.tools.register({ ...tool, ...extra } as InputOf<typeof toolOperations.registerTool>);
    },
    close: async () => {
      await signet.close();
      await model.close();
      await tools.close();
    },
  };
}

/** The whole stored log of a session, read in pages. */
export async function readLog(client: RuntimeClient, id: string): Promise<Signal[]> {
  const signals: Signal[] = [];
  for (;;) {
    const { items, next } = await client.session.events(id, { after: signals.at(-1)?.seq ?? 0, limit: 1_000 });
    signals.push(...items);
    if (next !== null && items.length > 0) continue;
    // Whatever a test makes the runtime say keeps the schemas.
    assert.deepEqual(signals.flatMap(schemaFaults), []);
    return signals;
  }
}

/** Resolves with the first stored signal of this name that fits, past or to come. */
export async function nextSignal(
  client: RuntimeClient,
  id: string,
  name: string,
  fits: (payload: Record<string, never>) => boolean = () => true,
): Promise<Signal> {
  const signal = AbortSignal.timeout(SIGNAL_TIMEOUT_MS);
  for await (const event of client.session.stream(id, { events: name, deltas: false, signal })) {
    if (event.name === name && fits(event.payload as Record<string, never>)) return event as unknown as Signal;
  }
  throw new Error(`session ${id} never said ${name}`);
}

export function named(signals: readonly Signal[], name: string): Signal[] {
  return signals.filter((signal) => signal.name === name);
}

export function payloads(signals: readonly Signal[], name: string): Record<string, unknown>[] {
  return named(signals, name).map((signal) => signal.payload as Record<string, unknown>);
}
