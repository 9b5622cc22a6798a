import type { Signal } from '../../src/contract/signal.ts';
import type { WorkflowView } from '../../src/contract/workflow-operations.ts';
import { call } from '../conformance/calls.ts';

/** How long a run in a test may take; unit: milliseconds. */
const END_TIMEOUT_MS = 20_000;

/** Starts a workflow over HTTP. */
export async function startWorkflow(runtimeUrl: string, body: Readonly<Record<string, unknown>>): Promise<WorkflowView> {
  const answer = await call('POST', `${runtimeUrl}/workflows`, body);
  if (answer.status !== 201) throw new Error(`POST /workflows answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Its own signals, all of them, once workflow:end is among them. */
export async function untilEnd(runtimeUrl: string, id: string): Promise<Signal[]> {
  await untilSignal(runtimeUrl, id, 'workflow:end');
  return workflowLog(runtimeUrl, id);
}

/** Resolves with the first signal of the workflow's stream with this name that fits. */
export async function untilSignal(
  runtimeUrl: string,
  id: string,
  name: string,
  fits: (payload: Record<string, unknown>) => boolean = () => true,
): Promise<Signal> {
  const response = await fetch(`${runtimeUrl}/workflows/${id}/stream?events=${name}`, { signal: AbortSignal.timeout(END_TIMEOUT_MS) });
  if (!response.ok || !response.body) throw new Error(`the stream of ${id} answered ${response.status}`);
  let text = '';
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end))?.[1];
      text = text.slice(end + 2);
      const signal = data === undefined ? null : (JSON.parse(data) as Signal);
      if (signal?.name === name && fits(signal.payload)) return signal;
    }
  }
  throw new Error(`workflow ${id} never said ${name}`);
}

export async function workflowLog(runtimeUrl: string, id: string): Promise<Signal[]> {
  const { status, body } = await call('GET', `${runtimeUrl}/workflows/${id}/events?limit=1000`);
  if (status !== 200) throw new Error(`the events of ${id} answered ${status}: ${JSON.stringify(body)}`);
  return body.items;
}

export async function workflowView(runtimeUrl: string, id: string): Promise<WorkflowView> {
  return (await call('GET', `${runtimeUrl}/workflows/${id}`)).body;
}

/** `agent reason trigger` of every refusal, in order. */
export function refusals(log: readonly Signal[]): string[] {
  return log.filter(({ name }) => name === 'agent:skipped').map(({ payload }) => `${payload.agent} ${payload.reason} ${payload.trigger}`);
}

/** Matching signals and agents: each must be answered by exactly one agent:activated or agent:skipped. */
export function answersPerMatch(log: readonly Signal[]): Map<string, number> {
  const answers = new Map<string, number>();
  for (const { name, payload } of log)
    if (name === 'workflow:signal')
      for (const { agent } of payload.matches as { agent: string }[]) answers.set(`${agent} ${payload.signal}`, 0);
  for (const { name, payload } of log) {
    if (name !== 'agent:activated' && name !== 'agent:skipped') continue;
    const key = `${payload.agent} ${payload.signal}`;
    answers.set(key, (answers.get(key) ?? Number.NaN) + 1);
  }
  return answers;
}
